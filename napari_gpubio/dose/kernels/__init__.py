"""Counting dose in structures on the CPU and the GPU."""
