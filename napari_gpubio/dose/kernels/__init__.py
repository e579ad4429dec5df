"""Compiled parts of the dose engine."""
