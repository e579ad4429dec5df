"""Products of the fluences of many optodes, on the CPU and in CUDA (CuPy)."""
