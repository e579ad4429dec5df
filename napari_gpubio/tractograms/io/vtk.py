"""VTK legacy files of fibers (PolyData with lines, text or binary), read and written."""

import re
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.tractograms.io.parsed import Parsed, numeric_columns
from napari_gpubio.tractograms.io.polydata import FLIP, Space, cells_of, checked_space, fibers_of_lines, numbers_of
from napari_gpubio.tractograms.io.validation import DAMAGED, checked_magic, load_bytes, walk_records
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
TYPES = {
    "char": "i1", "signed_char": "i1", "unsigned_char": "u1", "short": "i2", "unsigned_short": "u2", "int": "i4",
    "unsigned_int": "u4", "vtktypeint64": "i8", "vtktypeuint64": "u8", "long": "i8", "unsigned_long": "u8",
    "vtkidtype": "i4",  # VTK narrows its index type when it writes
    "float": "f4", "double": "f8",
}  # fmt: skip
DAMAGE = (*DAMAGED, IndexError, OverflowError)  # a line with too few words, a number beyond its type
_LOST: tuple[type[Exception], ...] = (InvalidInput, *DAMAGE)
MAGIC = b"# vtk DataFile"
_CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS")
_WIDTHS = {"VECTORS": 3, "NORMALS": 3, "TENSORS": 9, "TENSORS6": 6, "GLOBAL_IDS": 1, "PEDIGREE_IDS": 1}
_BLANK = re.compile(rb"\s")
_TEXT_BLOCK = 2**20  # bytes split into words at once
_LONGEST_WORD = 64


