"""Monte Carlo in voxels: one photon (photon.py, voxels.cu), the backends that trace many, and what the tallies say."""
