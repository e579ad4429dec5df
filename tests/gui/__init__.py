"""Tests of what every dock widget stands on."""