class VtkText:
    """A position in the bytes of a legacy VTK file."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._at = 0
        self.binary = False

    def line(self) -> list[str]:
        """Return the words of the next line that is not blank; none at the end of the file."""
        while self._at < len(self._data):
            if words := self.raw_line().split():
                return words
        return []

    def raw_line(self) -> str:
        """Return the rest of the line as it is."""
        end = self._data.find(b"\n", self._at)
        end = len(self._data) if end < 0 else end
        line = self._data[self._at : end]
        self._at = end + 1
        return line.decode("utf-8", "replace").rstrip("\r")

    def begins_with(self, word: bytes) -> bool:
        """Whether the next bytes are these; they are not consumed."""
        return self._data.startswith(word, self._at)

    def skip_metadata(self) -> None:
        """Move past the blank line that closes a METADATA block."""
        while self._at < len(self._data) and self.raw_line().strip():
            pass

    def count(self, word: str) -> int:
        """Read how many values follow; InvalidInput if it is no integer, or the file has fewer bytes than that."""
        if not word.isdecimal() or int(word) > len(self._data):
            raise InvalidInput(f"the file promises {word} values and has {len(self._data)} bytes; export it again")
        return int(word)

    def numbers(self, count: int, type_name: str, *, cut_off: bool = False) -> Array:
        """Read numbers in native byte order, shape (count,).

        Where the file ends first it is InvalidInput, or, if that may be, there are fewer.
        """
        if (code := TYPES.get(type_name.lower())) is None:
            raise InvalidInput(f"numbers of type {type_name!r} are not read; export the file with float or int")
        dtype = np.dtype(code)
        left = len(self._data) - self._at
        most = left // dtype.itemsize if self.binary else (left + 1) // 2
        if count > most and not cut_off:
            raise InvalidInput(f"{count} numbers are promised and {left} bytes are left; the file is cut off")
        if self.binary:
            stored = np.frombuffer(self._data, dtype.newbyteorder(">"), min(count, most), self._at)
            self._at += stored.nbytes
            return stored.astype(dtype)
        values, done = np.empty(min(count, most), dtype), 0
        while done < count:
            words, taken = self._words(len(values) - done)
            if not words:
                if cut_off:
                    return values[: max(done - 1, 0)]  # the last one may have lost digits
                raise InvalidInput(f"{count} numbers are promised and {done} are there; the file is cut off")
            values[done : done + len(words)] = numbers_of(words, dtype)
            done += len(words)
            self._at += taken
        return values

    def _words(self, most: int) -> tuple[list[bytes], int]:
        """Return up to ``most`` words from here on, and the number of bytes they take."""
        stop = min(self._at + _TEXT_BLOCK, len(self._data))
        gap = _BLANK.search(self._data, stop)
        stop = gap.start() if gap else len(self._data)
        block = bytes(self._data[self._at : stop])
        words = block.split(None, most)
        rest = len(words.pop()) if len(words) > most else 0
        if any(len(word) > _LONGEST_WORD for word in words):
            raise InvalidInput(f"there is a word of more than {_LONGEST_WORD} letters among the numbers")
        return words, len(block) - rest

    def strings(self, count: int) -> list[str]:
        """Read texts: one a line, or in binary files each behind its length."""
        return [self._binary_string() if self.binary else unquote(self.raw_line()) for _ in range(count)]

    def _binary_string(self) -> str:
        """The two highest bits of the first byte give the size of the length in bytes: 8, 4, 2 or 1."""
        size = 8 >> (self._data[self._at] >> 6)
        coded = int.from_bytes(self._data[self._at : self._at + size], "big")
        length = coded & ~(3 << (8 * size - 2))
        text = self._data[self._at + size : self._at + size + length]
        self._at += size + len(text)
        return text.decode("utf-8", "replace")


def read_vtk(path: Path, space: Space | None = None) -> Parsed:
    """Read the lines of a legacy VTK polydata file, text or binary, of any version up to 5.1.

    Parameters
    ----------
    path
        The file.
    space
        Axes of its coordinates; None for those in the title line, or RAS.

    Raises
    ------
    InvalidInput
        If it is damaged before the end of its first line, no polydata, or without lines.
    """
    checked_space(space)
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
        self._stated_space: str | None = None
        self._head()
        while words := text.line():
            try:
                self._section(words[0].upper(), words[1:])
            except _LOST as error:
                if "LINES" not in self._cells:
                    raise
                note(f"its {' '.join(words[:2])[:40]} and all that follows were left out: {error}")
                return

    def found(self, space: Space | None) -> Parsed:
        """Put the lines together.

        VTK counts vertices before lines in its CELL_DATA.
        """
        if "LINES" not in self._cells:
            raise InvalidInput(f"it has no LINES, only {', '.join(self._cells) or 'points'}; is it a tractogram?")
        first = len(self._cells["VERTICES"][0]) if "VERTICES" in self._cells else 0
        last = first + len(self._cells["LINES"][0])
        return fibers_of_lines(
            self._points,
            self._cells["LINES"],
            self._tables["POINT_DATA"],
            [(name, values[first:last]) for name, values in self._tables["CELL_DATA"]],
            space=space,
            stated=self._stated_space,
        )

    def _head(self) -> None:
        self._text.raw_line()
        title, coding, kind = self._text.raw_line(), self._text.line(), self._text.line()
        if named := re.search(r"SPACE=(RAS|LPS)", title):
            self._stated_space = named[1]
        if coding not in (["ASCII"], ["BINARY"]):
            raise InvalidInput(f"the third line is {' '.join(coding)!r}; it must be ASCII or BINARY")
        self._text.binary = coding == ["BINARY"]
        if [word.upper() for word in kind] != ["DATASET", "POLYDATA"]:
            raise InvalidInput(f"it holds {' '.join(kind)!r}; fibers are DATASET POLYDATA")

    def _section(self, key: str, words: list[str]) -> None:
        if key == "POINTS":
            self._points = self._block(self._text.count(words[0]), 3, words[1])
        elif key in _CELLS:
            self._cells[key] = self._read_cells(self._text.count(words[0]), self._text.count(words[1]))
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
            which = self._text.numbers(size, self._text.line()[1], cut_off=True).astype(np.int64)
            return cells_of(offsets, which)
        words = self._text.numbers(size, "int", cut_off=True)
        starts, counts = walk_records(words, records=cells, words_per_item=1, words_after=0)
        which = np.delete(words[: int(starts[-1] + 1 + counts[-1])], starts) if len(starts) else words[:0]
        return counts, which.astype(np.int64)

    def _read_attribute(self, key: str, words: list[str]) -> None:
        rows = self._rows[self._table or "POINT_DATA"]
        if key == "SCALARS":
            if self._text.begins_with(b"LOOKUP_TABLE"):
                self._text.line()
            values = self._block(rows, self._text.count(words[2]) if len(words) > 2 else 1, words[1])
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

    def _read_field(self, arrays: int) -> None:
        for _ in range(arrays):
            while (words := self._text.line()) and words[0] == "METADATA":
                self._text.skip_metadata()
            k, rows = self._text.count(words[1]), self._text.count(words[2])
            if words[3] == "string":
                texts = self._text.strings(k * rows)
                if words[0] == "SPACE" and texts[:1] in (["RAS"], ["LPS"]):
                    self._stated_space = texts[0]
            else:
                self._keep(words[0], self._block(rows, k, words[3]))

    def _block(self, rows: int, k: int, type_name: str) -> Array:
        return self._text.numbers(rows * k, type_name).reshape(rows, k)

    def _keep(self, name: str, values: Array) -> None:
        if self._table is not None and values.size:
            self._tables[self._table].append((unquote(name), values))


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
        Axes of the coordinates in the file, also named in its title.
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
                digits = "%d" if rows.dtype.kind in "iu" else f"%.{np.finfo(rows.dtype).precision + 3}g"
                np.savetxt(self._file, rows, digits)
        self.text("\n")

    def table(self, key: str, rows: int, columns: dict[str, Array]) -> None:
        """Write the arrays of POINT_DATA or CELL_DATA."""
        if columns:
            self.text(f"{key} {rows}\nFIELD FieldData {len(columns)}\n")
        for name, values in columns.items():
            type_name = _NAMES[values.dtype.str[1:]]
            self.text(f"{quote(name, safe='') or '_'} {values.shape[1]} {rows} {type_name}\n")
            self.numbers(values.astype(TYPES[type_name], copy=False))
