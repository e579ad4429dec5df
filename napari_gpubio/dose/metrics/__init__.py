"""Dose-volume histograms and what is read off them."""
