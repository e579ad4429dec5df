"""What the tests of the dock widget "Light transport" share: a panel, labels for it, and what a user does."""

import functools
import threading
from types import SimpleNamespace

import numpy as np
from napari.utils._proxies import PublicOnlyProxy, ReadOnlyWrapper
from napari.utils.interactions import mouse_move_callbacks, mouse_press_callbacks, mouse_release_callbacks
from qtpy.QtWidgets import QCheckBox, QComboBox, QPushButton, QTableWidget

from napari_gpubio.core.layers import carried
from napari_gpubio.core.space import viewer_to_world, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.light.layers import labels_layer, result_of
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.widget import LightPanel, request

MILLISECONDS = 60_000
FEW = 2000  # photons of a run
RADIUS, CORE = 20.0, 12.0
CENTRE = (3.0, -4.0, 5.0)  # of the ball, world mm
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
    affine[:3, 3] = CENTRE - sizes * (shape - 1) / 2
    return Domain(labels=labels, affine=affine, media=MEDIA)


LEFT = (CENTRE[0] - RADIUS, CENTRE[1], CENTRE[2])  # on the surface
TOP = (CENTRE[0], CENTRE[1], CENTRE[2] + RADIUS)


def on_screen(world):
    return world_to_viewer(world, ball().affine, ball().shape)


def in_world(position):
    return viewer_to_world(position, ball().affine, ball().shape)


def moved(position, *by):
    return np.asarray(position) + by


def add_panel(viewer):
    panel = LightPanel(PublicOnlyProxy(viewer))
    if hasattr(viewer, "window"):
        viewer.window.add_dock_widget(panel, name="Light transport")
    panel.choose_device("cpu")
    panel.run_box.photons.set_value(FEW)
    return panel


def add_ball(viewer, domain=None, name="ball"):
    data, keywords, _ = labels_layer(domain or ball(), name)
    return viewer.add_labels(data, **keywords)


# ------------------------------------------------------------------------------------------------ what a user does


class Mouse:
    """Presses, moves and releases the left button at viewer positions, as napari's canvas would say it."""

    def __init__(self, viewer, *modifiers, zoom=4.0, button=1, view=(1.0, 0.0, 0.0)):
        self.viewer, self.modifiers, self.zoom, self.button, self.view = viewer, modifiers, zoom, button, view

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
        more = (0.0,) * (viewer.dims.ndim - 3)
        flat = viewer.dims.ndisplay == 2
        event = SimpleNamespace(
            type=kind, position=more + tuple(float(p) for p in position), button=self.button,
            modifiers=list(self.modifiers), handled=False, is_dragging=kind == "mouse_move",
            dims_displayed=list(viewer.dims.displayed), camera_zoom=self.zoom,
            view_direction=None if flat else more + self.view,
        )  # fmt: skip
        return ReadOnlyWrapper(event, exceptions=("handled",))


def go_to(viewer, world):
    viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), on_screen(world))


def click(viewer, world, *modifiers):
    """Click at a world position (mm) in the slice that shows it."""
    go_to(viewer, world)
    Mouse(viewer, *modifiers).click(on_screen(world))


def settle(qtbot, panel):
    """Wait until nothing runs, waits to run, or is still on its way through the event queue."""

    def still():
        jobs = (panel._redraw, panel._need, panel._load, panel._labels._count, panel._quick._job)
        timers = panel._labels._later.isActive()
        return not (panel.running or panel._quick.busy or timers or any(job._running is not None for job in jobs))

    for _ in range(3):
        qtbot.waitUntil(still, timeout=MILLISECONDS)
        qtbot.wait(5)


def run(qtbot, panel):
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
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


def button(panel, text):
    return next(b for b in panel.findChildren(QPushButton) if b.text() == text)


def tick(panel, text):
    next(b for b in panel.findChildren(QCheckBox) if text in b.text()).click()


def combo_with(part, text):
    return next(b for b in part.findChildren(QComboBox) if b.findText(text) >= 0)


def detector_rows(panel):
    table = panel.detector_box.findChild(QTableWidget)
    return [[table.item(row, column).text() for column in range(3)] for row in range(table.rowCount())]


def direction(panel):
    return np.asarray(panel.desk.optodes.source.direction)


def outwards(world):
    """Unit vector from the centre of the ball."""
    away = np.asarray(world) - CENTRE
    return away / np.linalg.norm(away)


def degrees_between(a, b):
    return np.degrees(np.arccos(np.clip(np.dot(a, b), -1.0, 1.0)))


class Held:
    """Holds every run back after its first photons until ``go`` is set; Stop lets it end with what it has."""

    def __init__(self, monkeypatch):
        self.go, self.waiting, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.runs = 0
        real = request.simulate_steps

        def steps(domain, source, settings, *, stop, **keywords):
            self.runs += 1
            inner = real(domain, source, settings, stop=stop, **keywords)
            try:
                step = next(inner)
                yield step
                self.waiting.set()
                while not (self.go.wait(0.005) or stop.is_set()):
                    yield Step(step.done, step.total, "held")
                return (yield from inner)
            finally:
                inner.close()
                self.ended.set()

        monkeypatch.setattr(request, "simulate_steps", steps)


def held_run(qtbot, panel, held):
    """Place a source without a quick run, and begin a run that is held."""
    panel.run_box._live.setChecked(False)
    panel.place_source(LEFT)
    panel.run_button.click()
    qtbot.waitUntil(held.waiting.is_set, timeout=MILLISECONDS)
    assert panel.running
