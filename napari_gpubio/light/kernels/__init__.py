"""Photon transport in voxels on the CPU and the GPU."""
