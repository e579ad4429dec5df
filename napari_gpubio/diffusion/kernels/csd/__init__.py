"""Constrained spherical deconvolution of one tissue: the CPU and GPU backends."""
