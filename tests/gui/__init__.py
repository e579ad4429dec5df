"""Tests of viewer."""
