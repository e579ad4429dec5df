"""Writes legacy VTK polydata (version 4.2): lines, with the numbers of points and fibers as FIELD arrays.

FIELD arrays and not SCALARS, because VTK's own reader shows only the first SCALARS of a file.
"""

from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.io.parsed import numeric_columns
from napari_gpubio.tracts.io.vtk import FLIP, Space
from napari_gpubio.tracts.io.vtk_text import TYPES
from napari_gpubio.tracts.model import Tractogram

Array = npt.NDArray[Any]
_NAMES = {code: name for name, code in reversed(TYPES.items())} | {"f2": "float", "b1": "unsigned_char"}
_ROWS = 1_000_000  # rows written at once


def write_vtk(path: Path, tractogram: Tractogram, *, space: Space = "RAS", binary: bool = True) -> None:
    """Write a legacy VTK polydata file, at once.

    Parameters
    ----------
    path
        The file.
    tractogram
        Fibers that all have points.
    space
        Axes of the coordinates in the file, also told in its title.
    binary
        Whether numbers are big-endian binary, or text.

    Raises
    ------
    InvalidInput
        If there are more points than VTK's 32-bit indices can name, or the space is unknown.
    """
    if space not in FLIP:
        raise InvalidInput(f"vtk_space is {space!r}; choose 'RAS' or 'LPS'")
    points, fibers = len(tractogram.points), len(tractogram)
    if points + fibers > np.iinfo(np.int32).max:
        raise InvalidInput(f"vtk cannot index {points} points; write trx instead")
    with path.open("wb") as file:
        out = _Writer(file, binary=binary)
        out.text(f"# vtk DataFile Version 4.2\nnapari-gpubio fibers, SPACE={space}\n")
        out.text(f"{'BINARY' if binary else 'ASCII'}\nDATASET POLYDATA\nPOINTS {points} float\n")
        out.numbers(tractogram.points, FLIP[space])
        out.text(f"LINES {fibers} {points + fibers}\n")
        out.numbers(_cells(tractogram))
        out.table("POINT_DATA", points, dict(numeric_columns(tractogram.per_point, "point")))
        out.table("CELL_DATA", fibers, dict(numeric_columns(tractogram.per_fiber, "fiber")))


def _cells(tractogram: Tractogram) -> npt.NDArray[np.int32]:
    """For each fiber the number of its points and which they are, one behind the other."""
    cells = np.empty(len(tractogram.points) + len(tractogram), np.int32)
    heads = tractogram.offsets[:-1] + np.arange(len(tractogram))
    keep = np.ones(len(cells), bool)
    keep[heads] = False
    cells[heads], cells[keep] = tractogram.counts, np.arange(len(tractogram.points))
    return cells


class _Writer:
    """A file that takes text and blocks of numbers."""

    def __init__(self, file: IO[bytes], *, binary: bool) -> None:
        self._file = file
        self._binary = binary

    def text(self, text: str) -> None:
        """Write text as it is."""
        self._file.write(text.encode("ascii"))

    def numbers(self, values: Array, factor: Array | None = None) -> None:
        """Write a block of numbers, each row times a factor."""
        for n in range(0, len(values), _ROWS):
            rows = values[n : n + _ROWS] if factor is None else values[n : n + _ROWS] * factor
            if self._binary:
                self._file.write(np.ascontiguousarray(rows, rows.dtype.newbyteorder(">")).data)
            else:
                np.savetxt(self._file, rows, _text_format(rows.dtype))
        self.text("\n")

    def table(self, key: str, rows: int, columns: dict[str, Array]) -> None:
        """Write the arrays of POINT_DATA or CELL_DATA."""
        if columns:
            self.text(f"{key} {rows}\nFIELD FieldData {len(columns)}\n")
        for name, values in columns.items():
            type_name = _NAMES[values.dtype.str[1:]]
            self.text(f"{quote(name, safe='') or '_'} {values.shape[1]} {rows} {type_name}\n")
            self.numbers(values.astype(TYPES[type_name], copy=False))


def _text_format(dtype: np.dtype[Any]) -> str:
    return "%d" if dtype.kind in "iu" else f"%.{np.finfo(dtype).precision + 3}g"
