"""Outlines as edges that rows along x can be crossed with."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.outlines import Outlines

Array = npt.NDArray[Any]


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
    from napari_gpubio.dose.kernels.geometry import fill_edges

    table = np.empty((len(outlines.segments), 4))
    ends, extents = np.empty(len(outlines.counts), np.int64), np.empty((len(outlines.counts), 4))
    fill_edges(0, len(outlines.counts), outlines.segments, outlines.counts, table, ends, extents)
    return Edges(table[: ends[-1]], ends, extents, outlines.low, outlines.high)
