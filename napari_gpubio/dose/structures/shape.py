"""Shape interpolation: between two contours the outline goes over from one into the other.

Raya and Udupa 1990 (IEEE Trans. Med. Imaging 9:32): the signed distance to the contour is interpolated linearly from
plane to plane, and the outline lies where it is zero.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.level import zero_level
from napari_gpubio.dose.structures.outlines import Outlines, slab_outlines
from napari_gpubio.dose.structures.slabs import is_break, usual_distance_mm

Array = npt.NDArray[Any]
Slab = tuple[Array, float, float]  # segments, where it begins, where it ends
_STEPS = 128  # of the grid of distances, along the structure's largest extent
_LEAST_DISTANCES = 1 << 17  # of a grid point to a segment, worth a call of their own


def shape_outlines(structure: ContourStructure, caps: str = "half") -> Outlines:
    """Outlines of many thin slabs between the contours; beyond the ends the last contour holds, as in slabs.

    Parameters
    ----------
    structure
        With at least one plane.
    caps
        See `napari_gpubio.dose.structures.slabs.slab_bounds`.
    """
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
    from napari_gpubio.dose.kernels.geometry import fill_distances

    out = np.empty((len(x), len(y)))
    run_blocks(fill_distances, len(x), segments, x, y, out, least=max(1, _LEAST_DISTANCES // (len(segments) * len(y))))
    return out
