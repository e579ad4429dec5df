"""Counting: dose interpolated at samples of structures and tallied in integers, on the CPU or the GPU."""
