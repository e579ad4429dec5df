"""Fixtures of the tests of light in layers."""

from tests.light.conftest import head_files, short_pilot

__all__ = ["head_files", "short_pilot"]
