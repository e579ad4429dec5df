"""Reference case of the panel: how soon the slice on screen is denoised. It opens a window: it needs a display."""

import time

import numpy as np

from napari_gpubio.core.checks import Check, Finding
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.gui.panel import DenoisePanel
from napari_gpubio.gui.checks import docked, findings_of, shown_viewer, wait_until

MAX_MS = 100.0  # from a step of the slider to the first preview in its layer
SIDE = 100
_SLICES, _FIRST = 60, 3  # steps that are timed, and steps before them


def preview_ms(device: Device, *, slices: int = _SLICES, side: int = SIDE) -> tuple[float, ...]:
    """Milliseconds from each of some steps of the slider to the first preview, by the wall clock.

    A noisy ball is viewed slice by slice, with the settings that the panel begins with, in a napari window that is
    shown; each step comes when all of the slice before has been denoised.
    """
    seen: list[float] = []
    took: list[float] = []
    errors: list[str] = []
    with shown_viewer() as viewer:
        viewer.add_image(_noisy_ball(side), name="ball")
        with docked(viewer, DenoisePanel(viewer), "Denoise") as panel:
            panel.choose_device(str(device))
            panel.preview.shown.connect(lambda: seen.append(time.perf_counter()))
            panel.preview.error_occurred.connect(errors.append)
            panel.live_box.setChecked(True)
            wait_until(lambda: bool(seen) and not panel.preview.is_busy, "preview", errors)
            for number in range(_FIRST + slices):
                seen.clear()
                begun = time.perf_counter()
                viewer.dims.set_current_step(0, (side // 4 + number) % side)
                wait_until(lambda: bool(seen) and not panel.preview.is_busy, "preview", errors)
                took.append(1e3 * (seen[0] - begun))
    return tuple(took[_FIRST:])


def _noisy_ball(side: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    x = np.linspace(-1, 1, side, dtype=np.float32) ** 2
    ball = np.where(x[:, None, None] + x[:, None] + x < 0.64, 900.0, 100.0)
    return (ball + np.random.default_rng(0).normal(0, 30, ball.shape)).astype(np.float32)


def _preview(device: Device) -> list[Finding]:
    return findings_of(preview_ms(device), MAX_MS, "slices")


CHECKS = (Check(name=f"step to the first preview, {SIDE}^3", source="what feels immediate", run=_preview),)
