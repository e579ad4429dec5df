"""Which voxels, spheres and boxes fibers pass: exact walks of their segments."""
