"""The dock widget "Fiber tracking".

Most tests use napari's viewer model, without a window; what a window adds (drawing, docks, a real mouse) is tested in
one, under the marker ``display``.
"""

import dataclasses
import functools
import gc
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils._proxies import PublicOnlyProxy, ReadOnlyWrapper
from napari.utils.interactions import mouse_move_callbacks, mouse_press_callbacks, mouse_release_callbacks
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QComboBox, QLabel, QListWidget, QPushButton
from superqt import QLabeledDoubleRangeSlider

from napari_gpubio import tracts
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine, viewer_to_world, volume_layer_affine, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.layers import KEY, brain_sample_layers, field_of, map_layer, ring_sample_layers, scan_layer
from napari_gpubio.tracts.widget import TensorPanel, TrackingPanel, request
from napari_gpubio.viewer.orientation import camera_of, set_view, view_of
from napari_gpubio.viewer.streamlines import Streamlines

MILLISECONDS = 30_000
CALLOSUM, CORTICOSPINAL, AIR = (0.0, -5.0, 22.0), (-22.0, -18.0, 12.0), (60.0, 60.0, 70.0)
FEW = tracts.Directions(count=5, cone_half_angle_deg=15.0)


@functools.cache
def field():
    """The sample's tensors."""
    return tracts.fit_tensors(tracts.load_brain_phantom())


def on_screen(world):
    return world_to_viewer(world, field().affine, field().shape)


def moved(position, *by):
    return np.asarray(position) + by


@pytest.fixture
def viewer(request, qtbot, monkeypatch):
    """A viewer; with a (hidden) window for tests marked ``display``."""
    monkeypatch.setenv("NAPARI_ENSURE_PLUGIN_MAIN_THREAD", "1")
    if request.node.get_closest_marker("display"):
        return request.getfixturevalue("make_napari_viewer")()
    return ViewerModel()


@pytest.fixture
def empty(viewer, qtbot):
    """A panel in an empty viewer, set to trace 50 fibers at a click."""
    panel = add_panel(viewer)
    if not hasattr(viewer, "window"):
        qtbot.addWidget(panel)
    yield panel
    panel.teardown()


@pytest.fixture
def panel(viewer, empty):
    """A panel with FA and DEC of the sample."""
    add_maps(viewer)
    return empty


def add_panel(viewer):
    panel = TrackingPanel(PublicOnlyProxy(viewer))
    if hasattr(viewer, "window"):
        viewer.window.add_dock_widget(panel, name="Fiber tracking")
    panel.directions_form.set_value(FEW)
    panel.seed_box.form.widget("points").value = 10
    return panel


def add_maps(viewer):
    for name in ("FA", "DEC"):
        data, keywords, _ = map_layer(field(), name, "study")
        viewer.add_image(data, **keywords)


def add_scan(viewer):
    data, keywords, _ = scan_layer(tracts.load_brain_phantom(), "scan")
    return viewer.add_image(data, **keywords)


def add_sample(viewer, sample):
    """What File › Open Sample does, which needs a window."""
    for data, keywords, _ in sample():
        viewer.add_image(data, **keywords)


def add_labels(viewer, centre, size=2, label=1, name="region"):
    """A small painted cube around a world position, on the tensors' grid."""
    array = np.zeros(field().shape, int)
    at = np.round(apply_affine(np.linalg.inv(field().affine), centre)).astype(int)
    array[tuple(slice(i, i + size) for i in at)] = label
    return viewer.add_labels(array.T, name=name, affine=volume_layer_affine(field().affine, field().shape)), array


# ------------------------------------------------------------------------------------------------ what a user does


class Mouse:
    """Presses, moves and releases the left button at viewer positions, as napari's canvas would say it."""

    def __init__(self, viewer, *modifiers, zoom=4.0, button=1):
        self.viewer, self.modifiers, self.zoom, self.button = viewer, modifiers, zoom, button

    def press(self, position):
        mouse_press_callbacks(self.viewer, self._event("mouse_press", position))

    def move(self, position):
        mouse_move_callbacks(self.viewer, self._event("mouse_move", position))

    def release(self, position):
        mouse_release_callbacks(self.viewer, self._event("mouse_release", position))

    def click(self, position):
        self.press(position)
        self.release(position)

    def drag(self, *positions):
        self.press(positions[0])
        for position in positions[1:]:
            self.move(position)
        self.release(positions[-1])

    def _event(self, kind, position):
        viewer = self.viewer
        position = (0.0,) * (viewer.dims.ndim - 3) + tuple(float(p) for p in position)
        flat = viewer.dims.ndisplay == 2
        event = SimpleNamespace(
            type=kind, position=position, button=self.button, modifiers=list(self.modifiers), handled=False,
            is_dragging=kind == "mouse_move", dims_displayed=list(viewer.dims.displayed), camera_zoom=self.zoom,
            view_direction=None if flat else (0.0,) * (viewer.dims.ndim - 3) + (1.0, 0.0, 0.0),
        )  # fmt: skip
        return ReadOnlyWrapper(event, exceptions=("handled",))


def click(viewer, world, *modifiers):
    """Click at a world position (mm) in the slice that shows it."""
    go_to(viewer, world)
    Mouse(viewer, *modifiers).click(on_screen(world))


def go_to(viewer, world):
    viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), on_screen(world))


def settle(qtbot, panel):
    """Wait until nothing runs, waits to run, or is still on its way through the event queue."""

    def still():
        return not panel.running and not panel._retrack.isActive() and panel._preview._running is None

    for _ in range(3):
        qtbot.waitUntil(still, timeout=MILLISECONDS)
        qtbot.wait(5)


def fibers_layers(viewer):
    return {layer.name: layer for layer in viewer.layers if isinstance(layer, Streamlines)}


def tractogram(layer):
    return layer.metadata[KEY]["tractogram"]


def markers(viewer):
    """World positions (mm) of the markers on screen."""
    layer = viewer.layers["seeds"]
    data = np.array([layer.data_to_world(point) for point in layer.data])
    return viewer_to_world(data, field().affine, field().shape)


def by_api(panel, centre, field_=None, settings=None):
    return tracts.track(
        field_ or field(), tracts.ball(centre, 3.0, 10), FEW, settings or panel.settings_form.value(), device="auto"
    )


