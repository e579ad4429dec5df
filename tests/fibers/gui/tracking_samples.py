"""A user of the dock widget "Fiber tracking": the layers they bring, what they do, and what they see."""

import dataclasses
import functools

import numpy as np
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtWidgets import QComboBox, QListWidget
from superqt import QLabeledDoubleRangeSlider

from napari_gpubio import diffusion
from napari_gpubio import fibers as fiber_tracking
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.space import apply_affine, to_layer, viewer_to_world, world_to_viewer
from napari_gpubio.diffusion.napari_io import map_layer, scan_layer
from napari_gpubio.fibers.gui import TrackingPanel, tracing
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.streamlines import Streamlines
from tests.dock_widgets import HeldAtItsEnd, Mouse, button, docked, show_slices_at, texts, undo, wait_until

CALLOSUM, CORTICOSPINAL, AIR = (0.0, -5.0, 22.0), (-22.0, -18.0, 12.0), (60.0, 60.0, 70.0)
FEW = fiber_tracking.Cone(count=5, half_angle_deg=15.0)


@functools.cache
def field():
    """The sample's tensors."""
    return diffusion.fit_tensors(diffusion.phantom.load_brain_phantom())


def on_screen(world):
    """The viewer position of a world position (mm)."""
    return world_to_viewer(world)


def voxel_at(world):
    """The voxel nearest to a world position (mm)."""
    return tuple(np.round(apply_affine(np.linalg.inv(field().affine), world)).astype(int))


def tractogram(layer):
    return layer.metadata[KEY]["tractogram"]


def assert_same(fibers, expected):
    assert len(expected) > 0
    assert np.array_equal(fibers.offsets, expected.offsets)
    assert np.array_equal(fibers.points, expected.points)


# -- layers -----------------------------------------------------------------------------------------------------------


def add_maps(viewer, names=("FA", "DEC")):
    for name in names:
        data, keywords, _ = map_layer(field(), name, "study")
        viewer.add_image(data, **keywords)


def add_scan(viewer):
    data, keywords, _ = scan_layer(diffusion.phantom.load_brain_phantom(), "scan")
    return viewer.add_image(data, **keywords)


def add_sample(viewer, sample):
    """What File › Open Sample does, which needs a window."""
    for data, keywords, _ in sample():
        viewer.add_image(data, **keywords)


def add_labels(viewer, center, size=2, label=1, name="region"):
    """A small painted cube around a world position, on the tensors' grid."""
    array = np.zeros(field().shape, int)
    array[tuple(slice(i, i + size) for i in voxel_at(center))] = label
    return viewer.add_labels(array.T, name=name, affine=to_layer(field().affine)), array


# -- the panel --------------------------------------------------------------------------------------------------------


def add_panel(viewer):
    """A panel that is set to trace 50 fibers at a click."""
    panel = docked(viewer, TrackingPanel(PublicOnlyProxy(viewer)), "Fiber tracking")
    panel.directions_form.set_value(FEW)
    panel.seed_box.form.widget("points").value = 10
    return panel


class User:
    """What a user of a panel does, waiting for the end of what it starts, and sees."""

    def __init__(self, viewer, panel, qtbot):
        self.viewer, self.panel, self.qtbot = viewer, panel, qtbot

    def settle(self):
        """Wait until nothing runs or waits to run."""
        wait_until(self.qtbot, lambda: not self.panel.is_busy)

    def go_to(self, world):
        """Show the slices through a world position (mm)."""
        show_slices_at(self.viewer, on_screen(world))

    @property
    def history(self):
        return history_of(self.viewer)

    def undo(self):
        undo(self.viewer)
        self.settle()

    def begin_at(self, world, *modifiers):
        """Click at a world position (mm) in the slice that shows it, and wait for nothing."""
        self.history.note_act()
        self.go_to(world)
        Mouse(self.viewer, *modifiers).click(on_screen(world))

    def click(self, world, *modifiers):
        self.begin_at(world, *modifiers)
        self.settle()

    def drag(self, *positions, world=True):
        """Drag the mouse through world positions (mm), or viewer positions."""
        self.history.note_act()
        Mouse(self.viewer).drag(*(map(on_screen, positions) if world else positions))
        self.settle()

    def button(self, text):
        return button(self.panel, text)

    def press(self, text):
        self.history.note_act()
        self.button(text).click()
        self.settle()

    def set(self, name, value):
        """Change a setting of the tracking."""
        self.history.note_act()
        self.panel.settings_form.widget(name).value = value
        self.settle()

    def filter_by(self, measure, low, high):
        """Show the fibers of the results with a number in a range; None: no end."""
        self.history.note_act()
        box = next(b for b in self.panel.results.findChildren(QComboBox) if b.findData("drift") >= 0 > b.findData("fa"))
        box.setCurrentIndex(box.findData(measure))
        slider = self.slider
        slider.setValue((slider.minimum() if low is None else low, slider.maximum() if high is None else high))

    @property
    def summary(self):
        """What the panel tells of the settings of the fibers, if anything."""
        label = self.panel.seed_box.summary
        return "" if label.isHidden() else label.text()

    @property
    def slider(self):
        """The slider of the filter."""
        return self.panel.results.findChild(QLabeledDoubleRangeSlider)

    def seed_from(self, layer, label=1):
        """Choose a label region to seed from."""
        self.panel.seed_box.region_box.choose(layer, label)

    def open(self, path):
        self.panel.open_fibers(str(path))
        self.settle()

    @property
    def message(self):
        return self.panel.message

    @property
    def bundle(self):
        """The current bundle."""
        return self.panel.bundles.current

    @property
    def seed(self):
        """World position (mm) of the current bundle's seed."""
        return np.asarray(self.bundle.center_mm)

    @property
    def list(self):
        """The list of bundles."""
        return self.panel.seed_box.findChild(QListWidget)

    @property
    def names(self):
        """The names in the list of bundles."""
        return [self.list.item(i).text() for i in range(self.list.count())]

    @property
    def layers(self):
        """The layers of fibers, by name."""
        return {layer.name: layer for layer in self.viewer.layers if isinstance(layer, Streamlines)}

    def fibers(self, name="bundle 1"):
        return tractogram(self.layers[name])

    @property
    def markers(self):
        """World positions (mm) of the markers on screen."""
        layer = self.viewer.layers["seeds"]
        data = np.array([layer.data_to_world(point) for point in layer.data])
        return viewer_to_world(data)

    @property
    def texts(self):
        """The texts that the results show."""
        return texts(self.panel.results)

    @property
    def numbers(self):
        """The numbers that the results show, by name."""
        return {row.name: row.text for row in self.panel.results.table.rows}

    def combo_with(self, data):
        """The box of the results that offers this."""
        return next(b for b in self.panel.results.findChildren(QComboBox) if b.findData(data) >= 0)

    def by_api(self, center=None):
        """The fibers that a script would get for the current seed with the settings on show."""
        seeds = fiber_tracking.seeds.ball(self.seed if center is None else center, 3.0, 10)
        return fiber_tracking.track(
            field(), seeds, self.panel.methods.launched(), self.panel.settings_form.value(), device="auto"
        )


class HeldTracking(HeldAtItsEnd):
    """Holds every run back before its end; it is complete only if it was let go."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, tracing, "track_steps")

    def held_steps(self, inner, stop):
        fibers = yield from super().held_steps(inner, stop)
        return dataclasses.replace(fibers, complete=self.go.is_set())

    def begin(self, user, world=CALLOSUM):
        """Click, and wait until the run is held."""
        user.begin_at(world)
        self.wait(user.qtbot)
        assert user.panel.running
