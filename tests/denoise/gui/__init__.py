"""Tests of the dock widget "Denoise"."""
