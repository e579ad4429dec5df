"""Tests of the dock widget "Light in layers"."""
