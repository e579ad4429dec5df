"""Tests of the light engine's files."""
