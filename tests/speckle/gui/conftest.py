"""Fixtures of the tests of the dock widget "Laser speckle"."""

import pytest
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.speckle import operations
from tests.dock_widgets import Held, until_the_end
from tests.speckle.gui.panel_samples import add_panel


@pytest.fixture
def viewer(viewer):
    """A viewer as plugins see it."""
    return PublicOnlyProxy(viewer)


@pytest.fixture
def panel(viewer, qtbot, errors):
    """A panel in an empty viewer; nothing may have been raised in a thread or in Qt when the test is over."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))
    assert errors() == []


@pytest.fixture
def held(monkeypatch):
    """Holds every run back after its first maps until ``go`` is set."""
    yield from Held(monkeypatch, operations, "contrast_steps").until_the_end()
