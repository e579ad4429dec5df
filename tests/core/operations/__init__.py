"""Tests of what every engine stands on."""
