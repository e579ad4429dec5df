"""Contours cut into sheets, sheets into rows: where the chords of a structure are looked for.

A sheet is a part of a slab, at most as thick as the spacing of samples; rows run through it along x, one in each of
its steps along y. The rows of one sheet lie between those of the next (by the golden section), so that the error of
their lengths is another one in each.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.outlines import Outlines

Array = npt.NDArray[Any]
_GOLDEN = (5**0.5 - 1) / 2
WEIGHT_UNIT = 1 << 16  # weight of the largest sample of a structure
MOST_UNITS = 1 << 26  # of weight in one structure, so that its sum of dose in fine steps stays below 2^63
SHEET = np.dtype(
    [
        ("y_low", "f8"),
        ("y_high", "f8"),
        ("y_step", "f8"),
        ("y_offset", "f8"),  # of a row in its step, 0 to 1
        ("z_low", "f8"),
        ("z_step", "f8"),
        ("spacing", "f8"),  # longest piece of a chord that is one sample
        ("weight", "f8"),  # of a mm of chord
        ("organ", "i4"),
        ("edge_first", "i4"),
        ("edge_end", "i4"),
        ("row_first", "i4"),
        ("own_first", "i4"),  # number of the first row among those of the structure
    ],
    align=True,
)


class Sheets(NamedTuple):
    """Sheets of one structure or of several, one after another.

    Parameters
    ----------
    table
        Of type `SHEET`.
    rows
        Rows of each sheet.
    widths
        Extent of each sheet along x, mm.
    edges
        Edges of the loops, shape (E, 4): lower y, upper y, x at the lower end, x per y. Those along x are left out.
    """

    table: Array
    rows: Array
    widths: Array
    edges: Array

    @property
    def row_count(self) -> int:
        """Rows in all."""
        return int(self.rows.sum())


def make_sheets(outlines: Outlines, spacing_mm: float, depth_mm: float) -> Sheets:
    """Cut a structure into sheets.

    Parameters
    ----------
    outlines
        At least one.
    spacing_mm
        Largest distance of rows, and of samples on them.
    depth_mm
        Largest thickness of a sheet.
    """
    edges, counts = _edges_of(outlines)
    ends = np.cumsum(counts)
    extents = _extents_of(outlines)
    depths = outlines.high - outlines.low
    parts = np.maximum(np.ceil(depths / depth_mm - 1e-9), 1).astype(int)
    plane = np.repeat(np.arange(len(parts)), parts)  # of each sheet
    part = np.arange(len(plane)) - np.repeat(np.cumsum(parts) - parts, parts)
    heights = extents[plane, 3] - extents[plane, 1]
    rows = np.ceil(heights / spacing_mm - 1e-9).astype(int)
    rows[(heights > 0) & (rows == 0)] = 1
    table = np.zeros(len(plane), SHEET)
    table["y_step"] = heights / np.maximum(rows, 1)
    table["y_low"], table["y_high"] = extents[plane, 1], extents[plane, 3]
    table["y_offset"] = np.modf(0.5 + _GOLDEN * np.arange(len(plane)))[0]
    table["z_step"] = depths[plane] / parts[plane]
    table["z_low"] = outlines.low[plane] + part * table["z_step"]
    table["spacing"] = spacing_mm
    table["edge_first"], table["edge_end"] = (ends - counts)[plane], ends[plane]
    table["row_first"] = table["own_first"] = np.cumsum(rows) - rows
    return Sheets(table, rows, extents[plane, 2] - extents[plane, 0], edges)


def weigh(sheets: Sheets) -> float:
    """Give a structure's sheets their weight per mm of chord; returns the volume of one unit of weight, mm³."""
    table = sheets.table
    largest = float((table["spacing"] * table["y_step"] * table["z_step"]).max())
    if largest == 0:
        return 1.0
    table["weight"] = table["y_step"] * table["z_step"] * (WEIGHT_UNIT / largest)
    return largest / WEIGHT_UNIT


def joined(parts: list[Sheets]) -> Sheets:
    """Sheets of several structures as one, with organs numbered by their place."""
    tables, rows, edges = [], 0, 0
    for organ, sheets in enumerate(parts):
        table = sheets.table.copy()
        table["organ"] = organ
        table["row_first"] += rows
        table["edge_first"] += edges
        table["edge_end"] += edges
        tables.append(table)
        rows, edges = rows + sheets.row_count, edges + len(sheets.edges)
    if max(rows, edges) >= 2**31:
        raise InvalidInput(f"the structures need {rows} rows of samples, too many; choose a larger accuracy_percent")
    if not parts:
        return Sheets(np.zeros(0, SHEET), np.zeros(0, int), np.zeros(0), np.zeros((0, 4)))
    rest = zip(*((sheets.rows, sheets.widths, sheets.edges) for sheets in parts), strict=True)
    return Sheets(np.concatenate(tables), *map(np.concatenate, rest))


def units_of(sheets: Sheets) -> Array:
    """Weight that each row can have at most, in units of `WEIGHT_UNIT`."""
    return np.asarray(np.repeat(sheets.widths / sheets.table["spacing"] + 1.0, sheets.rows))


def _edges_of(outlines: Outlines) -> tuple[Array, Array]:
    """Edges that are not along x, and how many of them each slab has."""
    segments = outlines.segments
    kept = segments[:, 1] != segments[:, 3]
    counts = np.add.reduceat(kept.astype(np.int64), np.cumsum(outlines.counts) - outlines.counts)
    ends = segments[kept]
    up = (ends[:, 1] < ends[:, 3])[:, None]
    low, high = np.where(up, ends[:, :2], ends[:, 2:]), np.where(up, ends[:, 2:], ends[:, :2])
    slope = (high[:, 0] - low[:, 0]) / (high[:, 1] - low[:, 1])
    return np.stack([low[:, 1], high[:, 1], low[:, 0], slope], axis=1), counts


def _extents_of(outlines: Outlines) -> Array:
    """Least x and y, largest x and y of each slab, shape (slabs, 4)."""
    firsts = np.cumsum(outlines.counts) - outlines.counts
    ends = outlines.segments.reshape(-1, 2, 2)
    low = np.minimum.reduceat(ends.min(axis=1), firsts)
    return np.concatenate([low, np.maximum.reduceat(ends.max(axis=1), firsts)], axis=1)
