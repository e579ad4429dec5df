"""The dock widget "Fiber tracking": moving seeds, and a real mouse."""

from types import SimpleNamespace

import numpy as np
import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_gpubio import tracts
from napari_gpubio.core.space import apply_affine
from napari_gpubio.gui.views import camera_of, set_view
from tests.dock_widgets import MILLISECONDS, Mouse, button, moved
from tests.tracts.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    add_maps,
    add_panel,
    click,
    fibers_layers,
    field,
    go_to,
    markers,
    on_screen,
    settle,
    tractogram,
)

# -------------------------------------------------------------------------------------------------- moving a seed


@pytest.mark.display
def test_dragging_a_marker_shows_a_preview_and_dropping_it_the_full_set(viewer, panel, qtbot):
    panel.seed_box.form.widget("points").value = 100
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer = fibers_layers(viewer)["bundle 1"]
    assert tractogram(layer).parameters["launched"] == 500
    target = moved(CALLOSUM, 0.0, -6.0, 0.0)
    mouse = Mouse(viewer)
    mouse.press(on_screen(CALLOSUM))
    camera = camera_of(viewer)
    assert not camera.mouse_pan
    mouse.move(on_screen(target))
    assert np.allclose(markers(viewer), [target], atol=1e-4)
    assert np.allclose(panel.bundles.current.center_mm, CALLOSUM, atol=1e-4)
    qtbot.waitUntil(lambda: tractogram(layer).parameters["launched"] <= 200, timeout=MILLISECONDS)
    seeds = np.asarray(tractogram(layer).parameters["seeds_mm"])
    assert np.linalg.norm(seeds - target, axis=1).max() < 3.01
    mouse.release(on_screen(target))
    settle(qtbot, panel)
    assert camera.mouse_pan
    assert tractogram(layer).parameters["launched"] == 500
    assert np.allclose(panel.bundles.current.center_mm, target, atol=1e-4)
    assert list(fibers_layers(viewer)) == ["bundle 1"]


def test_a_drag_is_one_step_to_undo(viewer, one, qtbot):
    steps = [on_screen(moved(CALLOSUM, 0.0, -float(n), 0.0)) for n in range(5)]
    Mouse(viewer).drag(*steps)
    settle(qtbot, one)
    button(one, "Undo").click()
    settle(qtbot, one)
    assert np.allclose(one.bundles.current.center_mm, CALLOSUM, atol=1e-4)
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)


def test_a_seed_stays_where_the_mouse_lets_it_go(viewer, one, qtbot):
    """Canvases leave out moves that come too fast: the last one may be some way before the release."""
    mouse, target = Mouse(viewer), moved(CALLOSUM, 2.0, -6.0, 0.0)
    mouse.press(on_screen(CALLOSUM))
    mouse.move(on_screen(moved(CALLOSUM, 0.0, -3.0, 0.0)))
    mouse.release(on_screen(target))
    settle(qtbot, one)
    assert np.allclose(one.bundles.current.center_mm, target, atol=1e-4)
    assert np.allclose(markers(viewer), [target], atol=1e-4)


def test_dragging_another_bundles_marker_makes_it_current(viewer, one, qtbot):
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, one)
    go_to(viewer, CALLOSUM)
    target = moved(CALLOSUM, 0.0, -4.0, 0.0)
    Mouse(viewer).drag(on_screen(CALLOSUM), on_screen(target))
    settle(qtbot, one)
    assert one.bundles.current.name == "bundle 1"
    assert np.allclose(markers(viewer), [target, CORTICOSPINAL], atol=1e-4)
    assert one.results.layer.name == "bundle 1"


def test_in_3d_a_marker_moves_on_the_plane_that_faces_the_viewer(viewer, one, qtbot):
    viewer.dims.ndisplay = 3
    _, y, x = on_screen(CALLOSUM)
    Mouse(viewer).drag((-300.0, y, x), (-300.0, y - 5.0, x + 2.0))
    settle(qtbot, one)
    assert np.allclose(one.bundles.current.center_mm, moved(CALLOSUM, 2.0, -5.0, 0.0), atol=1e-4)


def test_clicking_a_marker_without_moving_it_changes_nothing(viewer, one, qtbot):
    bundle, fibers = one.bundles.current, tractogram(fibers_layers(viewer)["bundle 1"])
    Mouse(viewer).click(moved(on_screen(CALLOSUM), 0.0, 0.5, 0.5))
    settle(qtbot, one)
    assert one.bundles.current is bundle
    assert tractogram(fibers_layers(viewer)["bundle 1"]) is fibers