def assert_same(fibers, expected):
    assert len(expected) > 0
    assert np.array_equal(fibers.offsets, expected.offsets)
    assert np.array_equal(fibers.points, expected.points)


def button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if b.text() == text)


def names_in_list(panel):
    listed = panel.seed_box.findChild(QListWidget)
    return [listed.item(i).text() for i in range(listed.count())]


def choose_in_list(panel, row):
    panel.seed_box.findChild(QListWidget).setCurrentRow(row)


def rename_in_list(panel, name):
    panel.seed_box.findChild(QListWidget).currentItem().setText(name)


def combo_with(panel, data):
    return next(b for b in panel.results.findChildren(QComboBox) if b.findData(data) >= 0)


def shown_texts(panel):
    return [label.text() for label in panel.results.findChildren(QLabel) if not label.isHidden()]


class Held:
    """Holds every run back before its end until ``go`` is set; Stop lets it end with what it has."""

    def __init__(self, monkeypatch):
        self.go, self.waiting, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.fields = []
        real = request.track_steps

        def steps(field, *args, stop, **keywords):
            inner = real(field, *args, stop=stop, **keywords)
            self.fields.append(field)
            try:
                while True:
                    try:
                        yield next(inner)
                    except StopIteration as end:
                        result = end.value
                        break
                self.waiting.set()
                while not (self.go.wait(0.005) or stop.is_set()):
                    yield Step(1, 1, "held")
                return dataclasses.replace(result, complete=self.go.is_set())
            finally:
                self.ended.set()

        monkeypatch.setattr(request, "track_steps", steps)


@pytest.fixture
def held(monkeypatch):
    held = Held(monkeypatch)
    yield held
    held.go.set()


def held_run(qtbot, panel, viewer, held, world=CALLOSUM):
    click(viewer, world)
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    assert panel.running


@pytest.fixture
def errors(qtbot, monkeypatch):
    """What was raised in the event loop or in a worker."""
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    with qtbot.capture_exceptions() as in_qt:
        yield SimpleNamespace(all=lambda: raised + [error[1] for error in in_qt])


# ------------------------------------------------------------------------------------------------------- first steps


def test_an_empty_viewer(viewer, empty):
    assert empty.results.layer is None
    assert any("Click in the brain" in text for text in shown_texts(empty))
    assert "open a diffusion scan" in empty.source_box.placeholderText()
    for act in (empty.run_button.click, button(empty, "New").click, button(empty, "Copy as Python").click):
        empty.clear_message()
        act()
        assert "there are no tensors" in empty.message
        assert "open a diffusion scan" in empty.message
    assert not len(viewer.layers)


def test_a_click_in_an_empty_viewer_says_what_to_do(viewer, empty):
    Mouse(viewer).click((1.0, 2.0))
    assert "tensors" in empty.message
    assert "open" in empty.message
    assert not len(empty.bundles)


@pytest.mark.display
def test_a_click_puts_the_seed_there_and_shows_what_the_api_gives(viewer, panel, qtbot):
    active = viewer.layers.selection.active
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.centre_mm, CALLOSUM, atol=1e-4)
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)
    (layer,) = fibers_layers(viewer).values()
    assert layer.name == "bundle 1"
    assert_same(tractogram(layer), by_api(panel, panel.bundles.current.centre_mm))
    assert np.allclose(layer.data_to_world(layer.points[0]), on_screen(tractogram(layer).points[0]), atol=1e-4)
    assert viewer.layers.selection.active is active
    assert viewer.layers[-1].name == "seeds"
    text = shown_texts(panel)[0]
    assert f"<b>{len(tractogram(layer))}</b> of 50 fibers" in text
    assert "mm" in text
    assert panel.message == ""


def test_fibers_and_seeds_leave_the_sliders_as_they_are(viewer, panel, qtbot):
    """One tick of a slider stays one slice of the volume."""
    before = [r.step for r in viewer.dims.range]
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert np.allclose([r.step for r in viewer.dims.range], before)


@pytest.mark.display
def test_a_click_on_a_scan_fits_it_first(viewer, empty, qtbot):
    scan = add_scan(viewer)
    click(viewer, CALLOSUM)
    settle(qtbot, empty)
    assert [layer.name for layer in viewer.layers] == ["scan", "scan FA", "scan DEC", "bundle 1", "seeds"]
    assert not scan.visible
    assert empty.source_box.layer.name == "scan FA"
    assert np.array_equal(empty.field.tensors, field().tensors)


def test_the_fibers_of_the_first_click_are_those_of_the_settings_on_show(viewer, empty, qtbot):
    add_scan(viewer)
    click(viewer, CALLOSUM)
    settle(qtbot, empty)
    assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), by_api(empty, empty.bundles.current.centre_mm))


def test_a_click_in_the_air_is_a_sentence_and_loses_nothing(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    before = tractogram(fibers_layers(viewer)["bundle 1"])
    click(viewer, AIR)
    settle(qtbot, panel)
    assert "background" in panel.message
    assert "(60.0, 60.0, 70.0) mm" in panel.message
    assert tractogram(fibers_layers(viewer)["bundle 1"]) is before
    # what is on screen belongs together: the marker, the list and the fibers
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)
    assert np.allclose(panel.bundles.current.centre_mm, CALLOSUM, atol=1e-4)


def test_a_click_beside_the_volume_is_a_sentence(viewer, panel, qtbot):
    Mouse(viewer).click((0.0, 500.0, 500.0))
    settle(qtbot, panel)
    assert "outside the volume" in panel.message


def test_a_click_where_nothing_is_long_enough_says_so(viewer, panel, qtbot):
    panel.settings_form.widget("min_length_mm").value = 900.0
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert "None of 50 fibers is longer than 900 mm" in panel.message
    assert any("<b>0</b> of 50" in text for text in shown_texts(panel))


def test_only_a_left_click_that_does_not_move_seeds(viewer, panel, qtbot):
    place = on_screen(CALLOSUM)
    Mouse(viewer, button=2).click(place)
    Mouse(viewer).drag(place, place + 5, place + 9)
    assert not len(panel.bundles)
    assert not panel.running


def test_a_click_while_labels_are_painted_does_not_seed(viewer, panel):
    labels, _ = add_labels(viewer, CORTICOSPINAL)
    viewer.layers.selection.active = labels
    labels.mode = "paint"
    click(viewer, CALLOSUM)
    assert not len(panel.bundles)


