"""What the scripts of the denoise engine are made of."""
