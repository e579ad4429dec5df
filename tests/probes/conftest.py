"""Fixtures of the tests of probes."""

from tests.light.conftest import few_builds, head_files, one_gpu

__all__ = ["few_builds", "head_files", "one_gpu"]
