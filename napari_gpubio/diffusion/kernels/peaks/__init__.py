"""Maxima of FODs: the CPU and GPU backends."""
