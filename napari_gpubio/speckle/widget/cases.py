"""Reference case of the panel: what a live map costs napari's window. It opens one, so it needs a display."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from qtpy.QtCore import QEventLoop, QTimer

from napari_gpubio.core.cases import Check, Finding
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.speckle.live.cases import RATE_HZ, SHAPE
from napari_gpubio.speckle.widget.panel import SpecklePanel
from napari_gpubio.speckle.widget.source_pages import SimulatedPage

MOST_MS = 5.0  # of the window's own thread, that a map may take until it is in its layer
_FRAMES, _FIRST = 150, 10  # maps that are timed, and maps before them
_PATIENCE_S = 120.0


def open_panel(viewer: Any, size: tuple[int, int], rate_hz: float, device: str) -> SpecklePanel:
    """Dock the panel in a viewer, with the simulated camera chosen; ``size`` is width and height, pixels."""
    panel = SpecklePanel(viewer)
    viewer.window.add_dock_widget(panel, name="Laser speckle")
    panel.choose_device(device)
    panel.source_box.choose(SimulatedPage)
    page = panel.source_box.simulated
    page.width_box.setValue(size[0])
    page.height_box.setValue(size[1])
    page.rate.setValue(rate_hz)
    return panel


def wait_until(done: Callable[[], bool]) -> None:
    """Let the window live until something is done; an error if that takes too long."""
    loop, timer, begun = QEventLoop(), QTimer(), time.monotonic()
    timer.timeout.connect(lambda: loop.quit() if done() or time.monotonic() - begun > _PATIENCE_S else None)
    timer.start(20)
    loop.exec()
    if not done():
        raise GpuBioError(f"no live map came for {_PATIENCE_S:g} s; try again when the machine is less busy")


def setter_ms(
    device: Device, *, frames: int = _FRAMES, size: tuple[int, int] = (SHAPE[1], SHAPE[0])
) -> tuple[float, ...]:
    """Milliseconds that each of some live maps takes of the window's thread, by the wall clock.

    From the newest map to its layer, which then only has to be drawn; in a napari window that is shown, while the
    simulated camera, its process and the drawing go on beside it.
    """
    import napari

    viewer = napari.Viewer(title="napari-gpubio check")
    try:
        panel, took = open_panel(viewer, size, RATE_HZ, str(device)), []
        show = panel.layers.show

        def timed(live: Any) -> bool:
            begun = time.perf_counter()
            is_new = show(live)
            took.append(1e3 * (time.perf_counter() - begun))
            return is_new

        panel.layers.show = timed  # type: ignore[method-assign]
        panel.live_box.start_button.click()
        wait_until(lambda: len(took) >= _FIRST + frames)
        panel.live_box.start_button.click()
        wait_until(lambda: not panel.desk.is_live)
        panel.teardown()
    finally:
        viewer.close()
    return tuple(took[_FIRST : _FIRST + frames])


def _setter(device: Device) -> list[Finding]:
    took = setter_ms(device)
    return [
        Finding(
            quantity=f"{what} of {len(took)} maps (ms)", reference=0.0, result=value, error=value, tolerance=MOST_MS
        )
        for what, value in (("median", float(np.median(took))), ("95th percentile", float(np.percentile(took, 95))))
    ]


CHECKS = (
    Check(
        name=f"live map into its layer, {SHAPE[1]} x {SHAPE[0]}", source="a fifth of the time between maps", run=_setter
    ),
)
