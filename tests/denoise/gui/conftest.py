"""Fixtures of the tests of the dock widget "Denoise"."""

import pytest
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.denoise import volumes
from napari_gpubio.denoise.gui.modes import FluenceMode
from tests.denoise.gui.panel_samples import add_panel
from tests.dock_widgets import Held, until_the_end


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
    """Holds every run back after its first bricks until ``go`` is set."""
    yield from Held(monkeypatch, volumes, "denoise_steps").until_the_end()


@pytest.fixture
def in_fluence_mode(panel):
    """The panel's mode is "fluence"."""
    panel.mode_box.setCurrentText(FluenceMode.title)
    assert isinstance(panel.mode, FluenceMode)
