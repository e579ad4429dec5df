"""Fixtures of the tests of the dock widget "Diffusion tensors"."""

import pytest
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.tracts.gui import tensor_panel as tensors
from tests.dock_widgets import HeldAtItsEnd, until_the_end
from tests.tracts.tensor_gui.panel_samples import add_panel


@pytest.fixture
def viewer(viewer):
    """A viewer as plugins see it."""
    return PublicOnlyProxy(viewer)


@pytest.fixture
def panel(viewer, qtbot):
    """A panel in an empty viewer."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))


@pytest.fixture
def held(monkeypatch):
    """Holds every fit back before its end until ``go`` is set."""
    yield from HeldAtItsEnd(monkeypatch, tensors, "fit_steps").until_the_end()