@pytest.mark.display
def test_shift_and_click_starts_another_bundle(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, panel)
    assert names_in_list(panel) == ["bundle 1", "bundle 2"]
    assert np.allclose(markers(viewer), [CALLOSUM, CORTICOSPINAL], atol=1e-4)
    for name, centre in (("bundle 1", CALLOSUM), ("bundle 2", CORTICOSPINAL)):
        fibers = tractogram(fibers_layers(viewer)[name])
        distance = np.linalg.norm(fibers.points - np.asarray(centre, np.float32), axis=1)
        assert distance.min() < 3.5
    colors = {tuple(color) for color in np.round(viewer.layers["seeds"].face_color, 3)}
    assert len(colors) == 2


def test_in_3d_the_brightest_voxel_under_the_click_is_seeded(viewer, panel, qtbot):
    viewer.dims.ndisplay = 3
    _, y, x = on_screen(CALLOSUM)
    Mouse(viewer).click((-500.0, y, x))  # the ray runs along z
    settle(qtbot, panel)
    seed = np.asarray(panel.bundles.current.centre_mm)
    assert np.allclose(seed[:2], CALLOSUM[:2], atol=1e-4)
    i, j, k = np.round(apply_affine(np.linalg.inv(field().affine), seed)).astype(int)
    column = tracts.scalar_map(field(), "FA")[i, j]
    assert column[k] == column.max()
    assert len(tractogram(fibers_layers(viewer)["bundle 1"]))


def test_in_3d_a_click_beside_the_brain_is_a_sentence(viewer, panel, qtbot):
    viewer.dims.ndisplay = 3
    Mouse(viewer).click((-500.0, 400.0, 400.0))
    assert "click in the brain" in panel.message
    assert not len(panel.bundles)


def test_with_clicking_off_a_click_picks(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    button(panel, "Click to seed").click()
    layer = fibers_layers(viewer)["bundle 1"]
    point = layer.data_to_world(layer.points[layer.offsets[7] + 3])
    Mouse(viewer, zoom=40.0).click(point)
    assert layer.selected_fiber is not None
    assert np.allclose(panel.bundles.current.centre_mm, CALLOSUM, atol=1e-4)
    button(panel, "Click to seed").click()
    click(viewer, CORTICOSPINAL)
    assert np.allclose(panel.bundles.current.centre_mm, CORTICOSPINAL, atol=1e-4)


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
    assert np.allclose(panel.bundles.current.centre_mm, CALLOSUM, atol=1e-4)
    qtbot.waitUntil(lambda: tractogram(layer).parameters["launched"] <= 200, timeout=MILLISECONDS)
    seeds = np.asarray(tractogram(layer).parameters["seeds_mm"])
    assert np.linalg.norm(seeds - target, axis=1).max() < 3.01
    mouse.release(on_screen(target))
    settle(qtbot, panel)
    assert camera.mouse_pan
    assert tractogram(layer).parameters["launched"] == 500
    assert np.allclose(panel.bundles.current.centre_mm, target, atol=1e-4)
    assert list(fibers_layers(viewer)) == ["bundle 1"]


def test_a_drag_is_one_step_to_undo(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    steps = [on_screen(moved(CALLOSUM, 0.0, -float(n), 0.0)) for n in range(5)]
    Mouse(viewer).drag(*steps)
    settle(qtbot, panel)
    button(panel, "Undo").click()
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.centre_mm, CALLOSUM, atol=1e-4)
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)


def test_a_seed_stays_where_the_mouse_lets_it_go(viewer, panel, qtbot):
    """Canvases leave out moves that come too fast: the last one may be some way before the release."""
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    mouse, target = Mouse(viewer), moved(CALLOSUM, 2.0, -6.0, 0.0)
    mouse.press(on_screen(CALLOSUM))
    mouse.move(on_screen(moved(CALLOSUM, 0.0, -3.0, 0.0)))
    mouse.release(on_screen(target))
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.centre_mm, target, atol=1e-4)
    assert np.allclose(markers(viewer), [target], atol=1e-4)


def test_dragging_another_bundles_marker_makes_it_current(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, panel)
    go_to(viewer, CALLOSUM)
    target = moved(CALLOSUM, 0.0, -4.0, 0.0)
    Mouse(viewer).drag(on_screen(CALLOSUM), on_screen(target))
    settle(qtbot, panel)
    assert panel.bundles.current.name == "bundle 1"
    assert np.allclose(markers(viewer), [target, CORTICOSPINAL], atol=1e-4)
    assert panel.results.layer.name == "bundle 1"


def test_in_3d_a_marker_moves_on_the_plane_that_faces_the_viewer(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    viewer.dims.ndisplay = 3
    _, y, x = on_screen(CALLOSUM)
    Mouse(viewer).drag((-300.0, y, x), (-300.0, y - 5.0, x + 2.0))
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.centre_mm, moved(CALLOSUM, 2.0, -5.0, 0.0), atol=1e-4)


def test_clicking_a_marker_without_moving_it_changes_nothing(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    bundle, fibers = panel.bundles.current, tractogram(fibers_layers(viewer)["bundle 1"])
    Mouse(viewer).click(moved(on_screen(CALLOSUM), 0.0, 0.5, 0.5))
    settle(qtbot, panel)
    assert panel.bundles.current is bundle
    assert tractogram(fibers_layers(viewer)["bundle 1"]) is fibers


def test_a_marker_of_another_slice_does_not_take_the_click(viewer, panel, qtbot):
    """It is not drawn in this slice, so nobody can mean it."""
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    below = (CALLOSUM[0] + 0.5, CALLOSUM[1] + 0.5, CALLOSUM[2] - 33.0)
    click(viewer, below)
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.centre_mm, below, atol=1e-4)


