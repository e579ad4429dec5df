"""Speckle contrast on the CPU and the GPU."""
