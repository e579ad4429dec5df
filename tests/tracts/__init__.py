"""Tests of tracts."""