def test_control_and_click_near_a_marker_picks_a_fiber(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer = fibers_layers(viewer)["bundle 1"]
    near = np.linalg.norm(layer.points - on_screen(CALLOSUM), axis=1).argmin()
    Mouse(viewer, "Control").click(layer.data_to_world(layer.points[near]))
    settle(qtbot, panel)
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
        off = np.abs(np.asarray(panel.bundles.current.centre_mm) - CALLOSUM)
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
    seed = np.asarray(panel.bundles.current.centre_mm)
    shown_at = pixel_of(window, seed)
    assert abs(shown_at.x() - pixel.x()) <= 2
    assert abs(shown_at.y() - pixel.y()) <= 2
    voxel = tuple(np.round(apply_affine(np.linalg.inv(field().affine), seed)).astype(int))
    at_callosum = tuple(np.round(apply_affine(np.linalg.inv(field().affine), CALLOSUM)).astype(int))
    fa = tracts.scalar_map(field(), "FA")
    assert fa[voxel] >= fa[at_callosum] - 0.02  # the brightest under the pixel
    native, end = window.canvas.native, QPoint(shown_at.x() + 12, shown_at.y() - 7)
    angles = camera_of(viewer).angles
    QTest.mousePress(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, shown_at)
    for pixel in (QPoint(shown_at.x() + 5, shown_at.y() - 3), end):
        qtbot.wait(30)  # vispy leaves out moves that come faster
        QTest.mouseMove(native, pixel)
    QTest.mouseRelease(native, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, end)
    settle(qtbot, panel)
    dropped = pixel_of(window, panel.bundles.current.centre_mm)
    assert abs(dropped.x() - end.x()) <= 2
    assert abs(dropped.y() - end.y()) <= 2
    assert camera_of(viewer).angles == angles  # the view was not turned


# ------------------------------------------------------------------------------------------------------ the settings


def hidden_rows(form, *names):
    return {name for name in names if form.widget(name).native.isHidden()}


def test_only_the_rows_that_matter_are_shown(panel):
    form = panel.settings_form
    rows = ("metric", "sharpening", "max_drift", "interpolation", "texture", "step_mm", "fa_stop")
    expected = {
        ("hamiltonian", "inverse"): {"sharpening", "texture"},
        ("hamiltonian", "sharpened"): {"texture"},
        ("vanaart2011", "sharpened"): {"interpolation"},
        ("vanaart2011", "inverse"): {"interpolation", "sharpening"},
        ("eudx", "sharpened"): {"metric", "sharpening", "max_drift", "interpolation", "texture"},
        ("hamiltonian", "adjugate"): {"sharpening", "texture"},
    }
    for (method, metric), hidden in expected.items():
        form.widget("metric").value = metric
        form.widget("method").value = method
        assert hidden_rows(form, *rows) == hidden, (method, metric)
    for kind, hidden in (
        ("principal", {"count", "cone_half_angle_deg"}),
        ("sphere", {"cone_half_angle_deg"}),
        ("cone", set()),
    ):
        panel.directions_form.widget("kind").value = kind
        assert hidden_rows(panel.directions_form, "count", "cone_half_angle_deg") == hidden, kind


@pytest.mark.parametrize("method", ["hamiltonian", "vanaart2011", "eudx"])
def test_every_method_gives_what_the_api_gives(viewer, panel, qtbot, method):
    panel.settings_form.widget("method").value = method
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), by_api(panel, panel.bundles.current.centre_mm))


def test_the_fibers_follow_a_changed_setting(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    before = tractogram(fibers_layers(viewer)["bundle 1"])
    panel.settings_form.widget("max_length_mm").value = 40.0
    settle(qtbot, panel)
    after = tractogram(fibers_layers(viewer)["bundle 1"])
    assert before.lengths_mm().max() > 80 > 40.6 > after.lengths_mm().max() / 2  # each way
    assert_same(after, by_api(panel, panel.bundles.current.centre_mm))


def test_the_step_fits_the_voxels_and_stays_as_the_user_set_it(viewer, panel, qtbot):
    step = panel.settings_form.widget("step_mm")
    assert step.value == pytest.approx(0.2 * 2.75)
    step.value = 0.3
    data, keywords, _ = map_layer(field(), "MD", "study")
    viewer.add_image(data, **keywords)
    viewer.layers["study FA"].name = "FA of the study"
    assert step.value == pytest.approx(0.3)
    viewer.layers.remove("study MD (mm²/s)")
    viewer.layers.remove("FA of the study")
    add_maps(viewer)
    assert step.value == pytest.approx(0.3)  # the same tensors


def test_left_and_right(viewer, panel):
    box = panel.view_box.findChild(QComboBox)
    assert "mirrored" in box.currentText()
    for name in ("neurological", "radiological"):
        box.setCurrentIndex(box.findData(name))
        box.activated.emit(box.currentIndex())
        assert view_of(viewer) == name
    set_view(viewer, "neurological")
    assert box.currentData() == "neurological"


@pytest.mark.display
def test_what_fibers_are_seen_against(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    fa = viewer.layers["study FA"]
    for name, normal in (("axial", (1, 0, 0)), ("coronal", (0, 1, 0)), ("sagittal", (0, 0, 1))):
        panel.context_box.choose(name)
        assert fa.depiction == "plane"
        assert np.allclose(np.abs(fa.plane.normal), normal)
        assert np.allclose(fa.data_to_world(fa.plane.position), on_screen(CALLOSUM), atol=1e-3)
    panel.context_box.choose("volume")
    assert fa.depiction == "volume"


# -------------------------------------------------------------------------------------------------------- bundles


@pytest.fixture
def two(viewer, panel, qtbot):
    """Two bundles, the second one current."""
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, panel)
    return panel


def test_choosing_a_bundle_shows_its_numbers(viewer, two, qtbot):
    numbers = {}
    for row in (0, 1, 0, 1):
        choose_in_list(two, row)
        fibers = tractogram(fibers_layers(viewer)[f"bundle {row + 1}"])
        assert two.results.layer.name == f"bundle {row + 1}"
        numbers.setdefault(row, shown_texts(two)[0])
        assert f"<b>{len(fibers)}</b>" in shown_texts(two)[0]
        assert shown_texts(two)[0] == numbers[row]
    assert numbers[0] != numbers[1]


def test_renaming_a_bundle_renames_its_fibers(viewer, two, qtbot):
    rename_in_list(two, " left CST ")
    assert names_in_list(two) == ["bundle 1", "left CST"]
    assert list(fibers_layers(viewer)) == ["bundle 1", "left CST"]
    rename_in_list(two, "bundle 1")
    assert "cannot be the bundle's name" in two.message
    assert names_in_list(two) == ["bundle 1", "left CST"]
    click(viewer, moved(CORTICOSPINAL, 0.0, 8.0, 8.0))
    settle(qtbot, two)
    assert sorted(fibers_layers(viewer)) == ["bundle 1", "left CST"]


@pytest.mark.display
def test_removing_a_bundle_removes_its_fibers_and_undo_brings_both_back(viewer, two, qtbot):
    before = tractogram(fibers_layers(viewer)["bundle 2"])
    button(two, "Remove").click()
    assert names_in_list(two) == ["bundle 1"]
    assert list(fibers_layers(viewer)) == ["bundle 1"]
    assert len(markers(viewer)) == 1
    button(two, "Undo").click()
    settle(qtbot, two)
    assert names_in_list(two) == ["bundle 1", "bundle 2"]
    assert_same(tractogram(fibers_layers(viewer)["bundle 2"]), before)
    assert len(markers(viewer)) == 2


def test_removing_every_bundle(viewer, two):
    for _ in range(2):
        button(two, "Remove").click()
    assert not button(two, "Remove").isEnabled()
    assert not fibers_layers(viewer)
    assert len(viewer.layers["seeds"].data) == 0
    assert any("Click in the brain" in text for text in shown_texts(two))


def test_undo_of_a_click(viewer, panel, qtbot):
    assert not button(panel, "Undo").isEnabled()
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    first = tractogram(fibers_layers(viewer)["bundle 1"])
    click(viewer, moved(CALLOSUM, 0.0, -12.0, 0.0))
    settle(qtbot, panel)
    button(panel, "Undo").click()
    settle(qtbot, panel)
    assert np.allclose(markers(viewer), [CALLOSUM], atol=1e-4)
    assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), first)
    button(panel, "Undo").click()
    settle(qtbot, panel)
    assert not len(panel.bundles)
    assert not fibers_layers(viewer)
    assert not button(panel, "Undo").isEnabled()


