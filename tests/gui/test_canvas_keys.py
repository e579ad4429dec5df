"""Keys on the canvas: arrows move what the panel in front has placed, pages are slices, Enter runs, Escape stops."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.gui.canvas_keys import bind_canvas_keys
from napari_gpubio.gui.crosshair import hide_crosshair, show_crosshair
from napari_gpubio.gui.picking import MarkerTool
from napari_gpubio.gui.views import camera_of, set_view
from tests.gui.counting_panel import SECONDS, CountingPanel, finished


class Marker(MarkerTool):
    """One marker, which keys move."""

    def __init__(self, viewer, panel):
        super().__init__(viewer, lambda: self.places, lambda: 1.0, panel)
        self.places, self.offsets = np.zeros((1, 3)), []
        self.nudged.connect(lambda offset: self.offsets.append(offset.tolist()))


def press(viewer, key):
    """What napari calls for a key on the canvas."""
    viewer.keymap[next(one for one in viewer.keymap if str(one) == key)](viewer)


@pytest.fixture
def viewer():
    viewer = ViewerModel()
    viewer.add_image(np.zeros((8, 9, 10)), scale=(3.0, 2.0, 1.0))
    set_view(viewer, "neurological")
    return viewer


@pytest.fixture
def panel(qtbot, viewer):
    panel = CountingPanel(viewer)
    qtbot.addWidget(panel)
    panel.tool = panel.own(Marker(viewer, panel))
    yield panel
    panel.teardown()


@pytest.mark.parametrize(
    ("view", "order", "right", "up"),
    [
        ("neurological", (0, 1, 2), [0, 0, 1], [0, 2, 0]),
        ("radiological", (0, 1, 2), [0, 0, -1], [0, 2, 0]),
        ("neurological", (1, 0, 2), [0, 0, 1], [3, 0, 0]),
        ("neurological", (2, 0, 1), [0, 2, 0], [3, 0, 0]),
    ],
)
def test_arrows_move_a_marker_by_a_voxel_as_it_is_seen(viewer, panel, view, order, right, up):
    set_view(viewer, view)
    viewer.dims.order = order
    for key in ("Right", "Up", "Left", "Down"):
        press(viewer, key)
    signs = ((right, 1), (up, 1), (right, -1), (up, -1))
    assert panel.tool.offsets == [[sign * one for one in way] for way, sign in signs]


def test_arrows_move_along_the_axis_that_a_3_d_view_shows_most(viewer, panel):
    viewer.dims.ndisplay = 3
    camera_of(viewer).set_view_direction((0.1, 1.0, 0.1), (1.0, 0.0, 0.0))
    press(viewer, "Up")
    press(viewer, "Right")
    (up, right) = np.abs(panel.tool.offsets)
    assert up.tolist() == [3, 0, 0]
    assert right.tolist() == [0, 0, 1]


def test_without_a_marker_left_and_right_step_the_slider_as_before(viewer, panel):
    panel.tool.places = np.empty((0, 3))
    viewer.dims.set_current_step(0, 4)
    press(viewer, "Right")
    assert viewer.dims.current_step[0] == 5
    press(viewer, "PageDown")
    press(viewer, "PageDown")
    assert viewer.dims.current_step[0] == 3
    assert panel.tool.offsets == []


def test_enter_runs_and_escape_stops(qtbot, viewer, panel):
    press(viewer, "Enter")
    assert panel.begun.wait(SECONDS)
    with finished(qtbot, panel):
        press(viewer, "Escape")
    assert not panel.running


def test_napari_has_its_keys_back_when_the_panel_is_closed(viewer, panel):
    bound = {str(key) for key in viewer.keymap}
    panel.teardown()
    assert {"Left", "Enter", "Escape", "PageUp"} & {str(key) for key in viewer.keymap} == set()
    panel.revive()
    assert {str(key) for key in viewer.keymap} == bound


def test_arrows_move_the_crosshair_where_no_panel_has_a_marker(viewer, panel):
    show_crosshair(viewer)
    viewer.dims.set_point((0, 1, 2), (6.0, 4.0, 3.0))
    press(viewer, "Right")
    assert panel.tool.offsets, "the marker goes first"
    panel.tool.places = np.empty((0, 3))
    press(viewer, "Right")
    press(viewer, "Up")
    assert tuple(viewer.dims.point) == (6.0, 6.0, 4.0)
    panel.teardown()
    hide_crosshair(viewer)


def test_arrows_on_another_canvas_move_the_same_crosshair_as_it_is_seen_there(viewer):
    show_crosshair(viewer)
    pane = ViewerModel()
    pane.add_image(np.zeros((8, 9, 10)), scale=(3.0, 2.0, 1.0))
    set_view(pane, "neurological")
    pane.dims.order = (1, 0, 2)
    bind_canvas_keys(viewer).bind_arrows(pane)
    viewer.dims.set_point((0, 1, 2), (6.0, 4.0, 3.0))
    press(pane, "Up")
    assert tuple(viewer.dims.point) == (9.0, 4.0, 3.0)
