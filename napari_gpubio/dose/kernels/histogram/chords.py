"""Where rows cross contours (Numba), the counterpart of the first kernels of ``dvh.cu``: same order of operations."""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.dose.kernels.histogram.sheets import Sheets

Array = npt.NDArray[Any]
_jit_sheet = nb.njit(cache=True, nogil=True, error_model="numpy")  # not inlined, see tallying.py
_jit = nb.njit(inline="always")
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
_FEW_ROWS = 1 << 16  # one core has crossed them before the others are awake


class Chords(NamedTuple):
    """Crossings of each row in ascending x, mm: from the first to the second the row is inside, and so on.

    Parameters
    ----------
    starts
        Row r has the crossings ``starts[r]`` to ``starts[r + 1] - 1``; shape (rows + 1,), int64.
    x
        All of them, float64.
    """

    starts: Array
    x: Array


def row_sheets(sheets: Sheets) -> Array:
    """The sheet of each row, int32."""
    return np.repeat(np.arange(len(sheets.table), dtype=np.int32), sheets.rows)


def find_chords(sheets: Sheets) -> Chords:
    """Cross all rows with the contours; many rows on all CPU cores.

    An edge counts if the row lies at its lower end or above and below its upper end, so that a vertex on a row counts
    once; which way the edge runs is lost already. Even-odd: the chords lie between crossings 1 and 2, 3 and 4, ...
    """
    rows = sheets.row_count
    starts = np.zeros(rows + 1, np.int64)
    count, find = (_count_alone, _find_alone) if rows < _FEW_ROWS else (count_crossings, find_crossings)
    with cpu_threads():
        count(sheets.table, sheets.rows, sheets.edges, starts[1:])
        np.cumsum(starts, out=starts)
        x = np.empty(int(starts[-1]))
        find(sheets.table, sheets.rows, sheets.edges, starts, x)
    return Chords(starts, x)


@_jit_parallel
def count_crossings(table: Array, rows: Array, edges: Array, counts: Array) -> None:
    """Number of crossings of each row."""
    for n in nb.prange(len(table)):
        count_in_sheet(table[n], rows[n], edges, counts)


@_jit_parallel
def find_crossings(table: Array, rows: Array, edges: Array, starts: Array, x: Array) -> None:
    """Crossings of each row, in ascending order."""
    for n in nb.prange(len(table)):
        find_in_sheet(table[n], rows[n], edges, starts, x)


@_jit_sheet
def count_in_sheet(sheet: Any, rows: int, edges: Array, counts: Array) -> None:
    """Number of crossings of each row of a sheet."""
    for e in range(sheet.edge_first, sheet.edge_end):
        first, end = rows_near(sheet, rows, edges[e])
        for row in range(first, end):
            y = row_y(sheet, row)
            counts[row] += int(edges[e, 0] <= y and y < edges[e, 1])


@_jit_sheet
def find_in_sheet(sheet: Any, rows: int, edges: Array, starts: Array, x: Array) -> None:
    """Crossings of each row of a sheet, in ascending order."""
    ends = starts[sheet.row_first : sheet.row_first + rows].copy()
    for e in range(sheet.edge_first, sheet.edge_end):
        first, end = rows_near(sheet, rows, edges[e])
        for row in range(first, end):
            y = row_y(sheet, row)
            if edges[e, 0] <= y and y < edges[e, 1]:
                own = row - sheet.row_first
                insert(x, starts[row], ends[own], edges[e, 2] + (y - edges[e, 0]) * edges[e, 3])
                ends[own] += 1


_count_alone, _find_alone = _jit_sheet(count_crossings.py_func), _jit_sheet(find_crossings.py_func)


@_jit
def rows_near(sheet: Any, count: int, edge: Array) -> Any:
    """The rows of a sheet that an edge may cross, and perhaps one more at each end."""
    first = (edge[0] - sheet.y_low) / sheet.y_step - sheet.y_offset
    end = (edge[1] - sheet.y_low) / sheet.y_step - sheet.y_offset
    return sheet.row_first + min(max(int(first), 0), count), sheet.row_first + min(max(int(end) + 2, 0), count)


@_jit
def insert(x: Array, start: int, end: int, found: float) -> None:
    """Put a number into an ascending list that ends before ``end``."""
    place = end
    while place > start and x[place - 1] > found:
        x[place] = x[place - 1]
        place -= 1
    x[place] = found


@_jit
def row_y(sheet: Any, row: int) -> float:
    """Position of a row, mm."""
    return sheet.y_low + (np.float64(row - sheet.row_first) + sheet.y_offset) * sheet.y_step


@_jit_sheet
def volume_of_rows(table: Array, rows: Array, edges: Array) -> float:
    """Volume of a structure by its chords, mm³; on one core, for few rows."""
    starts = np.zeros(rows.sum() + 1, np.int64)
    for n in range(len(table)):
        count_in_sheet(table[n], rows[n], edges, starts[1:])
    starts = np.cumsum(starts)
    x = np.empty(starts[-1])
    total = 0.0
    for n in range(len(table)):
        sheet = table[n]
        find_in_sheet(sheet, rows[n], edges, starts, x)
        first, end = starts[sheet.row_first], starts[sheet.row_first + rows[n]]
        total += (x[first:end][1::2].sum() - x[first:end][0::2].sum()) * sheet.y_step * sheet.z_step
    return total
