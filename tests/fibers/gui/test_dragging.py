"""The dock widget "Fiber tracking": moving seeds, and a real mouse."""

import dataclasses

import numpy as np
import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication
from scipy.spatial.transform import Rotation

from napari_gpubio import diffusion
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.napari_io import scan_layer
from napari_gpubio.gui.looks import filter_of, options_of
from napari_gpubio.gui.views import camera_of, set_view
from tests.dock_widgets import MILLISECONDS, Mouse, moved
from tests.fibers.gui.tracking_samples import (
    CALLOSUM,
    CORTICOSPINAL,
    User,
    add_maps,
    add_panel,
    field,
    on_screen,
    tractogram,
    voxel_at,
)

# -- moving a seed ----------------------------------------------------------------------------------------------------


@pytest.mark.display
def test_dragging_a_marker_shows_a_preview_and_dropping_it_the_full_set(viewer, user):
    user.panel.seed_box.form.widget("points").value = 100
    user.click(CALLOSUM)
    layer = user.layers["bundle 1"]
    assert tractogram(layer).parameters["launched"] == 500
    target, mouse, camera = moved(CALLOSUM, 0.0, -6.0, 0.0), Mouse(viewer), camera_of(viewer)
    mouse.press(on_screen(CALLOSUM))
    assert not camera.mouse_pan
    mouse.move(on_screen(target))
    assert np.allclose(user.markers, [target], atol=1e-4)
    assert np.allclose(user.seed, CALLOSUM, atol=1e-4)
    user.qtbot.waitUntil(lambda: tractogram(layer).parameters["launched"] <= 200, timeout=MILLISECONDS)
    assert np.linalg.norm(np.asarray(tractogram(layer).parameters["seeds_mm"]) - target, axis=1).max() < 3.01
    mouse.release(on_screen(target))
    user.settle()
    assert camera.mouse_pan
    assert tractogram(layer).parameters["launched"] == 500
    assert np.allclose(user.seed, target, atol=1e-4)
    assert list(user.layers) == ["bundle 1"]


def test_a_drag_is_one_step_to_undo(one):
    one.drag(*(moved(CALLOSUM, 0.0, -float(n), 0.0) for n in range(5)))
    one.undo()
    assert np.allclose(one.seed, CALLOSUM, atol=1e-4)
    assert np.allclose(one.markers, [CALLOSUM], atol=1e-4)


def test_a_seed_stays_where_the_mouse_lets_it_go(viewer, one):
    """Canvases leave out moves that come too fast: the last one may be some way before the release."""
    mouse, target = Mouse(viewer), moved(CALLOSUM, 2.0, -6.0, 0.0)
    mouse.press(on_screen(CALLOSUM))
    mouse.move(on_screen(moved(CALLOSUM, 0.0, -3.0, 0.0)))
    mouse.release(on_screen(target))
    one.settle()
    assert np.allclose(one.seed, target, atol=1e-4)
    assert np.allclose(one.markers, [target], atol=1e-4)


def test_dragging_another_bundles_marker_makes_it_current(two):
    two.go_to(CALLOSUM)
    target = moved(CALLOSUM, 0.0, -4.0, 0.0)
    two.drag(CALLOSUM, target)
    assert two.bundle.name == two.panel.results.layer.name == "bundle 1"
    assert np.allclose(two.markers, [target, CORTICOSPINAL], atol=1e-4)


def test_in_3d_a_marker_moves_on_the_plane_that_faces_the_viewer(viewer, one):
    viewer.dims.ndisplay = 3
    _, y, x = on_screen(CALLOSUM)
    one.drag((-300.0, y, x), (-300.0, y - 5.0, x + 2.0), world=False)
    assert np.allclose(one.seed, moved(CALLOSUM, 2.0, -5.0, 0.0), atol=1e-4)