def test_a_marker_of_another_slice_does_not_take_the_click(viewer, one, qtbot):
    """It is not drawn in this slice, so nobody can mean it."""
    below = (CALLOSUM[0] + 0.5, CALLOSUM[1] + 0.5, CALLOSUM[2] - 33.0)
    click(viewer, below)
    settle(qtbot, one)
    assert np.allclose(one.bundles.current.center_mm, below, atol=1e-4)


def test_control_and_click_near_a_marker_picks_a_fiber(viewer, one, qtbot):
    layer = fibers_layers(viewer)["bundle 1"]
    near = np.linalg.norm(layer.points - on_screen(CALLOSUM), axis=1).argmin()
    Mouse(viewer, "Control").click(layer.data_to_world(layer.points[near]))
    settle(qtbot, one)
    assert layer.selected_fiber is not None


# ----------------------------------------------------------------------------------------------- with a real mouse


@pytest.fixture
def window(make_napari_viewer):
    """A viewer on screen with FA and a panel, and the widget that the mouse goes to."""
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(1100, 800)
    panel = add_panel(viewer)
    add_maps(viewer)
    set_view(viewer, "neurological")
    viewer.reset_view()
    yield SimpleNamespace(viewer=viewer, panel=panel, canvas=viewer.window._qt_viewer.canvas)
    panel.teardown()


def pixel_of(window, world):
    """Where a world position is drawn on the canvas."""
    QApplication.processEvents()
    window.canvas.native.grabFramebuffer()  # brings the camera's transform up to date
    displayed = window.viewer.dims.displayed
    position = [on_screen(world)[axis] for axis in displayed][::-1] + [0] * (len(displayed) == 2)
    x, y, _, w = (window.canvas.view.transform * window.canvas.view.scene.transform).map(position)
    return QPoint(round(x / w), round(y / w))


def press_and_release(window, pixel, modifier=Qt.KeyboardModifier.NoModifier):
    native = window.canvas.native
    QTest.mouseMove(native, pixel)
    QTest.mouseClick(native, Qt.MouseButton.LeftButton, modifier, pixel)


@pytest.mark.display
def test_real_clicks_in_2d(window, qtbot):
    viewer, panel = window.viewer, window.panel
    for axis in range(3):
        viewer.dims.order = [axis, *[a for a in range(3) if a != axis]]
        viewer.reset_view()
        go_to(viewer, CALLOSUM)
        press_and_release(window, pixel_of(window, CALLOSUM), Qt.KeyboardModifier.ShiftModifier)
        settle(qtbot, panel)
        pixel_mm = 1.0 / camera_of(viewer).zoom
        off = np.abs(np.asarray(panel.bundles.current.center_mm) - CALLOSUM)
        assert off[2 - axis] < 1e-4  # the slice itself
        assert off.max() <= 1.5 * pixel_mm
        assert len(panel.bundles) == axis + 1
        if axis < 2:  # away from the marker, so that the next click does not grab it
            panel.bundles.move((40.0, -40.0, 0.0))


@pytest.mark.display
def test_real_click_and_drag_in_3d(window, qtbot):
    viewer, panel = window.viewer, window.panel
    viewer.layers["study DEC"].visible = False
    viewer.dims.ndisplay = 3
    camera_of(viewer).angles = (10.0, 25.0, 70.0)
    viewer.reset_view()
    camera_of(viewer).angles = (10.0, 25.0, 70.0)
    pixel = pixel_of(window, CALLOSUM)
    press_and_release(window, pixel)
    settle(qtbot, panel)
    seed = np.asarray(panel.bundles.current.center_mm)
    shown_at = pixel_of(window, seed)
    assert abs(shown_at.x() - pixel.x()) <= 2
    assert abs(shown_at.y() - pixel.y()) <= 2
    voxel = tuple(np.round(apply_affine(np.linalg.inv(field().affine), seed)).astype(int))
    at_callosum = tuple(np.round(apply_affine(np.linalg.inv(field().affine), CALLOSUM)).astype(int))
    fa = tracts.tensors.scalar_map(field(), "FA")
    assert fa[voxel] >= fa[at_callosum] - 0.02  # the brightest under the pixel
    native, end = window.canvas.native, QPoint(shown_at.x() + 12, shown_at.y() - 7)
    angles = camera_of(viewer).angles
    QTest.mousePress(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, shown_at)
    for pixel in (QPoint(shown_at.x() + 5, shown_at.y() - 3), end):
        qtbot.wait(30)  # vispy leaves out moves that come faster
        QTest.mouseMove(native, pixel)
    QTest.mouseRelease(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, end)
    settle(qtbot, panel)
    dropped = pixel_of(window, panel.bundles.current.center_mm)
    assert abs(dropped.x() - end.x()) <= 2
    assert abs(dropped.y() - end.y()) <= 2
    assert camera_of(viewer).angles == angles  # the view was not turned
