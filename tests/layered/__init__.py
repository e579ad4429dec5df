"""Tests of light in layers."""
