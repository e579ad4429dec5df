"""Fixtures of the light engine's tests."""

import pytest

from napari_gpubio.light.kernels.layers import gpu


@pytest.fixture
def short_pilot(monkeypatch):
    """A pilot run that leaves something to do."""
    monkeypatch.setattr(gpu, "PILOT_PHOTONS", 50)
