"""What the benchmarks of the tracts engine are made of; the scripts beside this folder run them."""
