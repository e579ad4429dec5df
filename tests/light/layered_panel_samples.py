"""What the tests of the dock widget "Light in layers" share: a panel, layers for it, and what a user does."""

import threading

from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtWidgets import QApplication, QPushButton

from napari_gpubio.core.layers import carried
from napari_gpubio.core.steps import Step
from napari_gpubio.light.layered.model import Layer, LayeredMedium
from napari_gpubio.light.layered.settings import LayeredSettings
from napari_gpubio.light.layered.widget import LayeredPanel, request

MILLISECONDS = 60_000
FEW = 2000  # photons of a run
MEDIUM = LayeredMedium(
    name="two layers",
    layers=(
        Layer(name="top", n=1.4, mua_per_mm=1.0, mus_per_mm=4.0, g=0.5, thickness_mm=0.4),
        Layer(name="bottom", n=1.5, mua_per_mm=0.5, mus_per_mm=2.0, g=0.8, thickness_mm=0.6),
    ),
    n_below=1.33,
)
SETTINGS = LayeredSettings(photons=FEW, dr_mm=0.05, dz_mm=0.05, radial_bins=40, depth_bins=20, angle_bins=10)


def add_panel(viewer):
    panel = LayeredPanel(PublicOnlyProxy(viewer))
    if hasattr(viewer, "window"):
        viewer.window.add_dock_widget(panel, name="Light in layers")
    panel.choose_device("cpu")
    panel.grid_box.set_settings(SETTINGS)
    panel.run_box.set_settings(SETTINGS)
    panel.table.set_medium(MEDIUM)
    panel.say("")
    return panel


def settle(qtbot, panel):
    """Wait until nothing runs, waits to run, or is still on its way through the event queue."""

    def still():
        jobs = (panel._redraw, panel._quick._job, panel.phantoms._job)
        return not (panel.running or panel._quick.busy or any(job._running is not None for job in jobs))

    for _ in range(3):
        qtbot.waitUntil(still, timeout=MILLISECONDS)
        qtbot.wait(5)


def run(qtbot, panel):
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    settle(qtbot, panel)


def picture(viewer):
    """The panel's picture layer."""
    return next((layer for layer in viewer.layers if carried(layer, "panel") == "layered picture"), None)


def result(viewer):
    layer = picture(viewer)
    return None if layer is None else carried(layer, "result")


def button(part, text):
    return next(b for b in part.findChildren(QPushButton) if b.text() == text)


def script_of(panel):
    QApplication.clipboard().setText("nothing was copied")
    button(panel, "Copy as Python").click()
    return QApplication.clipboard().text()


class Held:
    """Holds every run back after its first photons until ``go`` is set; Stop lets it end with what it has."""

    def __init__(self, monkeypatch):
        self.go, self.waiting, self.ended = threading.Event(), threading.Event(), threading.Event()
        real = request.layer_steps

        def steps(medium, settings, *, stop, **keywords):
            inner = real(medium, settings, stop=stop, **keywords)
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

        monkeypatch.setattr(request, "layer_steps", steps)
