"""Legacy VTK polydata (``.vtk``) with the fibers as LINES, as SlicerDMRI, MRtrix, DIPY and DSI Studio exchange them.

The format does not know its axes. Fibers are in RAS by custom; Slicer writes ``SPACE=RAS`` or ``SPACE=LPS`` into the
title line, and `vtk_writer` does so too. There is no place for a grid.
"""

import logging
import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.io.parsed import Parsed, flat
from napari_gpubio.tracts.io.validation import (
    check_finite,
    checked_magic,
    load_bytes,
    offsets_of,
    unique_names,
    walk_records,
)
from napari_gpubio.tracts.io.vtk_text import VtkText

Array = npt.NDArray[Any]
Space = Literal["RAS", "LPS"]
logger = logging.getLogger(__name__)
MAGIC = b"# vtk DataFile"
FLIP = {"RAS": np.array([1, 1, 1], np.float32), "LPS": np.array([-1, -1, 1], np.float32)}
_CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS")
_WIDTHS = {"VECTORS": 3, "NORMALS": 3, "TENSORS": 9, "TENSORS6": 6, "GLOBAL_IDS": 1, "PEDIGREE_IDS": 1}


def read_vtk(path: Path, space: Space | None = None) -> Parsed:
    """Read the lines of a legacy VTK polydata file, text or binary, of any version up to 5.1.

    Parameters
    ----------
    path
        The file.
    space
        Axes of its coordinates; None for what the title line tells, or RAS.

    Raises
    ------
    InvalidInput
        If it is damaged, cut off, no polydata, or without lines.
    """
    if space not in (None, *FLIP):
        raise InvalidInput(f"vtk_space is {space!r}; choose 'RAS' or 'LPS'")
    data = load_bytes(path)
    checked_magic(data, MAGIC, "vtk")
    return _PolyData(VtkText(data)).found(space)