def test_undo_of_a_new_name_keeps_the_fibers(viewer, two, qtbot):
    choose_in_list(two, 0)
    rename_in_list(two, "callosum")
    choose_in_list(two, 1)
    fibers = {id(tractogram(layer)) for layer in fibers_layers(viewer).values()}
    button(two, "Undo").click()
    settle(qtbot, two)
    assert names_in_list(two) == ["bundle 1", "bundle 2"]
    assert sorted(fibers_layers(viewer)) == ["bundle 1", "bundle 2"]
    assert {id(tractogram(layer)) for layer in fibers_layers(viewer).values()} == fibers


def test_new_starts_a_bundle_in_the_middle_of_what_is_shown(viewer, panel, qtbot):
    go_to(viewer, CORTICOSPINAL)
    shown = viewer_to_world(viewer.dims.point, field().affine, field().shape)
    button(panel, "New").click()
    settle(qtbot, panel)
    assert np.allclose(panel.bundles.current.centre_mm, shown, atol=1e-4)
    assert "bundle 1" in fibers_layers(viewer)


# --------------------------------------------------------------------------------------------------- label regions


def seed_from(panel, layer, label=1):
    box = next(b for b in panel.seed_box.findChildren(QComboBox) if b.findText(layer.name) >= 0)
    box.setCurrentIndex(box.findText(layer.name))
    panel.seed_box._label.setValue(label)


def test_seeding_from_a_label_region(viewer, panel, qtbot):
    layer, array = add_labels(viewer, CALLOSUM, size=3, label=4)
    seed_from(panel, layer, 4)
    panel.run_button.click()
    settle(qtbot, panel)
    assert panel.message == ""
    expected = tracts.track(
        field(), tracts.label_points(array, field().affine, 4), FEW, panel.settings_form.value(), device="auto"
    )
    assert expected.parameters["launched"] == 27 * 5
    assert_same(tractogram(fibers_layers(viewer)["region 4"]), expected)
    seed_from(panel, layer, 5)
    panel.run_button.click()
    settle(qtbot, panel)
    assert "no voxel has label 5" in panel.message
    assert "4" in panel.message


def test_a_label_region_on_another_grid_is_a_sentence(viewer, panel, qtbot):
    layer = viewer.add_labels(np.ones((4, 5, 6), int), name="elsewhere")
    seed_from(panel, layer)
    panel.run_button.click()
    settle(qtbot, panel)
    assert "'elsewhere'" in panel.message
    assert "(6, 5, 4)" in panel.message


@pytest.mark.parametrize("with_scan", [False, True])
def test_a_region_can_be_drawn_with_naparis_own_button(viewer, panel, qtbot, with_scan):
    if with_scan:
        add_scan(viewer).visible = False
        panel.source_box.choose(viewer.layers["study FA"])
    viewer._new_labels()
    drawn = viewer.layers[-1]
    place = np.concatenate([[0.0] * (drawn.ndim - 3), on_screen(CALLOSUM)])
    drawn.paint(drawn.world_to_data(place), 1)
    go_to(viewer, CALLOSUM)
    seed_from(panel, drawn)
    panel.run_button.click()
    settle(qtbot, panel)
    assert panel.message == ""
    fibers = tractogram(fibers_layers(viewer)[f"{drawn.name} 1"])
    seeds = np.asarray(fibers.parameters["seeds_mm"])
    assert np.linalg.norm(seeds - CALLOSUM, axis=1).min() < 2.5
    assert len(fibers)


def test_a_click_seeds_from_the_click_again(viewer, panel, qtbot):
    layer, _ = add_labels(viewer, CORTICOSPINAL)
    seed_from(panel, layer)
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert panel.seed_box.label_layer is None
    assert list(fibers_layers(viewer)) == ["bundle 1"]


