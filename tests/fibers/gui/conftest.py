"""Fixtures of the tests of the dock widgets of fiber tracking."""

import pytest

from tests.diffusion.gui.conftest import fit_panel, held_fit, proxy, unanswered
from tests.dock_widgets import until_the_end
from tests.fibers.gui.tracking_samples import CALLOSUM, CORTICOSPINAL, HeldTracking, User, add_maps, add_panel

__all__ = ["fit_panel", "held_fit", "proxy", "unanswered"]


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
