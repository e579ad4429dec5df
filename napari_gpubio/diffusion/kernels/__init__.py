"""Fits of tensors and FODs, their peaks, and noise, on the CPU and the GPU."""
