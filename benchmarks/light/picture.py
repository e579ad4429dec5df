"""A picture of the fluence in the head and of its relative error, drawn with Pillow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from common import Array
from scipy import ndimage

MAGNIFIED = 4  # pixels of a voxel
MARGIN, BAR, HEADING = 16, 90, 40
RAMP = ((4, 5, 24), (60, 15, 112), (145, 38, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191))
DECADES = (-7.0, 0.0)  # log10 of the fluence, 1/mm^2
ERROR_DECADES = (-3.0, 0.0)  # log10 of the relative error
TRUSTED = 0.5  # a voxel with a larger relative error is left gray
SURE = 0.25  # iso-lines are drawn where the relative error is smaller
SIDES = {"sagittal": ("back", "front"), "coronal": ("left", "right"), "axial": ("left", "right")}
GRAY, OUTLINE, PALE, INK = (170, 170, 170), (90, 90, 90), (255, 255, 255), (20, 20, 20)


def draw(found: Mapping[str, Array], path: Path, plane: str = "coronal") -> None:
    """Draw one plane of `head.planes`: log10 fluence with an iso-line per decade, and the relative error beside it."""
    from PIL import Image, ImageDraw

    labels, fluence, error = (found[f"{plane}_{name}"] for name in ("labels", "fluence", "error"))
    with np.errstate(divide="ignore", invalid="ignore"):
        log, relative = np.log10(fluence), error / fluence
    panels = (
        ("log10 fluence, 1/mm^2 per photon; a line per decade", _fluence_panel(labels, log, relative), DECADES),
        ("log10 relative standard error", _error_panel(labels, relative), ERROR_DECADES),
    )
    height, width = panels[0][1].shape[:2]
    canvas = Image.new("RGB", (2 * (width + BAR) + 3 * MARGIN, height + HEADING + 2 * MARGIN), PALE)
    pen = ImageDraw.Draw(canvas)
    pen.text((MARGIN, 6), f"{plane} plane through the beam, {int(found['photons']):,} photons", fill=INK)
    for n, (title, pixels, decades) in enumerate(panels):
        left, top = MARGIN + n * (width + BAR + MARGIN), HEADING
        canvas.paste(Image.fromarray(pixels), (left, top))
        pen.text((left, top - 16), title, fill=INK)
        for place, name in zip((left, left + width - 40), SIDES[plane], strict=True):
            pen.text((place, top + height + 2), name, fill=INK)
        draw_bar(canvas, pen, left + width + 8, top, height, decades)
        _draw_beam(pen, found, plane, left, top + height)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.save(path)


def _fluence_panel(labels: Array, log: Array, relative: Array) -> Array:
    pixels = colored(log, DECADES)
    pixels[~(relative < TRUSTED)] = GRAY
    pixels[labels == 0] = PALE
    large = magnified(pixels)
    fine = ndimage.zoom(np.where(np.isfinite(log), log, -99.0), MAGNIFIED, order=1, grid_mode=True, mode="nearest")
    lines = edges(np.floor(fine)) & magnified((relative < SURE) & (labels > 0))
    large[edges(magnified(labels))] = OUTLINE
    large[lines] = PALE
    return _upright(large)


def _error_panel(labels: Array, relative: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        pixels = colored(np.log10(relative), ERROR_DECADES)
    pixels[~(relative < 1.0)] = GRAY
    pixels[labels == 0] = PALE
    large = magnified(pixels)
    large[edges(magnified(labels))] = OUTLINE
    return _upright(large)


def colored(values: Array, limits: tuple[float, float]) -> Array:
    """Colors of values, shape (..., 3), uint8."""
    place = np.clip((np.nan_to_num(values, nan=limits[0], neginf=limits[0]) - limits[0]) / np.ptp(limits), 0, 1)
    ramp = np.array(RAMP, float)
    at = np.linspace(0, 1, len(ramp))
    return np.stack([np.interp(place, at, ramp[:, channel]) for channel in range(3)], -1).astype(np.uint8)


def magnified(pixels: Array, times: int = MAGNIFIED) -> Array:
    return pixels.repeat(times, axis=0).repeat(times, axis=1)


def edges(regions: Array) -> Array:
    """Pixels whose neighbor ahead along an axis belongs to another region."""
    found = np.zeros(regions.shape, bool)
    found[:-1] |= regions[:-1] != regions[1:]
    found[:, :-1] |= regions[:, :-1] != regions[:, 1:]
    return found


def _upright(pixels: Array) -> Array:
    """First axis to the right, second axis up, as rows of an image."""
    return np.ascontiguousarray(np.swapaxes(pixels, 0, 1)[::-1])


def draw_bar(canvas: Any, pen: Any, left: int, top: int, height: int, decades: tuple[float, float]) -> None:
    from PIL import Image

    values = np.linspace(decades[1], decades[0], height)[:, None].repeat(16, axis=1)
    canvas.paste(Image.fromarray(colored(values, decades)), (left, top))
    for value in np.arange(decades[0], decades[1] + 1):
        y = top + round((height - 1) * (decades[1] - value) / (decades[1] - decades[0]))
        pen.line((left + 16, y, left + 22, y), fill=INK)
        pen.text((left + 26, min(y - 6, top + height - 12)), f"{value:g}", fill=INK)


def _draw_beam(pen: Any, found: Mapping[str, Array], plane: str, left: int, bottom: int) -> None:
    """An arrow of 12 voxels that ends where the light enters."""
    across = [axis for axis in range(3) if axis != ("sagittal", "coronal", "axial").index(plane)]
    end, direction = found["source_index"][across], found["direction"][across]
    start = end - 12 * direction

    def pixel(point: Array) -> tuple[float, float]:
        return left + MAGNIFIED * point[0], bottom - MAGNIFIED * point[1]

    pen.line((*pixel(start), *pixel(end)), fill=(0, 150, 220), width=3)
    pen.ellipse((*(v - 4 for v in pixel(end)), *(v + 4 for v in pixel(end))), fill=(0, 150, 220))
