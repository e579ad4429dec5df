"""Window sums and contrast: the same whole numbers and the same maps on the CPU and on GPUs."""
