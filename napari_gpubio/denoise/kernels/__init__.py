"""The filters on the CPU and the GPU."""
