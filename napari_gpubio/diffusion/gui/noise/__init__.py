"""Denoising a diffusion scan in the dock widget "Diffusion tensors"."""
