"""Transport of mass along fixels: the CPU and GPU backends."""
