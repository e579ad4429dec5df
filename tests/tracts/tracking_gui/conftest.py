"""Fixtures of the tests of the dock widget "Fiber tracking"."""

import pytest

from tests.dock_widgets import until_the_end
from tests.tracts.tracking_gui.panel_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    HeldTracking,
    add_maps,
    add_panel,
    click,
    settle,
)


@pytest.fixture
def empty(viewer, qtbot):
    """A panel in an empty viewer, set to trace 50 fibers at a click."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))


@pytest.fixture
def panel(viewer, empty):
    """A panel with FA and DEC of the sample."""
    add_maps(viewer)
    return empty


@pytest.fixture
def two(viewer, panel, qtbot):
    """Two bundles, the second one current."""
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, panel)
    return panel


@pytest.fixture
def held(monkeypatch):
    """Holds every run back before its end until ``go`` is set."""
    yield from HeldTracking(monkeypatch).until_the_end()
