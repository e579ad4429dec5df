"""What the tests of the dock widget share: small stacks, and what a user does."""

import numpy as np

from napari_gpubio.speckle.gui import SpecklePanel
from napari_gpubio.speckle.gui.panel_layers import find_layer as layer  # noqa: F401 - for the tests
from napari_gpubio.speckle.gui.sources import CameraPage, SimulatedPage
from napari_gpubio.speckle.live import CameraSource
from tests.dock_widgets import docked, press_and_wait, wait_until

SHAPE = (40, 56)
MICROMETERS = ["micrometer", "micrometer"]


def speckle(count=6, shape=SHAPE, dtype=np.uint16, top=4000):
    """Frames of an exponential law, as of fully developed speckle."""
    frames = np.random.default_rng(5).exponential(top / 6, (count, *shape))
    return np.minimum(frames, top).astype(dtype)


MOVES = [(0, 0), (3, -2), (-1, 4), (2, 2)]


def moving(moves=MOVES):
    """Frames of a scene with detail, moved by rows and columns, with a camera's noise."""
    rng = np.random.default_rng(3)
    scene = np.kron(rng.uniform(200, 2000, (16, 16)), np.ones((8, 8)))
    return np.array([np.roll(scene, move, (0, 1)) + rng.normal(0, 5, scene.shape) for move in moves]).astype(np.uint16)


def add_panel(viewer):
    panel = docked(viewer, SpecklePanel(viewer), "Laser speckle")
    panel.choose_device("cpu")
    return panel


def add_stack(viewer, frames=None, name="frames", **keywords):
    return viewer.add_image(speckle() if frames is None else frames, name=name, **keywords)


def choose_dark(panel, qtbot, name="dark"):
    """Choose a layer of dark frames, and wait until they are averaged."""
    box = panel.contrast_box.noise
    box.dark_box.setCurrentText(name)
    wait_until(qtbot, lambda: "averaged" not in box.description.text())
    return box


def simulate(panel, shape=(64, 96), rate_hz=100.0):
    page = panel.source_box.simulated
    panel.source_box.choose(SimulatedPage)
    page.width_box.setValue(shape[1])
    page.height_box.setValue(shape[0])
    page.rate.setValue(rate_hz)
    return page


def start(qtbot, panel, drawn=3):
    """Start live imaging, and wait for some maps on screen."""
    panel.live_box.start_button.click()
    assert panel.message == "", panel.message
    wait_drawn(qtbot, panel, drawn)


def wait_drawn(qtbot, panel, more=3):
    before = panel.runner.loop.status().drawn
    wait_until(qtbot, lambda: panel.runner.loop.status().drawn >= before + more)


def stop(qtbot, panel):
    panel.live_box.start_button.click()
    wait_until(qtbot, lambda: not panel.runner.is_live and panel.live_box.start_button.text() == "Start live")


def run_live(qtbot, panel):
    """Start live imaging, and stop it after some maps."""
    start(qtbot, panel)
    stop(qtbot, panel)


def live_error(qtbot, panel):
    """The panel's message after Start live, once nothing is live any more."""
    panel.live_box.start_button.click()
    wait_until(qtbot, lambda: not panel.runner.is_live and panel.message != "")
    return panel.message


def use_camera(monkeypatch, panel, core):
    """Choose the camera page, and let it open this core of Micro-Manager."""
    panel.source_box.choose(CameraPage)
    monkeypatch.setattr(CameraPage, "make_source", lambda _, exposure_ms: CameraSource(core, exposure_ms=exposure_ms))
    monkeypatch.setattr(CameraPage, "place", lambda _: {})


def run(qtbot, panel):
    press_and_wait(qtbot, panel, panel.run_button)


def box(top, left, bottom, right):
    """Corners of a rectangle around whole pixels."""
    return np.array([[top, left], [top, right], [bottom, right], [bottom, left]]) - 0.5


def draw(qtbot, panel, *shapes, kind="polygon"):
    """Draw regions, and wait until they are taken over."""
    if panel.regions.listener.layer is None:
        panel.regions.start_drawing()
        wait_until(qtbot, lambda: panel.regions.listener.layer is not None)
    with qtbot.waitSignal(panel.regions.listener.changed, timeout=5000):
        panel.regions.listener.layer.add(list(shapes), shape_type=kind)
    return panel.regions.listener.layer


def units_of(one):
    return [str(unit) for unit in one.units]
