"""Tensor fit and eigen-decomposition: the CPU and GPU backends."""
