"""Adaptive non-local means: the CPU and GPU backends."""
