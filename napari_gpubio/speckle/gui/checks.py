"""Reference case of the panel: what a live map costs napari's window. It opens one, so it needs a display."""

import time
from typing import Any

from napari_gpubio.core.checks import Check
from napari_gpubio.core.device import Device
from napari_gpubio.gui.checks import docked, findings_of, shown_viewer, wait_until
from napari_gpubio.speckle.gui.panel import SpecklePanel
from napari_gpubio.speckle.gui.sources import SimulatedPage
from napari_gpubio.speckle.live.checks import RATE_HZ, SHAPE

MAX_MS = 5.0  # of the window's own thread, that a map may take until it is in its layer
_FRAMES, _FIRST = 150, 10  # maps that are timed, and maps before them


def choose_camera(panel: SpecklePanel, size: tuple[int, int], rate_hz: float, device: str) -> None:
    """Choose the simulated camera in a panel; ``size`` is width and height, pixels."""
    panel.choose_device(device)
    panel.source_box.choose(SimulatedPage)
    page = panel.source_box.simulated
    page.width_box.setValue(size[0])
    page.height_box.setValue(size[1])
    page.rate.setValue(rate_hz)


def setter_ms(
    device: Device, *, frames: int = _FRAMES, size: tuple[int, int] = (SHAPE[1], SHAPE[0])
) -> tuple[float, ...]:
    """Milliseconds that each of some live maps takes of the window's thread, by the wall clock.

    From the newest map to its layer, which then only has to be drawn; in a napari window that is shown, while the
    simulated camera, its process and the drawing go on beside it.
    """
    took: list[float] = []
    with shown_viewer() as viewer, docked(viewer, SpecklePanel(viewer), "Laser speckle") as panel:
        choose_camera(panel, size, RATE_HZ, str(device))
        show = panel.layers.show_map

        def timed(live: Any) -> bool:
            begun = time.perf_counter()
            is_new = show(live)
            took.append(1e3 * (time.perf_counter() - begun))
            return is_new

        panel.layers.show_map = timed
        panel.live_box.start_button.click()
        wait_until(lambda: len(took) >= _FIRST + frames, "live map")
        panel.live_box.start_button.click()
        wait_until(lambda: not panel.runner.is_live, "end of the live maps")
    return tuple(took[_FIRST : _FIRST + frames])


CHECKS = (
    Check(
        name=f"live map into its layer, {SHAPE[1]} x {SHAPE[0]}",
        source="a fifth of the time between maps",
        run=lambda device: findings_of(setter_ms(device), MAX_MS, "maps"),
    ),
)
