"""VTK XML files of fibers (``.vtp``, PolyData with lines), read: text, base64 and appended raw arrays, zlib or not.

The XML is read as far as the appended bytes, which are none. A document type, with which XML can grow without end, is
refused; compressed arrays may unpack to what `check_expansion` allows.
"""

import base64
import re
import zlib
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, fromstring

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.tractograms.io.parsed import Parsed
from napari_gpubio.tractograms.io.polydata import Columns, Space, cells_of, checked_space, fibers_of_lines, numbers_of
from napari_gpubio.tractograms.io.validation import DAMAGED, check_expansion, load_bytes

Array = npt.NDArray[Any]
DAMAGE = (*DAMAGED, ParseError, OverflowError, KeyError, AttributeError)  # an element or attribute that is not there
_LOST: tuple[type[Exception], ...] = (InvalidInput, *DAMAGE)
TYPES = {
    "Int8": "i1", "UInt8": "u1", "Int16": "i2", "UInt16": "u2", "Int32": "i4", "UInt32": "u4", "Int64": "i8",
    "UInt64": "u8", "Float32": "f4", "Float64": "f8",
}  # fmt: skip
_BEGIN = (b"<?xml", b"<VTKFile")
_APPENDED = re.compile(rb"<AppendedData([^>]*)>")
_LONGEST_WORD = 64


def read_vtp(path: Path, space: Space | None = None) -> Parsed:
    """Read the lines of a VTK XML polydata file.

    Parameters
    ----------
    path
        The file.
    space
        Axes of its coordinates; None for those that it states, or RAS.

    Raises
    ------
    InvalidInput
        If its points or lines are damaged, it is no polydata or has no lines, or grows as only a zip bomb does.
    """
    checked_space(space)
    file = _XmlFile(load_bytes(path))
    pieces = [
        _Piece(file, element) for element in file.root.iter("Piece") if element.find("Lines/DataArray") is not None
    ]
    if not pieces:
        raise InvalidInput("it has no Lines; is it a tractogram?")
    firsts = np.cumsum([0, *(len(piece.points) for piece in pieces)])
    which = [np.where(piece.which < 0, -1, piece.which + n) for piece, n in zip(pieces, firsts[:-1], strict=True)]
    return fibers_of_lines(
        np.concatenate([piece.points for piece in pieces]),
        (np.concatenate([piece.counts for piece in pieces]), np.concatenate(which)),
        _joined([piece.per_point for piece in pieces]),
        _joined([piece.per_fiber for piece in pieces]),
        space=space,
        stated=file.stated_space(),
    )


class _Piece:
    """Points, lines and columns of one piece of the data; lines name its own points, -1 where they are not there."""

    def __init__(self, file: "_XmlFile", element: Element) -> None:
        self.points = file.array(element.find("Points/DataArray"))
        if self.points.shape[1] != 3:
            raise InvalidInput(f"its points have {self.points.shape[1]} coordinates; they must have 3, export it again")
        lines = {array.get("Name"): file.array(array).ravel() for array in element.iterfind("Lines/DataArray")}
        offsets = np.concatenate([[0], lines["offsets"].astype(np.int64)])
        self.counts, which = cells_of(offsets, lines["connectivity"].astype(np.int64))
        self.which = np.where((which >= 0) & (which < len(self.points)), which, -1)
        first = int(element.get("NumberOfVerts") or 0)  # VTK counts them before lines in its CellData
        self.per_point = _columns(file, element.find("PointData"), slice(None))
        self.per_fiber = _columns(file, element.find("CellData"), slice(first, first + len(self.counts)))


def _columns(file: "_XmlFile", section: Element | None, rows: slice) -> Columns:
    """Some rows of the arrays of a section; those that cannot be read are left out with a note."""
    columns: Columns = []
    for element in () if section is None else section:
        name = element.get("Name") or "_"
        try:
            columns.append((name, file.array(element)[rows]))
        except _LOST as error:
            note(f"the array {name[:100]!r} was left out: {error}")
    return columns


def _joined(pieces: list[Columns]) -> Columns:
    """The columns that all pieces have, one piece behind the other."""
    tables = [dict(piece) for piece in pieces]
    names = [n for n, v in pieces[0] if all(n in t and t[n].shape[1] == v.shape[1] for t in tables)]
    if odd := {name for table in tables for name in table}.difference(names):
        note(f"not all pieces have the arrays {', '.join(sorted(odd))}; they were left out")
    return [(name, np.concatenate([table[name] for table in tables])) for name in names]


