"""Slabs whose structure ends in a tip: a first or last contour of nearly no area, towards which it narrows smoothly.

Of slabs alone a tip would end half way to it. Between the plane of the tip and the next the outline is the zero level
of a function that changes linearly from the one to the other. In a plane it is s (s + 2 R) with s the distance to the
contours, negative inside, and R the largest distance inside: r^2 - R^2 for a disc, x^2 - w^2 for a strip of half width
w, so that the end of a ball or of a lying cylinder is followed to second order. To it belongs the other contour scaled
towards the tip, with an area that falls linearly: so that no less volume lies between than in half a slab.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.contours import ContourStructure, Plane
from napari_gpubio.dose.structures.outlines import Outlines, slab_outlines
from napari_gpubio.dose.structures.shapes import (
    Grid,
    Slab,
    grid_of,
    shape_outlines,
    signed_distances,
    stacked,
    thin_slabs,
    zero_level,
)

Array = npt.NDArray[np.float64]
_APART_MM = 1e-6  # between slabs that touch no more
_TIP = 0.01  # of the area of the contour beside it: a contour that has less marks an end


def outlines_of(structure: ContourStructure, interpolation: str, caps: str) -> Outlines:
    """The outlines by the settings' words for interpolation and caps."""
    return (shape_outlines if interpolation == "shape" else tipped_outlines)(structure, caps)


def outline_notes(outlines: Outlines, name: str) -> tuple[str, ...]:
    """Sentences if slabs of a structure end in tips, or its shape cannot be followed from plane to plane."""
    notes = []
    if outlines.tips:
        ends = "an end" if outlines.tips == 1 else f"{outlines.tips} ends"
        notes.append(f"{name!r} has {ends} with a contour of nearly no area, towards which it narrows smoothly")
    if outlines.apart:
        beside = f"contours of {name!r} do not lie over those of the next plane in {outlines.apart} places"
        notes.append(f"{beside}, where each holds half way to the other instead of changing its shape")
    return tuple(notes)


def tipped_outlines(structure: ContourStructure, caps: str = "half") -> Outlines:
    """Each contour as it was drawn, half way to its neighbors, and towards a tip an outline that narrows smoothly."""
    drawn = slab_outlines(structure, caps)
    tips = _tips(structure.planes, drawn)
    if not tips:
        return drawn
    outlines = np.split(drawn.segments, np.cumsum(drawn.counts)[:-1])
    positions = np.array([plane.position_mm for plane in structure.planes])
    low, high = drawn.low.copy(), drawn.high.copy()
    parts: list[Slab] = []
    for tip, beside in tips.items():
        (low if beside > tip else high)[beside] = positions[beside]
        parts += _narrowing(outlines[tip], outlines[beside], positions[[tip, beside]])
    parts += [(one, low[n], high[n]) for n, one in enumerate(outlines) if n not in tips]
    found = stacked(parts)
    return drawn if found is None else found._replace(tips=len(tips))


def _tips(planes: Sequence[Plane], drawn: Outlines) -> dict[int, int]:
    """Planes that are no more than the end of a structure or of one of its parts, each with the plane beside it."""
    breaks = np.flatnonzero(drawn.low[1:] - drawn.high[:-1] > _APART_MM)
    firsts = [0, *(int(n) + 1 for n in breaks), len(planes)]
    beside: dict[int, int] = {}
    for first, end in pairwise(firsts):
        if end - first > 1:
            beside |= {first: first + 1, end - 1: end - 2}
    return {tip: plane for tip, plane in beside.items() if _area(planes[tip]) < _TIP * _area(planes[plane])}


def _area(plane: Plane) -> float:
    """Area of the largest loop of a plane, mm²."""
    return max(_area_of(loop[:, 0], loop[:, 1]) for loop in plane.loops)


def _area_of(x: Array, y: Array) -> float:
    return 0.5 * abs(float(x[:-1] @ y[1:] - x[1:] @ y[:-1] + x[-1] * y[0] - x[0] * y[-1]))


def _narrowing(tip: Array, other: Array, positions: Array) -> list[Slab]:
    """Thin slabs between a tip and the plane beside it, each with the outline of its middle; ``positions`` of both."""
    grid = grid_of(np.concatenate([tip, other]))
    at_tip, at_other = _levels(tip, grid), _levels(other, grid)
    center = tip.reshape(-1, 2).mean(axis=0)
    borders, shares = thin_slabs(positions, grid)  # shares of the other plane
    found = []
    for share in shares:
        between = (1 - share) * at_tip + share * at_other
        found.append(zero_level(np.minimum(between, _scaled(at_other, center, float(np.sqrt(share)), grid)), *grid))
    ends = np.sort([borders[:-1], borders[1:]], axis=0)
    return list(zip(found, *ends, strict=True))


def _scaled(levels: Array, center: Array, factor: float, grid: Grid) -> Array:
    """The levels of contours that are scaled towards a point."""
    from scipy.ndimage import map_coordinates

    x, y = (c + (axis - c) / factor for c, axis in zip(center, grid, strict=True))
    step = grid[0][1] - grid[0][0]
    places = np.meshgrid((x - grid[0][0]) / step, (y - grid[1][0]) / step, indexing="ij")
    return np.asarray(map_coordinates(levels, places, order=1, mode="nearest"))


def _levels(segments: Array, grid: Grid) -> Array:
    """The function that is 0 on the contours of a plane; see the module's docstring."""
    distances = signed_distances(segments, *grid)
    return np.asarray(distances * (distances - 2 * min(float(distances.min()), 0.0)))
