"""Diffusion on a voxel grid: conjugate gradients with one multigrid cycle as preconditioner, on the CPU and in CUDA."""