class _XmlFile:
    """The XML of a file, and the bytes of its arrays."""

    def __init__(self, data: bytes | bytearray) -> None:
        data = bytes(data).lstrip()
        if not data.startswith(_BEGIN):
            raise InvalidInput(f"a vtp file begins with <VTKFile, this one with {data[:12]!r}; is its suffix right?")
        self._size, self._appended, self._is_base64 = len(data), b"", True
        if tag := _APPENDED.search(data):
            self._appended = data[data.find(b"_", tag.end()) + 1 :]
            self._is_base64 = b"raw" not in tag[1]
            data = data[: tag.start()] + b"</VTKFile>"
        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise InvalidInput("it has a document type, which no vtp file needs; export it again")
        self.root = fromstring(data)
        if self.root.tag != "VTKFile" or self.root.get("type") != "PolyData":
            raise InvalidInput(f"it holds {self.root.get('type')!r}; fibers are a VTKFile of type PolyData")
        self._order = ">" if self.root.get("byte_order") == "BigEndian" else "<"
        self._word = np.dtype(f"{self._order}u{8 if self.root.get('header_type') == 'UInt64' else 4}")

    def stated_space(self) -> str | None:
        """Return the axes that a text of the file named SPACE tells, or None."""
        for element in self.root.iter("Array"):
            if element.get("Name") == "SPACE":
                text = self._content(element, np.dtype("u1")).tobytes()
                return next((space for space in ("RAS", "LPS") if text.startswith(space.encode())), None)
        return None

    def array(self, element: Element | None) -> Array:
        """Return a DataArray, shape (n, components), in native byte order."""
        if element is None:
            raise InvalidInput("an array that its lines need is missing; export it again")
        if (code := TYPES.get(element.get("type", ""))) is None:
            raise InvalidInput(f"numbers of type {element.get('type')!r} are not read")
        components = int(element.get("NumberOfComponents") or 1)
        return self._content(element, np.dtype(self._order + code)).reshape(-1, max(components, 1))

    def _content(self, element: Element, dtype: np.dtype[Any]) -> Array:
        """The numbers of an array."""
        form = element.get("format")
        if form == "ascii":
            words = (element.text or "").split()
            if any(len(word) > _LONGEST_WORD for word in words):
                raise InvalidInput(f"there is a word of more than {_LONGEST_WORD} letters among the numbers")
            return numbers_of(words, dtype.newbyteorder("="))
        if form == "appended":
            stream = _Stream(self._appended, int(element.get("offset") or 0), is_base64=self._is_base64)
        elif form == "binary":
            stream = _Stream("".join((element.text or "").split()).encode(), 0, is_base64=True)
        else:
            raise InvalidInput(f"an array has the format {form!r}, which is none of ascii, binary and appended")
        kind = self.root.get("compressor")
        if kind not in (None, "", "vtkZLibDataCompressor"):
            raise InvalidInput(f"arrays of {kind!r} are not read; export the file with zlib or without compression")
        data = self._unpacked(stream) if kind else stream.sized(self._word)
        return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))

    def _unpacked(self, stream: "_Stream") -> bytes:
        """Blocks that are packed one by one: their number, size unpacked, that of the last one, and sizes packed."""
        blocks, size, last, *packed = stream.sizes(self._word)
        sizes = [size] * blocks
        if blocks and last:
            sizes[-1] = last
        check_expansion(sum(sizes), self._size)
        data, at, pieces = stream.take(sum(packed)), 0, []
        for unpacked, length in zip(sizes, packed, strict=True):
            piece = zlib.decompressobj().decompress(data[at : at + length], max(unpacked, 1))
            if len(piece) != unpacked:
                raise InvalidInput(f"a block unpacks to {len(piece)} bytes and promises {unpacked}; export it again")
            pieces.append(piece)
            at += length
        return b"".join(pieces)


class _Stream:
    """Bytes from a place on, as they are or in base64."""

    def __init__(self, data: bytes, at: int, *, is_base64: bool) -> None:
        self._data, self._at, self._is_base64 = data, at, is_base64

    def take(self, size: int) -> bytes:
        """Return the next bytes, which were encoded for themselves; InvalidInput if there are fewer."""
        length = -(-size // 3) * 4 if self._is_base64 else size
        if not 0 <= self._at <= len(self._data) - length:
            raise InvalidInput(f"an array ends behind the file's {len(self._data)} bytes; the file is cut off")
        part = self._data[self._at : self._at + length]
        self._at += length
        part = base64.b64decode(part, validate=True) if self._is_base64 else part
        if len(part) < size:
            raise InvalidInput(f"an array has {len(part)} bytes and promises {size}; the file is damaged")
        return part[:size]

    def sized(self, word: np.dtype[Any]) -> bytes:
        """Return bytes behind their number; writers encode both together, or each for itself."""
        start, is_apart = self._at, not self._is_base64
        size = int(np.frombuffer(self.take(word.itemsize), word)[0])
        if self._is_base64:
            is_apart = self._data[self._at - 1 : self._at] == b"="
        if is_apart:
            return self.take(size)
        self._at = start
        return self.take(word.itemsize + size)[word.itemsize :]

    def sizes(self, word: np.dtype[Any]) -> list[int]:
        """Return the numbers before packed blocks, of which the first one tells how many follow the first three."""
        start = self._at
        blocks = int(np.frombuffer(self.take(word.itemsize * 3), word)[0])
        self._at = start
        return [int(n) for n in np.frombuffer(self.take(word.itemsize * (3 + blocks)), word)]
