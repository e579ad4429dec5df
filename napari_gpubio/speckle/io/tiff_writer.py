"""TIFF files of plain pages, written where and when they come: one strip each, not compressed."""

import struct
from io import RawIOBase
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_ASCII, _SHORT, _LONG, _RATIONAL, _LONG8 = 2, 3, 4, 5, 16
_VALUES = {_SHORT: "<H", _LONG: "<L", _RATIONAL: "<LL", _LONG8: "<Q"}
_SAMPLE_FORMATS = {"u": 1, "i": 2, "f": 3}
DATA_START = 16  # bytes of the longer header


class Kind(NamedTuple):
    """Formats of the number of entries of a directory and of offsets; the header without the first offset."""

    entries: str
    offset: str
    header: bytes


BIG = Kind("<Q", "<Q", struct.pack("<2sHHH", b"II", 43, 8, 0))
CLASSIC = Kind("<H", "<L", struct.pack("<2sH", b"II", 42))
_MAX_CLASSIC_BYTES = 2**32 - 1


def directory(
    kind: Kind, at: int, place: int, shape: tuple[int, ...], dtype: np.dtype[Any], description: bytes = b""
) -> tuple[bytes, int]:
    """Return the tags of a page, and where in these bytes the offset of the next page is, which is 0.

    Parameters
    ----------
    kind
        `BIG` or `CLASSIC`.
    at
        Where in the file they will be.
    place
        Where the pixels are.
    shape, dtype
        Rows and columns, and type of the pixels.
    description
        Text of the page, which ends with a zero byte.
    """
    height, width = shape
    offset_kind, field = (_LONG8, 8) if kind is BIG else (_LONG, 4)
    tags: list[tuple[int, int, Any]] = [
        (256, _LONG, width),
        (257, _LONG, height),
        (258, _SHORT, 8 * dtype.itemsize),
        (259, _SHORT, 1),  # not compressed
        (262, _SHORT, 1),  # black is zero
        *([(270, _ASCII, description)] if description else []),
        (273, offset_kind, place),
        (277, _SHORT, 1),  # samples per pixel
        (278, _LONG, height),  # rows of the one strip
        (279, offset_kind, height * width * dtype.itemsize),
        (282, _RATIONAL, (1, 1)),  # a resolution, which TIFF requires, without unit
        (283, _RATIONAL, (1, 1)),
        (296, _SHORT, 1),
        (339, _SHORT, _SAMPLE_FORMATS[dtype.kind]),
    ]
    entries, behind = struct.pack(kind.entries, len(tags)), b""
    end = at + len(entries) + len(tags) * (4 + 2 * field) + field
    for code, form, value in tags:
        data = value if form == _ASCII else struct.pack(_VALUES[form], *np.atleast_1d(value).tolist())
        count = len(data) if form == _ASCII else 1
        if len(data) > field:
            data, behind = struct.pack(kind.offset, end + len(behind)), behind + data + bytes(-len(data) % 8)
        entries += struct.pack("<HH", code, form) + struct.pack(kind.offset, count) + data.ljust(field, b"\0")
    return entries + bytes(field) + behind, len(entries)


def write_at(file: RawIOBase, place: int, data: Any) -> int:
    """Write everything at an offset, even if the system accepts less at a time; return the number of bytes."""
    view = memoryview(data).cast("B")
    file.seek(place)
    written = 0
    while written < len(view):
        written += file.write(view[written:]) or 0
    return written


class PageFile:
    """A TIFF file whose pages are written in any order, and their directories at the end.

    Their pixels follow each other, so that the file can be mapped. It is BigTIFF from 4 GB on, which ImageJ reads by
    Bio-Formats.

    Parameters
    ----------
    file
        An open file without a buffer, empty.
    shape, dtype
        Rows and columns, and type of all pages.
    """

    def __init__(self, file: RawIOBase, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._file, self._shape, self._dtype = file, shape, np.dtype(dtype).newbyteorder("<")
        self._page_bytes = int(np.prod(shape)) * self._dtype.itemsize

    def write(self, first: int, pages: Array) -> None:
        """Write pages, shape (N, Y, X), the first of which is the page of that number."""
        write_at(self._file, DATA_START + first * self._page_bytes, np.ascontiguousarray(pages, self._dtype))

    def finish(self, count: int, description: str) -> None:
        """Write the directories of so many pages, and the text of the first one."""
        end = DATA_START + count * self._page_bytes
        at = end + -end % 8
        text = description.encode("ascii") + b"\0"
        kind = CLASSIC if at + len(text) + 256 * count < _MAX_CLASSIC_BYTES else BIG
        made, first = bytearray(), at
        for number in range(count):
            place = DATA_START + number * self._page_bytes
            entries, link = directory(kind, at, place, self._shape, self._dtype, b"" if number else text)
            entries += bytes(-len(entries) % 8)
            at += len(entries)
            if number + 1 < count:
                following = struct.pack(kind.offset, at)
                entries = entries[:link] + following + entries[link + len(following) :]
            made += entries
        write_at(self._file, first, made)
        write_at(self._file, 0, kind.header + struct.pack(kind.offset, first))