def test_clicks_near_a_marker(viewer, one):
    bundle, layer, fibers = one.bundle, one.layers["bundle 1"], one.fibers()
    Mouse(viewer).click(moved(on_screen(CALLOSUM), 0.0, 0.5, 0.5))
    one.settle()
    assert one.bundle is bundle  # the marker did not move
    assert one.fibers() is fibers
    near = np.linalg.norm(layer.points - on_screen(CALLOSUM), axis=1).argmin()
    Mouse(viewer, "Control").click(layer.data_to_world(layer.points[near]))
    one.settle()
    assert layer.selected_fiber is not None
    below = (CALLOSUM[0] + 0.5, CALLOSUM[1] + 0.5, CALLOSUM[2] - 33.0)  # in a slice that does not show the marker
    one.click(below)
    assert np.allclose(one.seed, below, atol=1e-4)


# -- with a real mouse -----------------------------------------------------------------------------------------------


@pytest.fixture
def window(make_window, qtbot):
    """The user of a panel on screen with FA."""
    viewer = make_window(show=True)
    viewer.window.resize(1100, 800)
    user = User(viewer, add_panel(viewer), qtbot)
    add_maps(viewer)
    set_view(viewer, "neurological")
    viewer.reset_view()
    yield user
    user.panel.teardown()


def canvas_of(viewer):
    """The widget that the mouse goes to, and what draws on it."""
    return viewer.window._qt_viewer.canvas


def pixel_of(viewer, world):
    """Where a world position is drawn on the canvas."""
    canvas = canvas_of(viewer)
    QApplication.processEvents()
    canvas.native.grabFramebuffer()  # brings the camera's transform up to date
    displayed = viewer.dims.displayed
    position = [on_screen(world)[axis - viewer.dims.ndim] for axis in displayed][::-1] + [0] * (len(displayed) == 2)
    x, y, _, w = (canvas.view.transform * canvas.view.scene.transform).map(position)
    return QPoint(round(x / w), round(y / w))


def press_and_release(user, pixel, modifier=Qt.KeyboardModifier.NoModifier):
    native = canvas_of(user.viewer).native
    QTest.mouseMove(native, pixel)
    QTest.mouseClick(native, Qt.MouseButton.LeftButton, modifier, pixel)
    user.settle()


def assert_close(pixel, expected):
    assert abs(pixel.x() - expected.x()) <= 2
    assert abs(pixel.y() - expected.y()) <= 2


@pytest.mark.display
@pytest.mark.parametrize("axis", range(3))
def test_real_clicks_in_2d(window, axis):
    viewer, bundles = window.viewer, window.panel.bundles
    viewer.dims.order = [axis, *[a for a in range(3) if a != axis]]
    viewer.reset_view()
    window.go_to(CALLOSUM)
    for count in (1, 2):
        shown = viewer.dims.point[axis]
        press_and_release(window, pixel_of(viewer, CALLOSUM), Qt.KeyboardModifier.ShiftModifier)
        off = np.abs(on_screen(window.seed) - on_screen(CALLOSUM))
        assert on_screen(window.seed)[axis] == pytest.approx(shown, abs=1e-4)  # the slice itself
        assert np.delete(off, axis).max() <= 1.5 / camera_of(viewer).zoom  # pixels
        assert len(bundles) == count
        bundles.move((40.0, -40.0, 0.0))  # away from the marker, so that the next click does not grab it


@pytest.mark.daily
@pytest.mark.display
def test_real_click_and_drag_in_3d(window):
    viewer, camera = window.viewer, camera_of(window.viewer)
    viewer.layers["study DEC"].visible = False
    viewer.dims.ndisplay = 3
    camera.angles = (10.0, 25.0, 70.0)
    viewer.reset_view()
    camera.angles = (10.0, 25.0, 70.0)
    pixel = pixel_of(viewer, CALLOSUM)
    press_and_release(window, pixel)
    shown_at = pixel_of(viewer, window.seed)
    assert_close(shown_at, pixel)
    fa = diffusion.tensors.scalar_map(field(), "FA")
    assert fa[voxel_at(window.seed)] >= fa[voxel_at(CALLOSUM)] - 0.02  # the brightest under the pixel
    native, end = canvas_of(viewer).native, QPoint(shown_at.x() + 12, shown_at.y() - 7)
    angles, none = camera.angles, Qt.KeyboardModifier.NoModifier
    QTest.mousePress(native, Qt.MouseButton.LeftButton, none, shown_at)
    for pixel in (QPoint(shown_at.x() + 5, shown_at.y() - 3), end):
        window.qtbot.wait(30)  # vispy leaves out moves that come faster
        QTest.mouseMove(native, pixel)
    QTest.mouseRelease(native, Qt.MouseButton.LeftButton, none, end)
    window.settle()
    assert_close(pixel_of(viewer, window.seed), end)
    assert camera.angles == angles  # the view was not turned


