"""Streamlines in fields of FODs: the CPU and GPU backends."""
