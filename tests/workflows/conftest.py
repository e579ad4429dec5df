"""Fixtures of the tests of workflows: the panel of light in a window."""

import pytest

from tests.dock_widgets import until_the_end
from tests.light.gui.panel_samples import LEFT, add_ball, add_panel, run, settle


@pytest.fixture
def panel(viewer, qtbot):
    """A panel of light in an empty viewer."""
    yield from until_the_end(qtbot, viewer, add_panel(viewer))


@pytest.fixture
def ran(viewer, panel, qtbot):
    """A panel with a result of the ball."""
    add_ball(viewer)
    settle(qtbot, panel)
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    run(qtbot, panel)
    return panel
