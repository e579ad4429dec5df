"""Monte Carlo in voxels: the CPU and GPU backends."""
