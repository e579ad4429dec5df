"""Outlines between contours: shapes that change from one plane to the next by their distances."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.outlines import Outlines, gaps_of, slab_outlines

Array = npt.NDArray[np.float64]
Grid = tuple[Array, Array]  # coordinates x and y
Slab = tuple[Array, float, float]  # segments, where it begins, where it ends
_STEPS = 128  # of the grid of distances, along the structure's largest extent; and at most between two planes
_KEPT = 0.9  # of the smaller of two contours: less area half way between them is none of their shape
_MIN_DISTANCES = 1 << 17  # of a grid point to a segment, worth a call of their own


def zero_level(values: Array, x: Array, y: Array) -> Array:
    """Segments of the zero level, shape (N, 4): x and y of one end, x and y of the other.

    Between grid points the function is taken to be linear. Every crossing of a grid line ends as many segments as it
    has cells beside it, so the segments close, in whatever order they come. ``values``, shape (X, Y), must be positive
    all around the border.
    """
    inside = values < 0
    along_x = _crossings(values, inside, x, axis=0)  # (X - 1, Y), x of the crossing or NaN
    along_y = _crossings(values, inside, y, axis=1)  # (X, Y - 1)
    columns, rows = np.meshgrid(np.arange(len(x) - 1), np.arange(len(y) - 1), indexing="ij")
    low_x, low_y = x[columns], y[rows]
    high_x, high_y = x[columns + 1], y[rows + 1]
    ends = np.stack(  # of each cell: on its lower, right, upper and left side
        [
            np.stack([along_x[:, :-1], low_y], axis=-1),
            np.stack([high_x, along_y[1:, :]], axis=-1),
            np.stack([along_x[:, 1:], high_y], axis=-1),
            np.stack([low_x, along_y[:-1, :]], axis=-1),
        ],
        axis=-2,
    )
    crossed = np.asarray(np.isfinite(ends).all(axis=-1))
    used = crossed.any(axis=-1)
    ends, crossed = ends[used], crossed[used]
    two, four = crossed.sum(axis=-1) == 2, crossed.sum(axis=-1) == 4
    single = ends[two][crossed[two]].reshape(-1, 4)
    return np.concatenate([single, ends[four][:, :2].reshape(-1, 4), ends[four][:, 2:].reshape(-1, 4)])


def _crossings(values: Array, inside: npt.NDArray[Any], coordinates: Array, axis: int) -> Array:
    """Where each grid line between neighbors along an axis is crossed; NaN where it is not."""
    first, second = np.moveaxis(values, axis, 0)[:-1], np.moveaxis(values, axis, 0)[1:]
    changes = np.diff(np.moveaxis(inside, axis, 0), axis=0)
    shape = (-1, *[1] * (values.ndim - 1))
    start, step = coordinates[:-1].reshape(shape), np.diff(coordinates).reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(changes, start + first / (first - second) * step, np.nan)
    return np.moveaxis(found, 0, axis)


def shape_outlines(structure: ContourStructure, caps: str = "half") -> Outlines:
    """Outlines of many thin slabs between the contours; beyond the ends the last contour holds, as in slabs.

    Where neighboring contours do not lie over each other, as those of a thin shell that is cut at a slant, an outline
    between them would hold less than either, or nothing: each of the two holds half way to the other there, and
    ``apart`` of the outlines counts them.
    """
    drawn = slab_outlines(structure, caps)
    outlines = np.split(drawn.segments, np.cumsum(drawn.counts)[:-1])
    positions = np.array([plane.position_mm for plane in structure.planes])
    joined = ~gaps_of(structure)
    grid = grid_of(drawn.segments)
    distances = [signed_distances(outline, *grid) for outline in outlines]
    morphs = np.array([_lie_over_each_other(*distances[n : n + 2]) for n in range(len(joined))], np.bool_) & joined
    parts: list[Slab] = []
    for n, outline in enumerate(outlines):
        if n == 0 or not morphs[n - 1]:
            parts.append((outline, drawn.low[n], positions[n]))
        if n == len(morphs) or not morphs[n]:
            parts.append((outline, positions[n], drawn.high[n]))
        else:
            parts += _between(distances[n : n + 2], positions[n : n + 2], grid)
    found = stacked(parts)
    if found is None:
        return drawn  # a single plane without caps holds nothing
    return found._replace(apart=int(np.count_nonzero(joined & ~morphs)))


def _lie_over_each_other(below: Array, above: Array) -> bool:
    """Whether half way between two contours, by their signed distances, there is as much as in the smaller one."""
    smaller = min(np.count_nonzero(below < 0), np.count_nonzero(above < 0))
    return bool(np.count_nonzero(below + above < 0) >= _KEPT * smaller)


def grid_of(segments: Array) -> Grid:
    """A square grid around all outlines."""
    points = segments.reshape(-1, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    step = max(float((high - low).max()) / _STEPS, 1e-6)
    first, counts = low - 1.01 * step, np.ceil((high - low) / step).astype(int) + 3
    return first[0] + step * np.arange(counts[0]), first[1] + step * np.arange(counts[1])


def _between(distances: list[Array], ends: Array, grid: Grid) -> list[Slab]:
    """Thin slabs between two planes, each with the outline of its middle."""
    below, above = distances
    borders, shares = thin_slabs(ends, grid)
    found = (zero_level((1 - share) * below + share * above, *grid) for share in shares)
    return list(zip(found, borders[:-1], borders[1:], strict=True))


def thin_slabs(ends: Array, grid: Grid) -> tuple[Array, Array]:
    """Borders of slabs between two planes, mostly a step of the grid thick, and where their middles are (0 to 1)."""
    count = int(np.clip(np.ceil(abs(ends[1] - ends[0]) / (grid[0][1] - grid[0][0])), 2, _STEPS))
    return np.linspace(ends[0], ends[1], count + 1), (np.arange(count) + 0.5) / count


def signed_distances(segments: Array, x: Array, y: Array) -> Array:
    """Distances of the points of a grid to outlines, negative inside, shape (X, Y)."""
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.dose.structures.geometry import fill_distances

    out = np.empty((len(x), len(y)))
    run_blocks(fill_distances, len(x), segments, x, y, out, least=max(1, _MIN_DISTANCES // (len(segments) * len(y))))
    return out


def stacked(parts: list[Slab]) -> Outlines | None:
    """Slabs in ascending order; None if none of them holds anything."""
    kept = sorted((part for part in parts if len(part[0]) and part[2] > part[1]), key=lambda part: part[1])
    if not kept:
        return None
    segments, low, high = zip(*kept, strict=True)
    counts = np.array([len(part) for part in segments])
    return Outlines(np.concatenate(segments), counts, np.array(low), np.array(high))
