"""Fit of multi-exposure contrast."""
