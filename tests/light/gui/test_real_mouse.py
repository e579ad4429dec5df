"""The dock widget "Light transport" on screen: in a narrow dock, and with the mouse of the operating system."""

from types import SimpleNamespace

import numpy as np
import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QScrollArea

from napari_gpubio.gui.views import camera_of, set_view
from tests.dock_widgets import MILLISECONDS
from tests.light.gui.panel_samples import (
    CENTER,
    LEFT,
    RADIUS,
    RIGHT,
    TOP,
    add_ball,
    add_panel,
    go_to,
    markers,
    on_screen,
    on_surface,
    outwards,
    position,
    set_gates,
    settle,
)


@pytest.fixture
def window_is_shown():
    return True


@pytest.fixture
def window(kept_window, qtbot):
    """A viewer on screen with the ball and a panel, and the widget that the mouse goes to."""
    viewer = kept_window
    viewer.window.resize(900, 700)
    panel = add_panel(viewer)
    panel.voxels.run_box.set_live(False)
    add_ball(viewer)
    set_view(viewer, "neurological")
    viewer.reset_view()
    settle(qtbot, panel)
    yield SimpleNamespace(viewer=viewer, panel=panel, canvas=viewer.window._qt_viewer.canvas)
    panel.teardown()


def pixel_of(window, world):
    """Where a world position is drawn on the canvas."""
    QApplication.processEvents()
    window.canvas.native.grabFramebuffer()  # brings the camera's transform up to date
    dims = window.viewer.dims
    displayed = [axis - (dims.ndim - 3) for axis in dims.displayed]  # a time axis may come first
    place = [on_screen(world)[axis] for axis in displayed][::-1] + [0] * (len(displayed) == 2)
    x, y, _, w = (window.canvas.view.transform * window.canvas.view.scene.transform).map(place)
    return QPoint(round(x / w), round(y / w))


def press_and_release(window, pixel, modifier=Qt.KeyboardModifier.NoModifier):
    native = window.canvas.native
    QTest.mouseMove(native, pixel)
    QTest.mouseClick(native, Qt.MouseButton.LeftButton, modifier, pixel)


def drag(window, start, end, qtbot):
    native = window.canvas.native
    QTest.mousePress(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, start)
    for pixel in ((start + end) / 2, end):
        qtbot.wait(30)  # vispy leaves out moves that come faster
        QTest.mouseMove(native, pixel)
    QTest.mouseRelease(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, end)


@pytest.mark.display
@pytest.mark.parametrize("first", range(4))
def test_it_fits_a_dock_of_400_pixels(window, qtbot, first):
    panel = window.panel
    panel.voxels.place_source(LEFT)
    panel.voxels.controller.add_detector(TOP)
    settle(qtbot, panel)
    assert panel.minimumWidth() <= 402
    scroll = panel.findChild(QScrollArea)
    form = panel.voxels.source_box.form
    for kind in form.widget("source").choices[first::4]:
        form.widget("source").value = kind
        assert scroll.widget().minimumSizeHint().width() <= scroll.viewport().width(), kind


@pytest.mark.display
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_real_clicks_and_drags_in_every_plane(window, qtbot, order):
    viewer, panel = window.viewer, window.panel
    viewer.dims.order = order
    go_to(viewer, CENTER)
    viewer.reset_view()
    world_axis = 2 - order[1]  # the vertical axis of the canvas
    target = np.array(CENTER)
    target[world_axis] += RADIUS
    press_and_release(window, pixel_of(window, target))
    assert np.linalg.norm(position(panel) - target) < 2.6  # the largest voxel edge
    assert on_surface(position(panel))
    other = np.array(CENTER)
    other[2 - order[2]] += RADIUS
    drag(window, pixel_of(window, position(panel)), pixel_of(window, other), qtbot)
    assert np.linalg.norm(position(panel) - other) < 2.6
    press_and_release(window, pixel_of(window, target), Qt.KeyboardModifier.ShiftModifier)
    assert np.linalg.norm(np.subtract(panel.voxels.controller.optodes.detectors[0].position_mm, target)) < 2.6


@pytest.mark.daily
@pytest.mark.display
def test_real_click_and_drag_in_3d(window, qtbot):
    viewer, panel = window.viewer, window.panel
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    camera_of(viewer).angles = (20.0, 30.0, 60.0)
    pixel = pixel_of(window, CENTER) + QPoint(25, -30)
    press_and_release(window, pixel)
    assert on_surface(position(panel))
    drawn = pixel_of(window, position(panel))
    assert abs(drawn.x() - pixel.x()) <= 1
    assert abs(drawn.y() - pixel.y()) <= 1
    toward_viewer = -np.asarray(camera_of(viewer).view_direction)[::-1]
    assert outwards(position(panel)) @ toward_viewer > 0.3  # the side that is seen
    angles, end = camera_of(viewer).angles, drawn + QPoint(-60, 40)
    drag(window, drawn, end, qtbot)
    drawn = pixel_of(window, position(panel))
    assert abs(drawn.x() - end.x()) <= 2
    assert abs(drawn.y() - end.y()) <= 2
    assert on_surface(position(panel))
    assert camera_of(viewer).angles == angles  # the view was not turned


@pytest.mark.display
def test_with_time_gates_clicks_still_find_the_surface(window, qtbot):
    viewer, panel = window.viewer, window.panel
    set_gates(panel.voxels.run_box, 1.0, 4)
    panel.voxels.place_source(LEFT)
    panel.run_button.click()
    settle(qtbot, panel)
    assert viewer.dims.ndim == 4
    go_to(viewer, CENTER)
    press_and_release(window, pixel_of(window, RIGHT))
    assert np.linalg.norm(position(panel) - RIGHT) < 2.6
    assert len(markers(viewer)) == 1
    qtbot.waitUntil(lambda: not panel.running, timeout=MILLISECONDS)
