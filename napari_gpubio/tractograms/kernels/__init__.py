"""What fibers pass and connect, on the CPU and the GPU."""
