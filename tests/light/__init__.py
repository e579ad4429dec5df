"""Tests of light."""
