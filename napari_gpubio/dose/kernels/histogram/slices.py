"""Contours cut into slices, slices into rows, and the segments of rows that are inside a structure.

A plane slice is a part of a slab, at most as thick as the spacing of samples; rows run through it along x, one in each
of its steps along y. The rows of one slice lie between those of the next (by the golden section), so that the error of
their lengths is another one in each.

Samples with one in every cell of edge h miss the volume above a dose by what the isodose cuts off the cells it passes:
about S / h^2 cells (S: area of the isodose inside the structure), each wrong by a random part of h^3. So the error is
c h^2 sqrt(S), and with S near V^(2/3) its share of the volume V is c (h / L)^2, L = V^(1/3). The tests compare
``_FACTOR`` with closed forms.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.dose.kernels.histogram.counting import count_crossings, find_crossings, volume_of_segments
from napari_gpubio.dose.structures.outlines import Edges

Array = npt.NDArray[Any]
_FACTOR = 2.0  # c in the module's docstring, of the largest error of a curve
_ROUGH_ROWS = 32  # for a rough volume, along a structure's largest extent
_FEW_ROWS = 1 << 16  # one core has crossed them before the others are awake
_GOLDEN = (5**0.5 - 1) / 2
WEIGHT_UNIT = 1 << 16  # weight of the largest sample of a structure
MAX_UNITS = 1 << 26  # of weight in one structure, so that its sum of dose in fine steps stays below 2^63
PLANE_SLICE = np.dtype(
    [
        ("y_low", "f8"),
        ("y_high", "f8"),
        ("y_step", "f8"),
        ("y_offset", "f8"),  # of a row in its step, 0 to 1
        ("z_low", "f8"),
        ("z_step", "f8"),
        ("spacing", "f8"),  # longest piece of a segment that is one sample
        ("weight", "f8"),  # of a mm of segment
        ("organ", "i4"),
        ("edge_first", "i4"),
        ("edge_end", "i4"),
        ("row_first", "i4"),
        ("own_first", "i4"),  # number of the first row among those of the structure
    ],
    align=True,
)


class PlaneSlices(NamedTuple):
    """The slices of one structure or of several, one after another."""

    table: Array  # of type `PLANE_SLICE`
    rows: Array  # rows of each slice
    widths: Array  # extent of each slice along x, mm
    edges: Array  # the table of their `napari_gpubio.dose.structures.outlines.Edges`

    @property
    def row_count(self) -> int:
        """Rows in all."""
        return int(self.rows.sum())


def make_slices(edges: Edges, spacing_mm: float, depth_mm: float) -> PlaneSlices:
    """Cut a structure into slices, at most ``depth_mm`` thick; rows, and samples on them, are ``spacing_mm`` apart."""
    depths = edges.high - edges.low
    parts = np.maximum(np.ceil(depths / depth_mm - 1e-9), 1).astype(int)
    slab = np.repeat(np.arange(len(parts)), parts)  # of each slice
    part = np.arange(len(slab)) - np.repeat(np.cumsum(parts) - parts, parts)
    low_x, low_y, high_x, high_y = edges.extents[slab].T
    heights = high_y - low_y
    rows = np.ceil(heights / spacing_mm - 1e-9).astype(int)
    rows[(heights > 0) & (rows == 0)] = 1
    table = np.zeros(len(slab), PLANE_SLICE)
    table["y_step"] = heights / np.maximum(rows, 1)
    table["y_low"], table["y_high"] = low_y, high_y
    table["y_offset"] = np.modf(0.5 + _GOLDEN * np.arange(len(slab)))[0]
    table["z_step"] = depths[slab] / parts[slab]
    table["z_low"] = edges.low[slab] + part * table["z_step"]
    table["spacing"] = spacing_mm
    table["edge_first"], table["edge_end"] = np.concatenate([[0], edges.ends])[slab], edges.ends[slab]
    table["row_first"] = table["own_first"] = np.cumsum(rows) - rows
    return PlaneSlices(table, rows, high_x - low_x, edges.table)


def weigh(slices: PlaneSlices) -> float:
    """Give a structure's slices their weight per mm of segment; returns the volume of one unit of weight, mm³."""
    table = slices.table
    largest = float((table["spacing"] * table["y_step"] * table["z_step"]).max())
    if largest == 0:
        return 1.0
    table["weight"] = table["y_step"] * table["z_step"] * (WEIGHT_UNIT / largest)
    return largest / WEIGHT_UNIT


def joined(parts: Sequence[PlaneSlices], organs: Sequence[int]) -> PlaneSlices:
    """The slices of structures, at least one, as those of all; with the number of each structure's organ."""
    tables, rows, edges = [], 0, 0
    for organ, slices in zip(organs, parts, strict=True):
        table = slices.table.copy()
        table["organ"] = organ
        table["row_first"] += rows
        table["edge_first"] += edges
        table["edge_end"] += edges
        tables.append(table)
        rows, edges = rows + slices.row_count, edges + len(slices.edges)
    if max(rows, edges) >= 2**31:
        raise InvalidInput(f"the structures need {rows} rows of samples, too many; choose a larger accuracy_percent")
    rest = zip(*((slices.rows, slices.widths, slices.edges) for slices in parts), strict=True)
    return PlaneSlices(np.concatenate(tables), *map(np.concatenate, rest))


def units_of(slices: PlaneSlices) -> Array:
    """Weight that each row can have at most, in units of `WEIGHT_UNIT`."""
    return np.asarray(np.repeat(slices.widths / slices.table["spacing"] + 1.0, slices.rows))


class RowSegments(NamedTuple):
    """Crossings of each row with contours in ascending x, mm: inside from the first to the second, and so on."""

    starts: Array  # row r has the crossings ``starts[r]`` to ``starts[r + 1] - 1``; shape (rows + 1,), int64
    x: Array  # all of them, float64


def find_segments(slices: PlaneSlices) -> RowSegments:
    """Cross all rows with the contours; many rows on all CPU cores.

    An edge counts if the row lies at its lower end or above and below its upper end, so that a vertex on a row counts
    once. Even-odd: the segments lie between crossings 1 and 2, 3 and 4, ...
    """
    rows = slices.row_count
    starts = np.zeros(rows + 1, np.int64)
    given, threads = (slices.table, slices.rows, slices.edges), 1 if rows < _FEW_ROWS else None
    run_blocks(count_crossings, len(slices.table), *given, starts[1:], threads=threads)
    np.cumsum(starts, out=starts)
    x = np.empty(int(starts[-1]))
    run_blocks(find_crossings, len(slices.table), *given, starts, starts[:-1].copy(), x, threads=threads)
    return RowSegments(starts, x)


def spacing_for(volume_mm3: float, accuracy_percent: float, most_mm: float) -> float:
    """Edge of a cell, mm, that suits a structure of some volume; ``most_mm`` (a dose voxel) at most."""
    edge = np.cbrt(volume_mm3) * np.sqrt(0.01 * accuracy_percent / _FACTOR)
    return min(float(edge), most_mm) or most_mm


def rough_volume_mm3(edges: Edges) -> float:
    """About the volume of a structure by few rows: what its sampling is chosen from."""
    extent = float(edges.extents[:, 3].max() - edges.extents[:, 1].min())
    rough = make_slices(edges, max(extent / _ROUGH_ROWS, 1e-6), np.inf)
    segments = find_segments(rough)
    return float(volume_of_segments(0, len(rough.rows), rough.table, rough.rows, segments.starts, segments.x))
