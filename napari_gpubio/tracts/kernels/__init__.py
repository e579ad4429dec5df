"""Tensor fits and ray tracing on the CPU and the GPU."""
