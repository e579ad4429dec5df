"""Fixtures for tests of input files of MCX."""

import pytest

from napari_gpubio.mcx.io.cases import read_mcx
from tests.mcx.samples import written


@pytest.fixture
def read(tmp_path):
    """A function that writes the JSON of a case and reads it."""
    return lambda root: read_mcx(written(tmp_path, root))
