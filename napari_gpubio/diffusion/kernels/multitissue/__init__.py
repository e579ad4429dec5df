"""Least squares under linear inequalities, solved exactly, for FODs of several tissues: the CPU and GPU backends."""
