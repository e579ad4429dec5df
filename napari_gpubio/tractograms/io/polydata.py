"""Fibers of VTK's PolyData, however a file holds it: lines that name points, columns of points and of cells, axes."""

import re
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.tractograms.io.parsed import Parsed, columns_of
from napari_gpubio.tractograms.io.validation import in_order, note_broken, offsets_of, rows_of

Array = npt.NDArray[Any]
Space = Literal["RAS", "LPS"]
_NAN = re.compile(r"(b')?[-+]?(nan\(\w*\)|1\.#\w*)'?", re.IGNORECASE)
Columns = list[tuple[str, Array]]
FLIP = {"RAS": np.array([1, 1, 1], np.float32), "LPS": np.array([-1, -1, 1], np.float32)}


def numbers_of(words: list[Any], dtype: np.dtype[Any]) -> Array:
    """Return words as numbers; ``nan(ind)`` and ``1.#QNAN``, as Windows writes them, are NaN.

    ValueError or OverflowError if one is no number of the type.
    """
    try:
        return np.fromiter(map(float if dtype.kind == "f" else int, words), dtype, len(words))
    except ValueError:
        if dtype.kind != "f":
            raise
        return np.fromiter((np.nan if _NAN.fullmatch(str(word)) else float(word) for word in words), dtype, len(words))


def checked_space(space: str | None) -> None:
    """Make sure that the axes are known, or None; InvalidInput if not."""
    if space not in (None, *FLIP):
        raise InvalidInput(f"vtk_space is {space!r}; choose 'RAS' or 'LPS'")


def cells_of(offsets: npt.NDArray[np.int64], which: npt.NDArray[np.int64]) -> tuple[Array, Array]:
    """Return the number of points of each cell (n,) and which they are, -1 for all of a cell whose offsets are damaged.

    ``offsets``, shape (n + 1,): where in ``which`` the points of a cell begin, and where the last one's end.
    """
    keep = in_order(offsets, len(which))
    counts = np.where(keep, np.diff(offsets), 1)
    return counts, np.append(which, -1)[rows_of(np.where(keep, offsets[:-1], len(which)), counts)]


def fibers_of_lines(
    points: Array,
    lines: tuple[Array, Array],
    per_point: Columns,
    per_fiber: Columns,
    *,
    space: Space | None,
    stated: str | None,
) -> Parsed:
    """Put fibers together; those that name points that are not there are left out.

    Parameters
    ----------
    points
        Shape (P, 3).
    lines
        The number of points of each line (F,), and which they are, one behind the other.
    per_point, per_fiber
        Columns, shape (P, k) and (F, k); others are left out.
    space, stated
        Axes that are asked for, and those that the file states.
    """
    counts, which = lines
    keep = np.ones(len(counts), bool)
    if len(which) and not 0 <= which.min() <= which.max() < len(points):
        beyond = (which < 0) | (which >= len(points))
        keep[np.repeat(np.arange(len(counts)), counts)[beyond]] = False
    note_broken(keep, f"name points that are not there, or are damaged ({len(points)} points are there)")
    if space is not None and stated not in (None, space):
        note(f"the file states that it is in {stated}; it was read as {space}")
    if space is None and stated is None:
        note("the file does not state its axes; they were taken as RAS (vtk_space gives others)")
    points = points.astype(np.float32, copy=False) * FLIP[space or stated or "RAS"]
    per_point, per_fiber = _fitting(per_point, len(points), "point"), _fitting(per_fiber, len(counts), "fiber")
    if len(which) != len(points) or not (which == np.arange(len(which))).all():
        rows = which[np.repeat(keep, counts)]
        points, per_point = points[rows], [(name, values[rows]) for name, values in per_point]
        counts, per_fiber = counts[keep], [(name, values[keep]) for name, values in per_fiber]
    return Parsed(
        points=points, offsets=offsets_of(counts), per_point=columns_of(per_point), per_fiber=columns_of(per_fiber)
    )


def _fitting(columns: Columns, rows: int, what: str) -> Columns:
    """Columns that have a value for each of some rows."""
    if odd := [name for name, values in columns if len(values) != rows]:
        note(f"{len(odd)} columns do not have a value for each {what} and were left out: {', '.join(odd)}")
    return [(name, values) for name, values in columns if len(values) == rows]
