"""Photon transport in planar layers on the CPU and the GPU."""
