"""What the tests of the dock widget "Fiber tracking" share: a panel, layers for it, and what a user does."""

import dataclasses
import functools
import threading
from types import SimpleNamespace

import numpy as np
from napari.utils._proxies import PublicOnlyProxy, ReadOnlyWrapper
from napari.utils.interactions import mouse_move_callbacks, mouse_press_callbacks, mouse_release_callbacks
from qtpy.QtWidgets import QComboBox, QLabel, QListWidget, QPushButton

from napari_gpubio import tracts
from napari_gpubio.core.layers import KEY
from napari_gpubio.core.space import apply_affine, viewer_to_world, volume_layer_affine, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.layers import map_layer, scan_layer
from napari_gpubio.tracts.widget import TrackingPanel, request
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


def seed_from(panel, layer, label=1):
    box = next(b for b in panel.seed_box.findChildren(QComboBox) if b.findText(layer.name) >= 0)
    box.setCurrentIndex(box.findText(layer.name))
    panel.seed_box._label.setValue(label)


def held_run(qtbot, panel, viewer, held, world=CALLOSUM):
    click(viewer, world)
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    assert panel.running
