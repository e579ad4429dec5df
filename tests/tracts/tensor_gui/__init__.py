"""Tests of the dock widget "Diffusion tensors"."""
