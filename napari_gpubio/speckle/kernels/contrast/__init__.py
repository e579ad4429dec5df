"""Window sums and contrast: the same integers and the same maps on the CPU and on GPUs."""
