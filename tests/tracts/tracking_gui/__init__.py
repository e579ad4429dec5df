"""Tests of the dock widget "Fiber tracking"."""
