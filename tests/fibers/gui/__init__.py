"""Tests of the dock widgets "Diffusion tensors" and "Fiber tracking"."""
