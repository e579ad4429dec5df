"""Fixtures of the tests of what all dock widgets share."""

import pytest
from napari.settings import get_settings

from tests import panel_walk
from tests.harness.windows import close_window, open_window


@pytest.fixture
def window_is_shown():
    """Pictures are taken of the window."""
    return True


@pytest.fixture
def viewer(kept_window):
    """A window that is shown."""
    kept_window.window.resize(900, 700)
    return kept_window


@pytest.fixture(scope="module")
def _window_with_layers(napari_in_tests):
    viewer = open_window(shown=True)
    panel_walk.add_layers(viewer)
    yield viewer
    close_window(viewer)


@pytest.fixture
def window_with_layers(_window_with_layers, qtbot):
    """One window for all walks of a file, with layers for every panel; each walk takes its panel away again."""
    viewer, layers = _window_with_layers, list(_window_with_layers.layers)
    window = viewer.window._qt_window
    with qtbot.waitExposed(window):
        window.show()
    yield viewer
    get_settings().reset()
    window.hide()  # the windows of other tests are alone on screen
    assert list(viewer.layers) == layers
    assert not viewer.window.dock_widgets
