"""What happens when files, disks, processes and memory fail: the parts of `benchmarks/robustness.py`."""
