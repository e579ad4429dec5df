"""Tracing of fibers, and draws of a bootstrap, on the CPU and the GPU."""
