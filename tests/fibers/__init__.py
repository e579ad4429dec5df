"""Tests of fiber tracking."""
