"""Slabs whose structure ends in a tip: a first or last contour of nearly no area, towards which it narrows smoothly.

Of slabs alone a tip would end half way to it. Between the plane of the tip and the next the outline is the zero level
of a function that changes linearly from the one to the other. In a plane it is s (s + 2 R) with s the distance to the
contours, negative inside, and R the largest distance inside: r^2 - R^2 for a disc, x^2 - w^2 for a strip of half width
w, so that the end of a ball or of a lying cylinder is followed to second order. To it belongs the other contour scaled
towards the tip, with an area that falls linearly: so that no less volume lies between than in half a slab.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.contours import ContourStructure, Plane, following
from napari_gpubio.dose.structures.outlines import Outlines, is_break, slab_outlines, usual_distance_mm
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
_TIP = 0.01  # of the area of the contour beside it: a contour that has less marks an end


def outlines_of(structure: ContourStructure, interpolation: str, caps: str) -> Outlines:
    """The outlines by the settings' words for interpolation and caps."""
    return (shape_outlines if interpolation == "shape" else tipped_outlines)(structure, caps)


def tip_notes(structure: ContourStructure) -> tuple[str, ...]:
    """A sentence if slabs of the structure end in tips."""
    count = len(_tips(structure))
    if not count:
        return ()
    ends = "an end" if count == 1 else f"{count} ends"
    return (f"{structure.name!r} has {ends} with a contour of nearly no area, towards which it narrows smoothly",)


def tipped_outlines(structure: ContourStructure, caps: str = "half") -> Outlines:
    """Each contour as it was drawn, half way to its neighbors, and towards a tip an outline that narrows smoothly."""
    drawn, tips = slab_outlines(structure, caps), _tips(structure)
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
    return stacked(parts) or drawn


def _tips(structure: ContourStructure) -> dict[int, int]:
    """Planes that are no more than the end of a structure or of one of its parts, each with the plane beside it."""
    planes = structure.planes
    if len(planes) < 2:
        return {}
    breaks = is_break(np.diff([plane.position_mm for plane in planes]), usual_distance_mm(structure))
    firsts = [0, *(int(n) + 1 for n in np.flatnonzero(breaks)), len(planes)]
    beside: dict[int, int] = {}
    for first, end in pairwise(firsts):
        if end - first > 1:
            beside |= {first: first + 1, end - 1: end - 2}
    return {tip: plane for tip, plane in beside.items() if _area(planes[tip]) < _TIP * _area(planes[plane])}


def _area(plane: Plane) -> float:
    """Area of the largest loop of a plane, mm²."""
    areas = [loop[:, 0] @ following(loop)[:, 1] - loop[:, 1] @ following(loop)[:, 0] for loop in plane.loops]
    return 0.5 * max(abs(float(area)) for area in areas)


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
