"""A BigTIFF that grows frame by frame and is whole after each of them.

A TIFF is a chain: every page (its directory of tags, and its pixels) holds the place of the next page. Here a frame's
pixels are written first, its directory after them, and only then the eight bytes in the page before that link it in. If
the program is killed anywhere in between, the chain ends at the last whole frame. The usual writers link first and
write the pixels afterwards, or write all directories but the first at the end: then a kill may cost the last frame, or
costs all but the first. A cut of the power can cost the frames since the last `BigTiffWriter.sync`.

The pages are plain (one strip, not compressed), as any reader of BigTIFF knows them.
"""

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from napari_gpubio.speckle.live.frame import Pixels

_HEADER = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 16)  # little-endian, BigTIFF, 8-byte offsets; the first page at 16
_FIRST_LINK: Final = 8  # where the header holds the place of the first page
_ASCII, _SHORT, _LONG, _RATIONAL, _LONG8 = 2, 3, 4, 5, 16
_ENTRY = struct.Struct("<HHQ8s")


class BigTiffWriter:
    """Append frames to a new BigTIFF.

    Parameters
    ----------
    path
        A file that does not exist.
    first
        A frame, for its size and type.
    about
        Noted as JSON in the description of the first page.
    """

    def __init__(self, path: Path, first: Pixels, about: Mapping[str, Any]) -> None:
        self._shape, self._type = first.shape, first.dtype.newbyteorder("<")
        self._description = json.dumps(dict(about)).encode("ascii") + b"\0"
        self._file = path.open("xb", buffering=0)  # what write() has taken is the system's, and outlives this program
        self._end = 0
        self._link = _FIRST_LINK
        self._write(_HEADER[:8] + bytes(8))  # a chain of no pages

    def append(self, pixels: Pixels) -> None:
        """Add a frame, or raise OSError and leave the chain as it was."""
        whole = self._end
        try:
            place = self._write(np.ascontiguousarray(pixels, self._type))
            self._write(bytes(-self._end % 8))
            directory, link = self._directory(place)
            page = self._write(directory)
            self._write_at(self._link, struct.pack("<Q", page))
        except OSError:
            self._end = whole
            raise
        self._link = page + link

    def sync(self) -> None:
        """Ask the system to bring everything to the disk itself."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Cut off what is not linked in, and close the file."""
        if not self._file.closed:
            try:
                self._file.truncate(self._end)
            finally:
                self._file.close()

    def _directory(self, place: int) -> tuple[bytes, int]:
        """The tags of a page whose pixels lie at a place, and where among these bytes the link to the next page is.

        The description, if there is one, lies behind them.
        """
        height, width = self._shape
        description, self._description = self._description, b""
        entries = [
            _entry(256, _LONG, width),
            _entry(257, _LONG, height),
            _entry(258, _SHORT, 8 * self._type.itemsize),
            _entry(259, _SHORT, 1),  # not compressed
            _entry(262, _SHORT, 1),  # black is zero
            _entry(273, _LONG8, place),
            _entry(277, _SHORT, 1),  # samples per pixel
            _entry(278, _LONG, height),  # rows of the one strip
            _entry(279, _LONG8, height * width * self._type.itemsize),
            _entry(282, _RATIONAL, 1, 1),  # a resolution, which TIFF asks for, of no unit
            _entry(283, _RATIONAL, 1, 1),
            _entry(296, _SHORT, 1),
            _entry(339, _SHORT, 1),  # unsigned integers
        ]
        link = 8 + _ENTRY.size * (len(entries) + bool(description))
        if description:
            entries.insert(5, _ENTRY.pack(270, _ASCII, len(description), struct.pack("<Q", self._end + link + 8)))
        return struct.pack("<Q", len(entries)) + b"".join(entries) + bytes(8) + description, link

    def _write(self, data: Any) -> int:
        """Write at the end; return where that was."""
        place = self._end
        self._end += self._write_at(place, data)
        return place

    def _write_at(self, place: int, data: Any) -> int:
        """Write everything, also where the system takes less at a time."""
        view = memoryview(data).cast("B")
        self._file.seek(place)
        written = 0
        while written < len(view):
            written += self._file.write(view[written:]) or 0
        return written


def _entry(tag: int, kind: int, *values: int) -> bytes:
    """A tag whose value fits in its entry."""
    form = {_SHORT: "<H6x", _LONG: "<L4x", _LONG8: "<Q", _RATIONAL: "<LL"}[kind]
    return _ENTRY.pack(tag, kind, 1, struct.pack(form, *values))
