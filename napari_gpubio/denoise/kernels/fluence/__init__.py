"""Scale selection for Monte Carlo fluence: the CPU and GPU backends."""
