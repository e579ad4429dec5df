"""Fixtures of the tests of the dock widget "Dose-volume histogram"."""

import pytest
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.dose.live import LiveDvh
from tests.dock_widgets import Held, until_the_end
from tests.dose.gui.panel_samples import User, add_panel


@pytest.fixture
def viewer(viewer):
    """A viewer as plugins see it."""
    return PublicOnlyProxy(viewer)


@pytest.fixture
def panel(viewer, qtbot):
    """A panel in an empty viewer."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))


@pytest.fixture
def user(viewer, panel, qtbot):
    return User(viewer, panel, qtbot)


@pytest.fixture
def filled_panel(user):
    """The panel with the histograms of a dose in two organs."""
    user.add_case()
    user.run()
    return user.panel


@pytest.fixture
def held(monkeypatch):
    """Holds every run back after its first tasks until ``go`` is set."""
    yield from Held(monkeypatch, LiveDvh, "steps").until_the_end()
