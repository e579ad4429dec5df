"""What the scripts about dose-volume histograms are made of."""
