"""Fixtures of the tests of workflows: the panel of light in a window."""

import pytest

from tests.dock_widgets import until_the_end
from tests.light.gui.panel_samples import add_panel


@pytest.fixture
def panel(viewer, qtbot):
    """A panel of light in an empty viewer."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))
