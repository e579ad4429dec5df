"""Pictures: fluence before and after with iso-lines, and a scan before and after with what was taken off (Pillow)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import Array
from light.picture import GRAY, INK, MARGIN, PALE, colored, draw_bar, edges, magnified
from scipy import ndimage

MAGNIFIED = 5  # pixels of a voxel
BAR, HEADING = 60, 44
DECADES = (-8.0, 0.0)  # log10 of the fluence, 1/mm^2
RESIDUAL = 30.0  # most that is shown of what was taken off; black and white are this far from gray


def draw_fluence(found: Mapping[str, Array], path: Path) -> None:
    """Draw a plane through the beam for each title, (titles, lateral, depth): log10 fluence, an iso-line per decade."""
    panels = [(title, _fluence_panel(plane)) for title, plane in _panels(found)]
    heading = "log10 fluence, 1/mm^2 per photon; a line per decade; gray: no light; the beam comes from above"
    _draw(panels, f"{found['heading']}. {heading}", path, DECADES)


def draw_scan(found: Mapping[str, Array], path: Path) -> None:
    """Draw an axial plane for each name; those whose title begins with ``removed`` are differences around 0."""
    panels = [(title, _scan_panel(title, plane)) for title, plane in _panels(found)]
    _draw(panels, f"{found['heading']}. Removed: gray is 0, black and white are -{RESIDUAL:g} and {RESIDUAL:g}", path)


def _panels(found: Mapping[str, Array]) -> list[tuple[str, Array]]:
    return list(zip(map(str, found["titles"]), found["planes"], strict=True))


def _fluence_panel(plane: Array) -> Array:
    with np.errstate(divide="ignore"):
        log = np.log10(plane)
    pixels = colored(log, DECADES)
    pixels[~(plane > 0)] = GRAY
    large = magnified(pixels, MAGNIFIED)
    fine = ndimage.zoom(np.where(plane > 0, log, DECADES[0] - 3), MAGNIFIED, order=1, grid_mode=True, mode="nearest")
    large[edges(np.floor(fine)) & magnified(plane > 0, MAGNIFIED)] = PALE
    return np.ascontiguousarray(np.swapaxes(large, 0, 1))  # depth downwards


def _scan_panel(title: str, plane: Array) -> Array:
    shown = 127.5 + plane * 127.5 / RESIDUAL if title.startswith("removed") else plane
    gray = np.clip(shown, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(np.swapaxes(magnified(np.stack([gray] * 3, axis=-1), MAGNIFIED), 0, 1)[::-1])


def _draw(
    panels: Sequence[tuple[str, Array]], heading: str, path: Path, limits: tuple[float, float] | None = None
) -> None:
    """Panels side by side, with a color bar if there are limits."""
    from PIL import Image, ImageDraw

    height, width = panels[0][1].shape[:2]
    bar = BAR if limits else 0
    canvas = Image.new("RGB", (len(panels) * (width + MARGIN) + MARGIN + bar, height + HEADING + MARGIN), PALE)
    pen: Any = ImageDraw.Draw(canvas)
    pen.text((MARGIN, 6), heading, fill=INK)
    for n, (title, pixels) in enumerate(panels):
        left = MARGIN + n * (width + MARGIN)
        canvas.paste(Image.fromarray(pixels), (left, HEADING))
        pen.text((left, HEADING - 16), title, fill=INK)
    if limits:
        draw_bar(canvas, pen, len(panels) * (width + MARGIN) + 8, HEADING, height, limits)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path)
