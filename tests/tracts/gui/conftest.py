"""Fixtures of the tests of the dock widgets."""

import pytest
from napari.utils._proxies import PublicOnlyProxy

from napari_gpubio.tracts.gui import tensor_panel
from tests.dock_widgets import HeldAtItsEnd, save_scripts_as, until_the_end
from tests.tracts.gui import tensor_samples
from tests.tracts.gui.tracking_samples import CALLOSUM, CORTICOSPINAL, HeldTracking, User, add_maps, add_panel


@pytest.fixture(autouse=True)
def unanswered(monkeypatch):
    """Answers the question where a script goes with nowhere, unless a test says more."""
    save_scripts_as(monkeypatch, None)


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
    yield from HeldAtItsEnd(monkeypatch, tensor_panel, "fit_tensors_steps").until_the_end()


# -- Fiber tracking ---------------------------------------------------------------------------------------------------


@pytest.fixture
def empty(viewer, qtbot):
    """The user of a panel in an empty viewer."""
    for panel in until_the_end(qtbot, viewer, add_panel(viewer)):
        yield User(viewer, panel, qtbot)


@pytest.fixture
def user(viewer, empty):
    """The user of a panel with FA and DEC of the sample."""
    add_maps(viewer)
    return empty


@pytest.fixture
def one(user):
    """The user of a panel with one bundle."""
    user.click(CALLOSUM)
    return user


@pytest.fixture
def two(one):
    """The user of a panel with two bundles, the second one current."""
    one.click(CORTICOSPINAL, "Shift")
    return one


@pytest.fixture
def held(monkeypatch):
    """Holds every run back before its end until ``go`` is set."""
    yield from HeldTracking(monkeypatch).until_the_end()
