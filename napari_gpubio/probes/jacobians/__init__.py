"""How what detectors measure depends on the coefficients of each voxel: by replay, exact, and from two fluences."""
