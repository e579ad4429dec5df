"""Tensors of bootstrap repeats, drawn on the CPU (Numba) or a GPU."""
