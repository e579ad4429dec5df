"""Photons that are traced again, and products of fluences, on the CPU and the GPU."""