class _PolyData:
    """The sections of one file; made by reading all of it."""

    def __init__(self, text: VtkText) -> None:
        self._text = text
        self._points: Array = np.empty((0, 3), np.float32)
        self._cells: dict[str, tuple[Array, Array]] = {}
        self._tables: dict[str, list[tuple[str, Array]]] = {"POINT_DATA": [], "CELL_DATA": []}
        self._rows = {"POINT_DATA": 0, "CELL_DATA": 0}
        self._table: str | None = None
        self._told_space: str | None = None
        self._head()
        while words := text.line():
            self._section(words[0].upper(), words[1:])

    def found(self, space: Space | None) -> Parsed:
        """Put the lines together."""
        if "LINES" not in self._cells:
            raise InvalidInput(f"it has no LINES, only {', '.join(self._cells) or 'points'}; is it a tractogram?")
        counts, which = self._cells["LINES"]
        if which.size and not 0 <= which.min() <= which.max() < len(self._points):
            raise InvalidInput(f"its lines name points beyond the {len(self._points)} that are there; export it again")
        in_order = len(which) == len(self._points) and bool((which == np.arange(len(which))).all())
        points = self._points.astype(np.float32, copy=False) * FLIP[self._space(space)]
        points = points if in_order else points[which]
        check_finite(points)
        per_point = self._columns("POINT_DATA")
        return Parsed(
            points=points,
            offsets=offsets_of(counts),
            per_point=per_point if in_order else {name: values[which] for name, values in per_point.items()},
            per_fiber=self._columns("CELL_DATA"),
        )

    def _head(self) -> None:
        self._text.raw_line()
        title, coding, kind = self._text.raw_line(), self._text.line(), self._text.line()
        if told := re.search(r"SPACE=(RAS|LPS)", title):
            self._told_space = told[1]
        if coding not in (["ASCII"], ["BINARY"]):
            raise InvalidInput(f"the third line is {' '.join(coding)!r}; it must be ASCII or BINARY")
        self._text.binary = coding == ["BINARY"]
        if [word.upper() for word in kind] != ["DATASET", "POLYDATA"]:
            raise InvalidInput(f"it holds {' '.join(kind)!r}; fibers are DATASET POLYDATA")

    def _section(self, key: str, words: list[str]) -> None:
        if key == "POINTS":
            self._points = self._text.numbers(self._text.count(words[0]) * 3, words[1]).reshape(-1, 3)
        elif key in _CELLS:
            self._cells[key] = self._read_cells(*map(self._text.count, words[:2]))
        elif key in self._tables:
            self._table, self._rows[key] = key, self._text.count(words[0])
        elif key == "METADATA":
            self._text.skip_metadata()
        elif key == "FIELD":
            self._read_field(self._text.count(words[1]))
        elif self._table is not None:
            self._read_attribute(key, words)
        else:
            raise InvalidInput(f"the section {key!r} is unknown or the file is damaged before it; export it again")

    def _read_cells(self, cells: int, size: int) -> tuple[Array, Array]:
        """Points of each cell (n,), and which points they are."""
        if self._text.begins_with(b"OFFSETS"):
            offsets = self._text.numbers(cells, self._text.line()[1]).astype(np.int64)
            which = self._text.numbers(size, self._text.line()[1]).astype(np.int64)
            if len(offsets) and (offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any()):
                raise InvalidInput("the offsets of its cells do not fit their points; export it again")
            return np.diff(offsets), which
        words = self._text.numbers(size, "int")
        starts, counts = walk_records(words, records=cells, words_per_item=1, words_after=0)
        keep = np.ones(len(words), bool)
        keep[starts] = False
        keep[int(starts[-1] + 1 + counts[-1]) if cells else 0 :] = False
        return counts, words[keep]

    def _read_attribute(self, key: str, words: list[str]) -> None:
        rows = self._rows[self._table or "POINT_DATA"]
        if key == "SCALARS":
            values = self._scalars(rows, words[1], self._text.count(words[2]) if len(words) > 2 else 1)
        elif key == "COLOR_SCALARS":
            values = self._block(rows, self._text.count(words[1]), "unsigned_char" if self._text.binary else "float")
        elif key == "LOOKUP_TABLE":
            self._block(self._text.count(words[1]), 4, "unsigned_char" if self._text.binary else "float")
            return
        elif key == "TEXTURE_COORDINATES":
            values = self._block(rows, self._text.count(words[1]), words[2])
        elif key in _WIDTHS:
            values = self._block(rows, _WIDTHS[key], words[1])
        else:
            raise InvalidInput(f"the section {key!r} is unknown or the file is damaged before it; export it again")
        self._keep(words[0], values)

    def _scalars(self, rows: int, type_name: str, k: int) -> Array:
        if self._text.begins_with(b"LOOKUP_TABLE"):
            self._text.line()
        return self._block(rows, k, type_name)

    def _read_field(self, arrays: int) -> None:
        for _ in range(arrays):
            while (words := self._text.line()) and words[0] == "METADATA":
                self._text.skip_metadata()
            k, rows = self._text.count(words[1]), self._text.count(words[2])
            if words[3] == "string":
                texts = self._text.strings(k * rows)
                if words[0] == "SPACE" and texts[:1] in (["RAS"], ["LPS"]):
                    self._told_space = texts[0]
            else:
                self._keep(words[0], self._block(rows, k, words[3]))

    def _block(self, rows: int, k: int, type_name: str) -> Array:
        return self._text.numbers(rows * k, type_name).reshape(rows, k)

    def _keep(self, name: str, values: Array) -> None:
        if self._table is not None and values.size:
            self._tables[self._table].append((unquote(name), values))

    def _columns(self, table: str) -> dict[str, Array]:
        """Columns of the points, or of the lines among the cells: VTK counts vertices before lines."""
        lines = len(self._cells["LINES"][0])
        first = len(self._cells["VERTICES"][0]) if "VERTICES" in self._cells else 0
        rows = slice(None) if table == "POINT_DATA" else slice(first, first + lines)
        wanted = len(self._points) if table == "POINT_DATA" else lines
        columns = [(name, flat(values[rows])) for name, values in self._tables[table]]
        fitting = [(name, values) for name, values in columns if len(values) == wanted]
        if len(fitting) < len(columns):
            logger.warning("%d arrays of %s do not fit and were left out", len(columns) - len(fitting), table)
        return dict(zip(unique_names([name for name, _ in fitting]), (values for _, values in fitting), strict=True))

    def _space(self, wanted: Space | None) -> str:
        if wanted is not None and self._told_space not in (None, wanted):
            logger.warning("the file says that it is in %s; it was read as %s", self._told_space, wanted)
        return wanted or self._told_space or "RAS"
