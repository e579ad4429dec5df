"""Fixtures of the tests of light in layers."""

import pytest

from napari_gpubio.layered import operations
from tests.dock_widgets import Held, until_the_end
from tests.light.gui.layers.panel_samples import add_panel


@pytest.fixture
def panel(viewer, qtbot):
    """A panel with two layers and few photons."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))


@pytest.fixture
def held(monkeypatch):
    """Holds every run back until ``go`` is set."""
    yield from Held(monkeypatch, operations, "simulate_steps").until_the_end()