def drag_seed(user, start, end):
    """Drag the marker at a pixel to another one with the mouse."""
    native, none = canvas_of(user.viewer).native, Qt.KeyboardModifier.NoModifier
    QTest.mousePress(native, Qt.MouseButton.LeftButton, none, start)
    for pixel in (QPoint((start.x() + end.x()) // 2, (start.y() + end.y()) // 2), end):
        user.qtbot.wait(30)  # vispy leaves out moves that come faster
        QTest.mouseMove(native, pixel)
    QTest.mouseRelease(native, Qt.MouseButton.LeftButton, none, end)
    user.settle()


@pytest.mark.long  # the steps of other tests in one walk: real clicks here, a tilted scan in test_scripts
@pytest.mark.display
def test_a_tilted_real_brain_from_the_click_to_undo(shared_data, make_window, qtbot, tmp_path):
    scan, turn = diffusion.io.read_dwi(shared_data / "dwi" / "whole_brain_b1000" / "dwi.nii.gz"), np.eye(4)
    turn[:3, :3] = Rotation.from_euler("xy", [14, 9], degrees=True).as_matrix()
    tilted = dataclasses.replace(scan, affine=turn @ scan.affine, directions=scan.directions @ turn[:3, :3].T)
    genu, splenium, tract = (
        apply_affine(turn, p) for p in ((0.0, 25.0, 2.0), (0.0, -36.0, 14.0), (-24.0, -12.0, 14.0))
    )
    viewer = make_window(show=True)
    viewer.window.resize(1100, 800)
    user = User(viewer, add_panel(viewer), qtbot)
    try:
        data, keywords, _ = scan_layer(tilted, "tilted")
        viewer.add_image(data, **keywords)
        user.go_to(splenium)
        viewer.reset_view()
        press_and_release(user, pixel_of(viewer, splenium))
        off = np.abs(user.seed - splenium)
        assert off[:2].max() <= 1.5 / camera_of(viewer).zoom
        assert off[2] <= 1.3  # half of the slider's step
        lengths = user.fibers().per_fiber["length_mm"]
        ends = [fiber[[0, -1]] for fiber in user.fibers()]
        assert np.mean([end[:, 0].min() < splenium[0] < end[:, 0].max() for end in ends]) > 0.8  # from side to side
        user.filter_by("length_mm", np.median(lengths), None)
        layer = user.layers["bundle 1"]
        layer.colormap, layer.color_by = "magma", "mean_fa"
        options = options_of(layer)
        user.press("Remove")
        assert not user.layers
        user.undo()
        assert options_of(user.layers["bundle 1"]) == options
        user.go_to(user.seed)
        drag_seed(user, pixel_of(viewer, user.seed), pixel_of(viewer, [*tract[:2], user.seed[2]]))
        assert np.abs(user.seed - tract)[:2].max() <= 1.5 / camera_of(viewer).zoom
        viewer.layers["tilted DEC"].visible = False
        viewer.dims.ndisplay = 3
        viewer.reset_view()
        pixel = pixel_of(viewer, genu)
        press_and_release(user, pixel, Qt.KeyboardModifier.ShiftModifier)
        assert user.names == ["bundle 1", "bundle 2"]
        assert_close(pixel_of(viewer, user.seed), pixel)
        kept = user.layers["bundle 1"]
        assert np.array_equal(kept.shown, kept.per_fiber["length_mm"] >= filter_of(kept).low)
    finally:
        user.panel.teardown()
