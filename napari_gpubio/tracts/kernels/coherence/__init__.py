"""Agreement of principal directions between neighboring voxels."""
