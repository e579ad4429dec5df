"""Outlines as edges that rows along x can be crossed with."""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.outlines import Outlines

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")


class Edges(NamedTuple):
    """The edges of a structure, slab after slab, without those along x.

    Parameters
    ----------
    table
        Lower y, upper y, x at the lower end, x per y; mm, shape (E, 4).
    ends
        Where the edges of each slab end, shape (slabs,), int64; they begin where those of the slab before end.
    extents
        Least x and y, largest x and y of each slab, mm, shape (slabs, 4).
    low, high
        Where the slabs begin and end along the normal, mm, shape (slabs,).
    """

    table: Array
    ends: Array
    extents: Array
    low: Array
    high: Array


def edges_of(outlines: Outlines) -> Edges:
    """The edges of outlines, at least one segment in each slab."""
    table = np.empty((len(outlines.segments), 4))
    ends, extents = np.empty(len(outlines.counts), np.int64), np.empty((len(outlines.counts), 4))
    _fill(outlines.segments, outlines.counts, table, ends, extents)
    return Edges(table[: ends[-1]], ends, extents, outlines.low, outlines.high)


@_jit
def _fill(segments: Array, counts: Array, table: Array, ends: Array, extents: Array) -> None:
    first, kept = 0, 0
    for slab in range(len(counts)):
        x_low, y_low, x_high, y_high = np.inf, np.inf, -np.inf, -np.inf
        for n in range(first, first + counts[slab]):
            ax, ay, bx, by = segments[n]
            x_low, x_high = min(x_low, ax, bx), max(x_high, ax, bx)
            y_low, y_high = min(y_low, ay, by), max(y_high, ay, by)
            if ay > by:
                ax, ay, bx, by = bx, by, ax, ay
            if ay < by:
                table[kept, 0], table[kept, 1] = ay, by
                table[kept, 2], table[kept, 3] = ax, (bx - ax) / (by - ay)
                kept += 1
        extents[slab, 0], extents[slab, 1], extents[slab, 2], extents[slab, 3] = x_low, y_low, x_high, y_high
        first += counts[slab]
        ends[slab] = kept