def test_a_drag_previews_the_seed_that_is_dragged(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer, _ = add_labels(viewer, CORTICOSPINAL)
    seed_from(panel, layer)
    target = moved(CALLOSUM, 0.0, -6.0, 0.0)
    mouse = Mouse(viewer)
    mouse.press(on_screen(CALLOSUM))
    mouse.move(on_screen(target))
    qtbot.waitUntil(lambda: panel._preview._running is None, timeout=MILLISECONDS)
    qtbot.wait(20)
    shown = list(fibers_layers(viewer))
    mouse.release(on_screen(target))
    settle(qtbot, panel)
    assert shown == ["bundle 1"]


# -------------------------------------------------------------------------------------------- while something runs


def test_stop_keeps_what_was_traced_and_says_so(viewer, panel, qtbot, held):
    held_run(qtbot, panel, viewer, held)
    assert panel.run_button.text() == "Stop"
    panel.run_button.click()
    settle(qtbot, panel)
    assert panel.run_button.text() == "Track"
    fibers = tractogram(fibers_layers(viewer)["bundle 1"])
    assert not fibers.complete
    assert any("stopped early" in text for text in shown_texts(panel))


def test_a_click_while_it_runs_wins(viewer, panel, qtbot, held):
    held_run(qtbot, panel, viewer, held)
    click(viewer, moved(CALLOSUM, 0.0, -15.0, 0.0))
    held.go.set()
    settle(qtbot, panel)
    assert_same(tractogram(fibers_layers(viewer)["bundle 1"]), by_api(panel, panel.bundles.current.centre_mm))
    assert panel.bundles.current.centre_mm[1] == pytest.approx(-20.0, abs=1e-4)


def test_a_click_while_the_scan_is_fitted_does_not_leave_half_a_fit(viewer, empty, qtbot, monkeypatch):
    real, begun = request.fit_steps, threading.Event()

    def slow(scan, *args, stop, **keywords):
        inner = real(scan, *args, stop=stop, **keywords)
        yield next(inner)
        begun.set()
        if len(empty.bundles) < 2:
            stop.wait(0.5)
        return (yield from inner)

    monkeypatch.setattr(request, "fit_steps", slow)
    add_scan(viewer)
    click(viewer, CALLOSUM)
    qtbot.waitUntil(begun.is_set, timeout=MILLISECONDS)
    click(viewer, CORTICOSPINAL, "Shift")
    settle(qtbot, empty)
    assert np.array_equal(empty.field.mask, field().mask)
    assert np.array_equal(empty.field.tensors, field().tensors)
    assert_same(tractogram(fibers_layers(viewer)["bundle 2"]), by_api(empty, empty.bundles.current.centre_mm))


def test_a_click_while_a_run_is_about_to_fail_is_not_lost(viewer, panel, qtbot, monkeypatch):
    real, begun, calls = request.track_steps, threading.Event(), []

    def failing_once(*args, stop, **keywords):
        calls.append(1)
        if len(calls) == 1:
            begun.set()
            yield Step(0, 1)
            stop.wait(0.5)
            raise InvalidInput("the first run cannot be done")
        return (yield from real(*args, stop=stop, **keywords))

    monkeypatch.setattr(request, "track_steps", failing_once)
    click(viewer, CALLOSUM)
    qtbot.waitUntil(begun.is_set, timeout=MILLISECONDS)
    click(viewer, moved(CALLOSUM, 0.0, -15.0, 0.0))
    settle(qtbot, panel)
    assert "bundle 1" in fibers_layers(viewer)
    assert "the first run" not in panel.message
    # and nothing of it is left over for the next click
    count = len(calls)
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert len(calls) == count + 1


@pytest.mark.display
@pytest.mark.parametrize("what", ["study FA", "bundle 1", "seeds", "everything"])
def test_removing_layers_during_a_run_does_no_harm(viewer, panel, qtbot, held, errors, what):
    held.go.set()
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    held.go.clear()
    held.waiting.clear()
    held_run(qtbot, panel, viewer, held, moved(CALLOSUM, 0.0, -10.0, 0.0))
    if what == "everything":
        viewer.layers.clear()
    else:
        viewer.layers.remove(what)
    held.go.set()
    settle(qtbot, panel)
    assert not errors.all()
    assert panel.run_button.text() == "Track"


def test_removing_the_scan_while_it_is_fitted_does_no_harm(viewer, empty, qtbot, held, errors):
    scan = add_scan(viewer)
    held_run(qtbot, empty, viewer, held)
    viewer.layers.remove(scan)
    held.go.set()
    qtbot.waitUntil(lambda: not empty.running, timeout=MILLISECONDS)
    assert not errors.all()
    assert empty.run_button.text() == "Track"


@pytest.mark.parametrize("act", ["remove", "undo", "rename"])
def test_changing_the_bundles_during_a_run_leaves_no_stray_fibers(viewer, panel, qtbot, held, act):
    held_run(qtbot, panel, viewer, held)
    if act == "remove":
        button(panel, "Remove").click()
    elif act == "undo":
        button(panel, "Undo").click()
    else:
        rename_in_list(panel, "callosum")
    held.go.set()
    settle(qtbot, panel)
    assert sorted(fibers_layers(viewer)) == sorted(names_in_list(panel))


def test_a_late_result_does_not_change_what_the_panel_speaks_of(viewer, two, qtbot, monkeypatch):
    held = Held(monkeypatch)
    held_run(qtbot, two, viewer, held, moved(CORTICOSPINAL, 0.0, 4.0, 0.0))
    choose_in_list(two, 0)
    held.go.set()
    settle(qtbot, two)
    assert two.bundles.current.name == "bundle 1"
    assert two.results.layer.name == "bundle 1"
    assert f"<b>{len(tractogram(fibers_layers(viewer)['bundle 1']))}</b>" in shown_texts(two)[0]


def test_a_preview_that_is_still_on_its_way_does_not_replace_the_full_set(viewer, panel, qtbot):
    panel.seed_box.form.widget("points").value = 100
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    for n in range(6):
        start = np.array(panel.bundles.current.centre_mm)
        target = moved(start, 0.0, -1.5 if n % 2 else 1.5, 0.0)
        Mouse(viewer).drag(on_screen(start), on_screen((start + target) / 2), on_screen(target))
        settle(qtbot, panel)
        fibers = tractogram(fibers_layers(viewer)["bundle 1"])
        assert fibers.parameters["launched"] == 500
        assert np.linalg.norm(np.asarray(fibers.parameters["seeds_mm"]) - target, axis=1).max() < 3.01


@pytest.mark.display
@pytest.mark.parametrize("how", ["the viewer", "the dock"])
def test_closing_during_a_run_frees_everything(make_napari_viewer, qtbot, held, errors, how):
    viewer = make_napari_viewer(strict_qt="raise")
    panel = add_panel(viewer)
    add_maps(viewer)
    held_run(qtbot, panel, viewer, held)
    gone, callbacks = weakref.ref(panel), viewer.mouse_drag_callbacks
    dock = panel.parent()
    if how == "the viewer":
        viewer.close()
    else:
        dock.destroyOnClose()
    del panel, dock
    stopped = held.ended.wait(2)
    held.go.set()
    assert held.ended.wait(10)
    qtbot.wait(50)
    gc.collect()
    assert stopped
    assert not any("_on_press" in repr(callback) for callback in callbacks)
    assert gone() is None
    assert not errors.all()


@pytest.mark.display
@pytest.mark.parametrize("how", ["the viewer", "the dock"])
def test_nothing_is_left_when_it_is_closed(make_napari_viewer, qtbot, how):
    viewer = make_napari_viewer(strict_qt="raise")
    panel = add_panel(viewer)
    add_maps(viewer)
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    gone, callbacks = weakref.ref(panel), viewer.mouse_drag_callbacks
    fibers = weakref.ref(tractogram(fibers_layers(viewer)["bundle 1"]))
    if how == "the viewer":
        viewer.close()
    else:
        panel.parent().destroyOnClose()
        viewer.layers.clear()
    del panel
    qtbot.wait(50)
    gc.collect()
    assert not any("_on_press" in repr(callback) for callback in callbacks)
    assert gone() is None
    assert fibers() is None


@pytest.mark.display
def test_a_floating_panel_that_was_hidden_works_when_it_is_shown_again(viewer, panel, qtbot):
    """The eye in the title of a floating dock closes it; the Window menu shows it again."""
    dock = panel.parent()
    dock.setFloating(True)
    qtbot.wait(10)
    dock.close()
    qtbot.wait(10)
    dock.show()
    qtbot.wait(10)
    assert panel.source_box.layer is viewer.layers["study FA"]
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    assert "bundle 1" in fibers_layers(viewer)


@pytest.mark.display
def test_a_closed_panel_takes_no_more_clicks(viewer, qtbot):
    panel = add_panel(viewer)
    add_maps(viewer)
    panel.parent().destroyOnClose()
    QApplication.processEvents()
    click(viewer, CALLOSUM)
    running = panel.running
    panel.teardown()
    assert not running
    assert not len(panel.bundles)


# -------------------------------------------------------------------------------------------------------- results


def test_colour_by(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer, box = panel.results.layer, combo_with(panel, "mean_fa")
    assert box.currentData() == "direction"
    offered = [box.itemText(i) for i in range(box.count())]
    assert {"length (mm)", "mean FA", "FA along the fiber", "stop reason"} <= set(offered)
    box.setCurrentIndex(box.findData("mean_fa"))
    assert layer.color_by == "mean_fa"
    low, high = layer.color_bar_limits
    limits = next(text for text in shown_texts(panel) if " to " in text)
    assert f"{low:.3g}" in limits
    assert f"{high:.3g}" in limits
    box.setCurrentIndex(box.findData("direction"))
    assert not any(" to " in text for text in shown_texts(panel))
    click(viewer, moved(CALLOSUM, 0.0, -8.0, 0.0))
    settle(qtbot, panel)
    assert box.currentData() == panel.results.layer.color_by == "direction"


def filter_slider(panel):
    return panel.results.findChild(QLabeledDoubleRangeSlider)


@pytest.mark.parametrize("measure", ["length_mm", "mean_fa", "drift"])
def test_filtering_by_a_range(viewer, panel, qtbot, measure):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer, box, slider = panel.results.layer, combo_with(panel, "drift"), filter_slider(panel)
    box = next(b for b in panel.results.findChildren(QComboBox) if b.findData("drift") >= 0 and b.findData("fa") < 0)
    box.setCurrentIndex(box.findData(measure))
    values = np.asarray(layer.per_fiber[measure], float)
    assert layer.shown.all()
    low, high = np.percentile(values, [30, 70])
    slider.setValue((low, high))
    inside = (values >= low) & (values <= high)
    wrong = np.count_nonzero(layer.shown != inside)
    assert 0.2 * len(values) < layer.shown.sum() < 0.65 * len(values)
    assert wrong <= 0.1 * len(values)  # the slider shows a few digits
    slider.setValue((values.min(), values.max()))
    assert layer.shown.all()


def test_the_slider_shows_the_filter_that_is_on(viewer, two):
    choose_in_list(two, 0)
    slider, layer = filter_slider(two), two.results.layer
    low, high = slider.value()
    slider.setValue((low + 0.5 * (high - low), high))
    count = layer.shown.sum()
    assert 0 < count < len(layer.shown)
    choose_in_list(two, 1)
    choose_in_list(two, 0)
    everything = slider.value()[0] <= slider.minimum() + 1e-6
    assert layer.shown.sum() == (len(layer.shown) if everything else count)


def test_a_picked_fiber_shows_its_numbers(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer = fibers_layers(viewer)["bundle 1"]
    fibers = tractogram(layer)
    far = np.linalg.norm(fibers.points - np.float32(CALLOSUM), axis=1).argmax()
    go_to(viewer, fibers.points[far])
    Mouse(viewer, "Control", zoom=20.0).click(on_screen(fibers.points[far]))
    picked = layer.selected_fiber
    assert picked is not None
    text = next(text for text in shown_texts(panel) if "fiber" in text and "ended" in text)
    assert f"bundle 1, fiber {picked}" in text
    assert f"length (mm): {fibers.per_fiber['length_mm'][picked]:.3g}" in text
    assert f"mean FA: {fibers.per_fiber['mean_fa'][picked]:.3g}" in text
    assert np.allclose(panel.bundles.current.centre_mm, CALLOSUM, atol=1e-4)
    click(viewer, moved(CALLOSUM, 0.0, -8.0, 0.0))
    settle(qtbot, panel)
    assert not any("ended" in text for text in shown_texts(panel))


@pytest.mark.parametrize("suffix", [".trk", ".tck", ".trx", ".vtk"])
def test_saving(viewer, panel, qtbot, tmp_path, monkeypatch, suffix):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    path = tmp_path / f"fibers{suffix}"
    monkeypatch.setattr(
        "napari_gpubio.tracts.widget.tracking.QFileDialog.getSaveFileName", lambda *_, **__: (str(path), "")
    )
    button(panel, "Save fibers…").click()
    back = tracts.read_tractogram(path)
    fibers = tractogram(panel.results.layer)
    assert len(back) == len(fibers)
    assert np.abs(back.points - fibers.points).max() < 1e-3
    assert panel.message == ""


def test_saving_says_that_it_is_done(viewer, panel, qtbot, tmp_path):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    panel.save(tractogram(panel.results.layer), str(tmp_path / "fibers.trk"))
    assert any("fibers.trk" in label.text() for label in panel.findChildren(QLabel))


def test_saving_what_cannot_be_saved_is_a_sentence(viewer, panel, qtbot, tmp_path, monkeypatch):
    assert not button(panel, "Save fibers…").isEnabled()
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    for bad in (tmp_path / "fibers.docx", tmp_path / "no such folder" / "fibers.trk"):
        monkeypatch.setattr(
            "napari_gpubio.tracts.widget.tracking.QFileDialog.getSaveFileName", lambda *_, bad=bad, **__: (str(bad), "")
        )
        panel.clear_message()
        button(panel, "Save fibers…").click()
        assert "could not be saved" in panel.message
    monkeypatch.setattr("napari_gpubio.tracts.widget.tracking.QFileDialog.getSaveFileName", lambda *_, **__: ("", ""))
    panel.clear_message()
    button(panel, "Save fibers…").click()
    assert panel.message == ""


def test_opening_fibers(viewer, panel, qtbot, tmp_path):
    made = by_api(panel, CALLOSUM)
    path = tmp_path / "mine.tck"
    made.save(path)
    panel.open_fibers(str(path))
    layer = fibers_layers(viewer)["mine.tck"]
    assert len(layer.lines) == len(made)
    assert np.allclose(layer.data_to_world(layer.points[0]), on_screen(made.points[0]), atol=1e-3)
    panel.open_fibers(str(tmp_path / "missing.trk"))
    assert "missing.trk" in panel.message


def test_a_changed_setting_leaves_opened_fibers_alone(viewer, panel, qtbot, tmp_path):
    path = tmp_path / "mine.trk"
    by_api(panel, CALLOSUM).save(path)
    panel.open_fibers(str(path))
    panel.settings_form.widget("fa_stop").value = 0.25
    settle(qtbot, panel)
    assert panel.message == ""
    assert list(fibers_layers(viewer)) == ["mine.trk"]


# -------------------------------------------------------------------------------------------------- Copy as Python


def script_of(panel):
    QApplication.clipboard().setText("nothing was copied")
    button(panel, "Copy as Python").click()
    return QApplication.clipboard().text()


def run_script(text, folder):
    path = folder / "copied.py"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_script_gives_the_same_fibers(viewer, empty, qtbot, tmp_path):
    add_sample(viewer, brain_sample_layers)
    click(viewer, CALLOSUM)
    settle(qtbot, empty)
    click(viewer, moved(CALLOSUM, 0.123456, -6.654321, 0.0))
    settle(qtbot, empty)
    rename_in_list(empty, "corpus callosum")
    run_script(script_of(empty), tmp_path)
    made = tracts.read_tractogram(tmp_path / "corpus callosum.trk")
    shown = tractogram(fibers_layers(viewer)["corpus callosum"])
    assert len(made) == len(shown) > 0
    assert np.abs(made.lengths_mm() - shown.lengths_mm()).max() < 0.01


def test_the_script_of_a_label_region_saves_the_region(viewer, panel, qtbot, tmp_path, monkeypatch):
    viewer.layers.clear()
    add_sample(viewer, brain_sample_layers)
    layer, _ = add_labels(viewer, CALLOSUM)
    panel.settings_form.widget("method").value = "eudx"
    panel.directions_form.widget("kind").value = "principal"
    seed_from(panel, layer)
    panel.run_button.click()
    settle(qtbot, panel)
    monkeypatch.setattr(
        "napari_gpubio.viewer.panel.QFileDialog.getSaveFileName", lambda *_, **__: (str(tmp_path / "script.py"), "")
    )
    seed_from(panel, layer)
    text = script_of(panel)
    assert (tmp_path / "region.nii.gz").is_file()
    run_script(text, tmp_path)
    made = tracts.read_tractogram(tmp_path / "region 1.trk")
    assert len(made) == len(tractogram(fibers_layers(viewer)["region 1"])) > 0


def test_the_script_of_tensors_fitted_in_a_painted_mask_runs_or_says_why_not(viewer, empty, qtbot, tmp_path):
    add_sample(viewer, brain_sample_layers)
    fitting = TensorPanel(PublicOnlyProxy(viewer))
    qtbot.addWidget(fitting)
    mask, _ = add_labels(viewer, moved(CALLOSUM, 20, -20, -10), size=15, name="painted")
    fitting.mask_box.choose(mask)
    with qtbot.waitSignal(fitting.run_finished, timeout=MILLISECONDS):
        fitting.run()
    fitting.teardown()
    empty.source_box.choose(viewer.layers["brain phantom FA"])
    click(viewer, CALLOSUM)
    settle(qtbot, empty)
    text = script_of(empty)
    if text == "nothing was copied":
        assert "painted" in empty.message
    else:
        run_script(text, tmp_path)


def test_a_bundle_name_that_is_no_file_name(viewer, empty, qtbot, tmp_path):
    add_sample(viewer, brain_sample_layers)
    empty.settings_form.widget("method").value = "eudx"
    empty.directions_form.widget("kind").value = "principal"
    click(viewer, CALLOSUM)
    settle(qtbot, empty)
    rename_in_list(empty, "left/right")
    run_script(script_of(empty), tmp_path)
    assert list(tmp_path.rglob("*.trk"))


def test_tensors_that_come_from_no_file_are_a_sentence(viewer, empty, qtbot):
    add_sample(viewer, ring_sample_layers)
    empty.place_seed(tuple(ring_seed(viewer)))
    settle(qtbot, empty)
    assert script_of(empty) == "nothing was copied"
    assert "do not come from a file" in empty.message


def ring_seed(viewer):
    """World position of the brightest voxel of the ring's FA."""
    ring = next(f for layer in viewer.layers if (f := field_of(layer)) is not None)
    fa = tracts.scalar_map(ring, "FA")
    return apply_affine(ring.affine, np.unravel_index(fa.argmax(), fa.shape))


@pytest.mark.display
def test_the_manifest_opens_it(viewer):
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking")
    assert isinstance(panel, TrackingPanel)
    assert dock is not None
    panel.teardown()
