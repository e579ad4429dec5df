"""Photons that are traced again: derivatives of what detectors measure, and trajectories."""
