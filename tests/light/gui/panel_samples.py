"""What the tests of the dock widget "Light transport" share: a panel, labels for it, and what a user does."""

import functools

import numpy as np
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtWidgets import QCheckBox, QComboBox, QTableWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.space import viewer_to_world, world_to_viewer
from napari_gpubio.gui.jobs import LatestJob
from napari_gpubio.light.gui import LightPanel, voxel_mode
from napari_gpubio.light.gui.labels import LabelSource
from napari_gpubio.light.gui.quick_runs import QuickRuns
from napari_gpubio.light.napari_io import labels_layer, result_of
from napari_gpubio.light.operations import runs
from napari_gpubio.light.readers import read_layers
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.surface import label_at
from tests.dock_widgets import Held, Mouse, docked, press_and_wait, show_slices_at, wait_until

FEW = 2000  # photons of a run
RADIUS, CORE = 20.0, 12.0
CENTER = (3.0, -4.0, 5.0)  # of the ball, world mm
MEDIA = (
    Medium(label=1, name="rind", mua_per_mm=0.05, mus_per_mm=1.0, g=0.0, n=1.37),
    Medium(label=2, name="core", mua_per_mm=0.1, mus_per_mm=2.0, g=0.5, n=1.37),
)


@functools.cache
def ball() -> Domain:
    """A ball of radius 20 mm with a core, in voxels of 1 x 2 x 2.5 mm."""
    sizes, shape = np.array([1.0, 2.0, 2.5]), np.array([51, 25, 21])
    away = (np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1) - (shape - 1) / 2) * sizes
    distance = np.linalg.norm(away, axis=-1)
    labels = (distance <= RADIUS).astype(np.uint8) + (distance <= CORE)
    affine = np.diag([*sizes, 1.0])
    affine[:3, 3] = CENTER - sizes * (shape - 1) / 2
    return Domain(labels=labels, affine=affine, media=MEDIA)


LEFT = (CENTER[0] - RADIUS, CENTER[1], CENTER[2])  # on the surface
RIGHT = (CENTER[0] + RADIUS, CENTER[1], CENTER[2])
FRONT = (CENTER[0], CENTER[1] + RADIUS, CENTER[2])
TOP = (CENTER[0], CENTER[1], CENTER[2] + RADIUS)
NEARBY = (CENTER[0] - 0.8 * RADIUS, CENTER[1], CENTER[2] + 0.6 * RADIUS)  # where light from the left comes out


def on_screen(world):
    return world_to_viewer(world)


def in_world(position):
    return viewer_to_world(position)


def add_panel(viewer):
    panel = docked(viewer, LightPanel(PublicOnlyProxy(viewer)), "Light transport")
    panel.choose_device("cpu")
    panel.voxels.run_box.photons.set_value(FEW)
    return panel


def add_ball(viewer, domain=None, name="ball"):
    data, keywords, _ = labels_layer(domain or ball(), name)
    return viewer.add_labels(data, **keywords)


# ------------------------------------------------------------------------------------------------ what a user does


def go_to(viewer, world):
    """Show the slices through a world position (mm)."""
    show_slices_at(viewer, on_screen(world))


def click(viewer, world, *modifiers):
    """Click at a world position (mm) in the slice that shows it."""
    go_to(viewer, world)
    Mouse(viewer, *modifiers).click(on_screen(world))


def settle(qtbot, panel):
    """Wait until nothing runs or waits to run in either mode."""
    runs, others = panel.findChildren(QuickRuns), [*panel.findChildren(LabelSource), *panel.findChildren(LatestJob)]

    def still():
        return not (panel.running or any(run.busy for run in runs) or any(other.is_busy for other in others))

    wait_until(qtbot, still)


def run(qtbot, panel):
    press_and_wait(qtbot, panel, panel.run_button)
    settle(qtbot, panel)


def fluence(viewer):
    """The panel's fluence layer."""
    return next((layer for layer in viewer.layers if carried(layer, "panel") == "fluence"), None)


def result(viewer):
    layer = fluence(viewer)
    return None if layer is None else result_of(layer)


def markers(viewer):
    """World positions (mm) of the markers on screen."""
    layer = viewer.layers["source and detectors"]
    return np.array([in_world(layer.data_to_world(point)) for point in layer.data[layer.shown]])


def lines(viewer):
    """World positions (mm) of the line segments on screen, shape (N, 2, 3)."""
    layer = viewer.layers["source beam"]
    ends = np.stack([layer.data[:, 0], layer.data.sum(axis=1)], axis=1)
    return in_world(np.array([[layer.data_to_world(p) for p in segment] for segment in ends]).reshape(-1, 2, 3))


def tick(panel, text):
    next(b for b in panel.findChildren(QCheckBox) if text in b.text()).click()


def combo_with(part, text):
    return next(b for b in part.findChildren(QComboBox) if b.findText(text) >= 0)


def detector_rows(panel):
    table = panel.voxels.detector_box.findChild(QTableWidget)
    return [[table.item(row, column).text() for column in range(3)] for row in range(table.rowCount())]


def position(panel):
    return np.asarray(panel.voxels.controller.optodes.source.position_mm)


def direction(panel):
    return np.asarray(panel.voxels.controller.optodes.source.direction)


def on_surface(point):
    """On the outer face of a voxel at the surface of the ball."""
    away = np.asarray(point) - CENTER
    inside, outside = np.asarray(point) - 0.01 * away, np.asarray(point)
    tissue = [label_at(ball().labels, ball().affine, p) for p in (inside, outside)]
    return tissue[0] > 0 and tissue[1] == 0 and abs(np.linalg.norm(away) - RADIUS) < 1.8


def outwards(world):
    """Unit vector from the center of the ball."""
    away = np.asarray(world) - CENTER
    return away / np.linalg.norm(away)


def degrees_between(a, b):
    return np.degrees(np.arccos(np.clip(np.dot(a, b), -1.0, 1.0)))


def set_gates(run_box, end_ns, count):
    """Type another time window, in equal gates."""
    run_box.end_box.setValue(end_ns)
    run_box.gates_box.setValue(count)


def set_strength(box, power_mw=0.0, energy_j=0.0):
    """Type power and energy of a source, without an exposure."""
    for field, value in ((box.power_box, power_mw), (box.exposure_box, 0.0), (box.energy_box, energy_j)):
        field.show_value(value)
    box.strength_changed.emit()


def held_in_voxels(monkeypatch):
    """Holds every run in voxels back, and every quick one, until ``go`` is set."""
    held = Held(monkeypatch, runs, "simulate_steps")
    monkeypatch.setattr(voxel_mode, "simulate_steps", runs.simulate_steps)
    return held


def held_run(qtbot, panel, held):
    """Place a source without a quick run, and begin a run that is held."""
    panel.voxels.run_box.set_live(False)
    panel.voxels.place_source(LEFT)
    panel.run_button.click()
    held.wait(qtbot)
    assert panel.running


def open_file(viewer, path):
    """As napari opens it: one layer after the other."""
    for data, keywords, kind in read_layers(str(path)):
        getattr(viewer, f"add_{kind}")(data, **keywords)
