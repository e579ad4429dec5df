"""Fixtures of the tests of the dock widgets."""

import pytest
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.tracts.gui import tensor_panel
from tests.dock_widgets import HeldAtItsEnd, until_the_end
from tests.tracts.gui import tensor_samples
from tests.tracts.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    HeldTracking,
    add_maps,
    add_panel,
    click,
    settle,
)

# -- Diffusion tensors ------------------------------------------------------------------------------------------------


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
    yield from HeldAtItsEnd(monkeypatch, tensor_panel, "fit_steps").until_the_end()


# -- Fiber tracking ---------------------------------------------------------------------------------------------------


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
def one(viewer, panel, qtbot):
    """A panel with one bundle."""
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    return panel


@pytest.fixture
def two(viewer, one, qtbot):
    """A panel with two bundles, the second one current."""
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, one)
    return one


@pytest.fixture
def held(monkeypatch):
    """Holds every run back before its end until ``go`` is set."""
    yield from HeldTracking(monkeypatch).until_the_end()
