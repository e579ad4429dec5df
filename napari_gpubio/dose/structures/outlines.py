"""Outlines of structures in slabs: contours as drawn, or changing their shape from one to the next; and their edges."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.contours import ContourStructure

Array = npt.NDArray[np.float64]
_BREAK = 1.9  # times the usual distance of planes: where one is missing, a structure has two parts


def slab_bounds(structure: ContourStructure, caps: str = "half") -> tuple[Array, Array]:
    """Where each plane begins and ends to hold, mm along the normal; shape (planes,) each.

    That is half way to its neighbors, and half a slice beyond the ends of the structure and of its parts; with
    ``caps`` of ``"none"`` it ends in the planes of the first and last contour.
    """
    positions = np.array([plane.position_mm for plane in structure.planes])
    usual = usual_distance_mm(structure)
    gaps = np.diff(positions)
    halves = np.where(is_break(gaps, usual), 0.5 * usual if caps == "half" else 0.0, 0.5 * gaps)
    end = 0.5 * usual if caps == "half" else 0.0
    return positions - np.concatenate([[end], halves]), positions + np.concatenate([halves, [end]])


def usual_distance_mm(structure: ContourStructure) -> float:
    """Distance of neighboring planes (the median), or the slice thickness where there is one plane only."""
    positions = [plane.position_mm for plane in structure.planes]
    if len(positions) > 1:
        return float(np.median(np.diff(positions)))
    if structure.thickness_mm is None:
        raise InvalidInput(
            f"{structure.name!r} has contours in a single plane, whose thickness is not known; give thickness_mm"
        )
    return structure.thickness_mm


def gap_notes(structure: ContourStructure) -> tuple[str, ...]:
    """A sentence if gaps part the structure: there may be a contour missing."""
    gaps, usual = np.diff([plane.position_mm for plane in structure.planes]), usual_distance_mm(structure)
    wide = gaps[is_break(gaps, usual)]
    if not len(wide):
        return ()
    note = f"{structure.name!r} has {len(wide)} gaps of up to {wide.max():.4g} mm among contours {usual:.4g} mm apart"
    return (f"{note} and is counted in {len(wide) + 1} parts",)


def is_break(gaps: Array, usual: float) -> npt.NDArray[np.bool_]:
    """Whether a gap between planes is so wide that it parts the structure."""
    return np.asarray(gaps > _BREAK * usual)


class Outlines(NamedTuple):
    """The outlines of all slabs, one after another, in the structure's frame, mm."""

    # shape (N, 4): x and y of one end, x and y of the other. What lies inside those of a slab by the even-odd
    # rule belongs to the structure, so their order and direction mean nothing
    segments: Array
    counts: npt.NDArray[np.int64]  # how many of them each slab has, at least one, shape (slabs,)
    low: Array  # where the slabs begin and end along the normal, shape (slabs,)
    high: Array


def slab_outlines(structure: ContourStructure, caps: str = "half") -> Outlines:
    """Each contour as it was drawn, half way to its neighbors; see `slab_bounds`."""
    loops = [loop for plane in structure.planes for loop in plane.loops]
    points = np.concatenate(loops)
    following = np.concatenate([part for loop in loops for part in (loop[1:], loop[:1])])
    counts = np.array([sum(map(len, plane.loops)) for plane in structure.planes])
    return Outlines(np.concatenate([points, following], axis=1), counts, *slab_bounds(structure, caps))


def outlines_of(structure: ContourStructure, interpolation: str, caps: str) -> Outlines:
    """The outlines by the settings' words for interpolation and caps."""
    return (shape_outlines if interpolation == "shape" else slab_outlines)(structure, caps)


class Edges(NamedTuple):
    """The edges of a structure, slab after slab, without those along x."""

    table: Array  # lower y, upper y, x at the lower end, x per y; mm, shape (E, 4)
    # where the edges of each slab end, shape (slabs,), int64; they begin where those of the slab before end
    ends: npt.NDArray[np.int64]
    extents: Array  # least x and y, largest x and y of each slab, mm, shape (slabs, 4)
    low: Array  # where the slabs begin and end along the normal, mm, shape (slabs,)
    high: Array


def edges_of(outlines: Outlines) -> Edges:
    """The edges of outlines, at least one segment in each slab."""
    from napari_gpubio.dose.structures.geometry import fill_edges

    table = np.empty((len(outlines.segments), 4))
    ends, extents = np.empty(len(outlines.counts), np.int64), np.empty((len(outlines.counts), 4))
    fill_edges(0, len(outlines.counts), outlines.segments, outlines.counts, table, ends, extents)
    return Edges(table[: ends[-1]], ends, extents, outlines.low, outlines.high)


Slab = tuple[Array, float, float]  # segments, where it begins, where it ends
_STEPS = 128  # of the grid of distances, along the structure's largest extent
_LEAST_DISTANCES = 1 << 17  # of a grid point to a segment, worth a call of their own


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
    """Outlines of many thin slabs between the contours; beyond the ends the last contour holds, as in slabs."""
    drawn = slab_outlines(structure, caps)
    outlines = np.split(drawn.segments, np.cumsum(drawn.counts)[:-1])
    positions = np.array([plane.position_mm for plane in structure.planes])
    joined = ~is_break(np.diff(positions), usual_distance_mm(structure))
    grid = _grid_of(drawn.segments)
    distances = [_signed_distances(outline, *grid) for outline in outlines]
    parts: list[Slab] = []
    for n, outline in enumerate(outlines):
        if n == 0 or not joined[n - 1]:
            parts.append((outline, drawn.low[n], positions[n]))
        if n == len(joined) or not joined[n]:
            parts.append((outline, positions[n], drawn.high[n]))
        else:
            parts += _between(distances[n : n + 2], positions[n : n + 2], grid)
    kept = [part for part in parts if len(part[0]) and part[2] > part[1]]
    if not kept:  # a single plane without caps
        return drawn
    segments, low, high = zip(*kept, strict=True)
    counts = np.array([len(part) for part in segments])
    return Outlines(np.concatenate(segments), counts, np.array(low), np.array(high))


def _grid_of(segments: Array) -> tuple[Array, Array]:
    """Coordinates x and y of a square grid around all outlines."""
    points = segments.reshape(-1, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    step = max(float((high - low).max()) / _STEPS, 1e-6)
    first, counts = low - 1.01 * step, np.ceil((high - low) / step).astype(int) + 3
    return first[0] + step * np.arange(counts[0]), first[1] + step * np.arange(counts[1])


def _between(distances: list[Array], ends: Array, grid: tuple[Array, Array]) -> list[Slab]:
    """Thin slabs between two planes, each with the outline of its middle."""
    below, above = distances
    count = max(int(np.ceil((ends[1] - ends[0]) / (grid[0][1] - grid[0][0]))), 2)
    borders = np.linspace(ends[0], ends[1], count + 1)
    shares = (np.arange(count) + 0.5) / count
    found = (zero_level((1 - share) * below + share * above, *grid) for share in shares)
    return list(zip(found, borders[:-1], borders[1:], strict=True))


def _signed_distances(segments: Array, x: Array, y: Array) -> Array:
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.dose.structures.geometry import fill_distances

    out = np.empty((len(x), len(y)))
    run_blocks(fill_distances, len(x), segments, x, y, out, least=max(1, _LEAST_DISTANCES // (len(segments) * len(y))))
    return out
