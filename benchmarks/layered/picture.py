"""A picture of the error maps, drawn with Pillow: relative difference of A(r, z) from 0 to 10 %, as in figure 7."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from common import Array
from light.picture import BAR, GRAY, HEADING, INK, MARGIN, PALE, colored, draw_bar

WIDER = 3  # pixels of a bin in r; a bin in z is one pixel high
FOOT, SIDE = 34, 40  # room for the numbers below and on the left
LIMITS = (0.0, 10.0)  # %
R_TICK_MM, Z_TICK_MM = 5.0, 2.0
COLUMNS = 2


def draw(found: Mapping[str, Array], path: Path) -> None:
    """Draw what `error_maps.write` has written, a panel for each pair."""
    from PIL import Image, ImageDraw

    titles, maps = found["titles"], found["difference_percent"]
    height, width = maps.shape[1], WIDER * maps.shape[2]
    across, down = SIDE + width + BAR + MARGIN, HEADING + height + FOOT
    rows = -(-len(maps) // COLUMNS)
    canvas = Image.new("RGB", (across * min(len(maps), COLUMNS) + MARGIN, down * rows + MARGIN), PALE)
    pen = ImageDraw.Draw(canvas)
    for n, (title, percent) in enumerate(zip(titles, maps, strict=True)):
        left, top = MARGIN + SIDE + n % COLUMNS * across, HEADING + n // COLUMNS * down
        canvas.paste(Image.fromarray(_panel(percent)), (left, top))
        pen.text((left, top - 32), str(title), fill=INK)
        pen.text((left, top - 18), "|difference| of A(r, z), %; gray: no light", fill=INK)
        draw_bar(canvas, pen, left + width + 8, top, height, LIMITS)
        _draw_ticks(pen, left, top + height, WIDER / float(found["dr_mm"]), 1 / float(found["dz_mm"]), maps.shape[1:])
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path)


def _panel(percent: Array) -> Array:
    pixels = colored(np.abs(percent), LIMITS)
    pixels[~np.isfinite(percent)] = GRAY
    return pixels.repeat(WIDER, axis=1)


def _draw_ticks(pen: Any, left: int, bottom: int, x_per_mm: float, y_per_mm: float, shape: tuple[int, int]) -> None:
    """Draw r in mm below a panel, and z in mm, downwards, on its left."""
    width, height = WIDER * shape[1], shape[0]
    for r in np.arange(0, width / x_per_mm + 1e-6, R_TICK_MM):
        x = left + x_per_mm * r
        pen.line((x, bottom, x, bottom + 4), fill=INK)
        pen.text((x - 4, bottom + 6), f"{r:g}", fill=INK)
    for z in np.arange(0, height / y_per_mm + 1e-6, Z_TICK_MM):
        y = bottom - height + y_per_mm * z
        pen.line((left - 5, y, left, y), fill=INK)
        pen.text((left - 22, y - 6), f"{z:g}", fill=INK)
    pen.text((left + width / 2 - 14, bottom + 18), "r, mm", fill=INK)
    pen.text((left - 38, bottom - height - 18), "z, mm", fill=INK)
