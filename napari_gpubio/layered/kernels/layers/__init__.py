"""Monte Carlo in planar layers: the CPU and GPU backends."""
