"""Marchenko-Pastur PCA of 4-D series: the CPU and GPU backends."""
