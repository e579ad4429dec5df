"""Fixtures for tests of input files of MCX."""

import pytest

from napari_gpubio.light.io.mcx.cases import read_mcx
from tests.light.io.mcx.samples import written


@pytest.fixture
def read(tmp_path):
    """A function that writes the JSON of a case and reads it."""
    return lambda root: read_mcx(written(tmp_path, root))
