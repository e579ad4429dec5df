"""Photon transport on the CPU and the GPU: in voxels, in planar layers, and the physics both share."""
