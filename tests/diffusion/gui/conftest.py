"""Fixtures of the tests of the dock widgets of diffusion MRI."""

import pytest
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.diffusion.gui import tensor_panel
from tests.diffusion.gui import tensor_samples
from tests.dock_widgets import HeldAtItsEnd, save_scripts_as, until_the_end
from tests.fibers.gui.tracking_samples import User
from tests.fibers.gui.tracking_samples import add_panel as add_tracking


@pytest.fixture(autouse=True)
def unanswered(monkeypatch):
    """Answers the question where a script goes with nowhere, unless a test says more."""
    save_scripts_as(monkeypatch, None)


@pytest.fixture
def proxy(viewer):
    """A viewer as plugins see it."""
    return PublicOnlyProxy(viewer)


@pytest.fixture
def fit_panel(proxy, qtbot):
    """A panel in an empty viewer."""
    yield from until_the_end(qtbot, proxy, tensor_samples.add_panel(proxy))


@pytest.fixture
def held_fit(monkeypatch):
    """Holds every fit back before its end until ``go`` is set."""
    yield from HeldAtItsEnd(monkeypatch, tensor_panel, "fit_tensors_steps").until_the_end()


@pytest.fixture
def tracking_user(viewer, qtbot):
    """The user of the panel "Fiber tracking" in an empty viewer."""
    for panel in until_the_end(qtbot, viewer, add_tracking(viewer)):
        yield User(viewer, panel, qtbot)
