"""What the tests of the dock widget "Fiber tracking" share: a panel, layers for it, and what a user does."""

import dataclasses
import functools

import numpy as np
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtWidgets import QComboBox, QListWidget

from napari_gpubio import tracts
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.space import apply_affine, to_layer, viewer_to_world, world_to_viewer
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tracts.gui import TrackingPanel, request
from napari_gpubio.tracts.napari_io import map_layer, scan_layer
from tests.dock_widgets import HeldAtItsEnd, Mouse, docked, show_slices_at, texts, wait_until

CALLOSUM, CORTICOSPINAL, AIR = (0.0, -5.0, 22.0), (-22.0, -18.0, 12.0), (60.0, 60.0, 70.0)
FEW = tracts.Directions(count=5, cone_half_angle_deg=15.0)


@functools.cache
def field():
    """The sample's tensors."""
    return tracts.fit_tensors(tracts.phantom.load_brain_phantom())


def on_screen(world):
    return world_to_viewer(world)


def add_panel(viewer):
    panel = docked(viewer, TrackingPanel(PublicOnlyProxy(viewer)), "Fiber tracking")
    panel.directions_form.set_value(FEW)
    panel.seed_box.form.widget("points").value = 10
    return panel


def add_maps(viewer):
    for name in ("FA", "DEC"):
        data, keywords, _ = map_layer(field(), name, "study")
        viewer.add_image(data, **keywords)


def add_scan(viewer):
    data, keywords, _ = scan_layer(tracts.phantom.load_brain_phantom(), "scan")
    return viewer.add_image(data, **keywords)


def add_sample(viewer, sample):
    """What File › Open Sample does, which needs a window."""
    for data, keywords, _ in sample():
        viewer.add_image(data, **keywords)


def add_labels(viewer, center, size=2, label=1, name="region"):
    """A small painted cube around a world position, on the tensors' grid."""
    array = np.zeros(field().shape, int)
    at = np.round(apply_affine(np.linalg.inv(field().affine), center)).astype(int)
    array[tuple(slice(i, i + size) for i in at)] = label
    return viewer.add_labels(array.T, name=name, affine=to_layer(field().affine)), array


# ------------------------------------------------------------------------------------------------ what a user does


def click(viewer, world, *modifiers):
    """Click at a world position (mm) in the slice that shows it."""
    go_to(viewer, world)
    Mouse(viewer, *modifiers).click(on_screen(world))


def go_to(viewer, world):
    """Show the slices through a world position (mm)."""
    show_slices_at(viewer, on_screen(world))


def settle(qtbot, panel):
    """Wait until nothing runs or waits to run."""

    def still():
        return (
            not panel.running
            and not panel.results.files.is_busy
            and not panel._retrack.isActive()
            and panel._preview._running is None
        )

    wait_until(qtbot, still)


def fibers_layers(viewer):
    return {layer.name: layer for layer in viewer.layers if isinstance(layer, Streamlines)}


def tractogram(layer):
    return layer.metadata[KEY]["tractogram"]


def markers(viewer):
    """World positions (mm) of the markers on screen."""
    layer = viewer.layers["seeds"]
    data = np.array([layer.data_to_world(point) for point in layer.data])
    return viewer_to_world(data)


def by_api(panel, center, field_=None, settings=None):
    return tracts.track(
        field_ or field(),
        tracts.seeds.ball(center, 3.0, 10),
        FEW,
        settings or panel.settings_form.value(),
        device="auto",
    )


def assert_same(fibers, expected):
    assert len(expected) > 0
    assert np.array_equal(fibers.offsets, expected.offsets)
    assert np.array_equal(fibers.points, expected.points)


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
    return texts(panel.results)


def shown_numbers(panel):
    return {row.name: row.text for row in panel.results.table.rows}


class HeldTracking(HeldAtItsEnd):
    """Holds every run back before its end; it is complete only if it was let go."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, request, "track_steps")

    def _held(self, inner, stop):
        fibers = yield from super()._held(inner, stop)
        return dataclasses.replace(fibers, complete=self.go.is_set())


def seed_from(panel, layer, label=1):
    box = next(b for b in panel.seed_box.findChildren(QComboBox) if b.findText(layer.name) >= 0)
    box.setCurrentIndex(box.findText(layer.name))
    panel.seed_box._label.setValue(label)


def held_run(qtbot, panel, viewer, held, world=CALLOSUM):
    click(viewer, world)
    held.wait(qtbot)
    assert panel.running
