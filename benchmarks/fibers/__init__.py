"""What the benchmarks of fibers are made of; the scripts beside this folder run them."""
