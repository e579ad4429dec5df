"""What the benchmarks of the light engine are made of; the scripts beside this folder run them."""
