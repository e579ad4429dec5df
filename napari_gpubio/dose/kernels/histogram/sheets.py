"""Contours cut into sheets, sheets into rows: where the chords of a structure are looked for.

A sheet is a part of a slab, at most as thick as the spacing of samples; rows run through it along x, one in each of
its steps along y. The rows of one sheet lie between those of the next (by the golden section), so that the error of
their lengths is another one in each.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.edges import Edges

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
        The table of their `napari_gpubio.dose.structures.edges.Edges`.
    """

    table: Array
    rows: Array
    widths: Array
    edges: Array

    @property
    def row_count(self) -> int:
        """Rows in all."""
        return int(self.rows.sum())


def make_sheets(edges: Edges, spacing_mm: float, depth_mm: float) -> Sheets:
    """Cut a structure into sheets.

    Parameters
    ----------
    edges
        Of at least one slab.
    spacing_mm
        Largest distance of rows, and of samples on them.
    depth_mm
        Largest thickness of a sheet.
    """
    depths = edges.high - edges.low
    parts = np.maximum(np.ceil(depths / depth_mm - 1e-9), 1).astype(int)
    slab = np.repeat(np.arange(len(parts)), parts)  # of each sheet
    part = np.arange(len(slab)) - np.repeat(np.cumsum(parts) - parts, parts)
    low_x, low_y, high_x, high_y = edges.extents[slab].T
    heights = high_y - low_y
    rows = np.ceil(heights / spacing_mm - 1e-9).astype(int)
    rows[(heights > 0) & (rows == 0)] = 1
    table = np.zeros(len(slab), SHEET)
    table["y_step"] = heights / np.maximum(rows, 1)
    table["y_low"], table["y_high"] = low_y, high_y
    table["y_offset"] = np.modf(0.5 + _GOLDEN * np.arange(len(slab)))[0]
    table["z_step"] = depths[slab] / parts[slab]
    table["z_low"] = edges.low[slab] + part * table["z_step"]
    table["spacing"] = spacing_mm
    table["edge_first"], table["edge_end"] = np.concatenate([[0], edges.ends])[slab], edges.ends[slab]
    table["row_first"] = table["own_first"] = np.cumsum(rows) - rows
    return Sheets(table, rows, high_x - low_x, edges.table)


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
