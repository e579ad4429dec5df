"""Speed case of the panel: the time from a stroke of the brush to its curves. It opens a window."""

import time
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Check, Finding
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.dose.gui.panel import DosePanel
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import dose_layer, labels_layer
from napari_gpubio.dose.structures.labels import LabelStructures
from napari_gpubio.gui.checks import docked, findings_of, let_draw, shown_viewer, wait_until

MAX_MS = 50.0  # from a stroke to the curves in the plot, which the window then draws
SIDE = 256
_ORGANS = 5, 6  # boxes along x and y, as long as the volume along z
_BRUSH_VOXELS = 20
_STROKES, _FIRST = 60, 2  # strokes that are timed, and strokes before them


def boxes(side: int) -> tuple[Dose, LabelStructures]:
    """Return a round dose in a cube, and 30 organs that are boxes in it; voxels of 1 mm."""
    x = np.arange(side, dtype=np.float32) - side / 2
    bell = np.exp(-np.square(x) / (side / 2.9) ** 2)
    dose = 60.0 * bell[:, None, None] * bell[:, None] * bell
    labels = np.zeros((side,) * 3, np.uint8)
    (columns, rows), inner = _ORGANS, slice(side // 6, side - side // 6)
    for number, (i, j) in enumerate(np.ndindex(_ORGANS), start=1):
        labels[_part(side, columns, i), _part(side, rows, j), inner] = number
    organs = {number: f"organ {number}" for number in range(1, columns * rows + 1)}
    affine = np.eye(4)
    return Dose(values=dose, affine=affine, unit="Gy"), LabelStructures(labels=labels, affine=affine, structures=organs)


def _part(side: int, parts: int, number: int) -> slice:
    """One of some equal parts of an axis, with a gap behind it."""
    width = side // parts
    return slice(number * width, number * width + max(width - side // 32, 1))


def stroke_ms(device: Device, *, strokes: int = _STROKES, side: int = SIDE) -> tuple[float, ...]:
    """Return the milliseconds from each stroke until the plot has its curves, by the wall clock.

    Balls of 20 voxels in diameter are painted beside the middle of the dose, in two labels by turns, each after the
    napari window has drawn the one before.
    """
    dose, organs = boxes(side)
    took: list[float] = []
    with shown_viewer() as viewer:
        labels = _open(viewer, dose, organs)
        with docked(viewer, DosePanel(viewer), "Dose-volume histogram") as panel:
            panel.choose_device(str(device))
            panel.run()
            wait_until(lambda: not panel.is_busy, "histogram")
            if not panel.controller.curves:
                raise GpuBioError(panel.message)
            begun = 0.0
            panel.controller.curves_drawn.connect(lambda: took.append(1e3 * (time.perf_counter() - begun)))
            for number in range(_FIRST + strokes):
                let_draw()
                before, place = len(took), _place(number, side)
                begun = time.perf_counter()
                labels.paint(place, 1 + number % 2)  # another label than what a stroke beside it left there
                wait_until(partial(_is_longer, took, before), "curve")
    return tuple(took[_FIRST:])


def _is_longer(values: list[float], length: int) -> bool:
    return len(values) > length


def _open(viewer: Any, dose: Dose, organs: LabelStructures) -> Any:
    """Add both to the viewer; returns the layer of labels, with its brush."""
    data, keywords, _ = dose_layer(dose, "dose")
    viewer.add_image(data, **keywords)
    data, keywords, _ = labels_layer(organs, "organs")
    layer = viewer.add_labels(data, **keywords)
    layer.n_edit_dimensions, layer.brush_size = 3, _BRUSH_VOXELS
    return layer


def _place(number: int, side: int) -> npt.NDArray[Any]:
    """The middle of a stroke, along a line beside the middle of the dose."""
    along = side // 4 + number * side // 64
    return np.array([along % (side - _BRUSH_VOXELS), side // 2 - side // 32, side // 2 - side // 32])


def _stroke(device: Device) -> list[Finding]:
    return findings_of(stroke_ms(device), MAX_MS, "strokes")


CHECKS = (
    Check(name=f"3-D stroke to its curves, {SIDE}^3, 30 organs", source="half of what feels immediate", run=_stroke),
)
