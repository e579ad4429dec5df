"""Files that stay valid while frames are appended: BigTIFF, zarr, and a table of timestamps."""

import json
import os
import struct
from collections.abc import Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import check_folder
from napari_gpubio.speckle.live.frame import Frame, Pixels

TIFF_SUFFIXES, ZARR_SUFFIX = (".tif", ".tiff"), ".zarr"


class FrameWriter(Protocol):
    """An open file to which frames of one size are appended.

    The file is valid after every `append`: its frames can be read even if this program is killed.
    """

    def append(self, pixels: Pixels) -> None:
        """Append a frame, or raise OSError and leave the frames before it unchanged."""

    def sync(self) -> None:
        """Flush everything to the disk, to survive a power cut."""

    def close(self) -> None:
        """Close the file; may be called repeatedly."""


def check_new(path: Path) -> None:
    """Raise InvalidInput unless a recording can be created at a path."""
    if path.suffix.lower() not in (*TIFF_SUFFIXES, ZARR_SUFFIX):
        raise InvalidInput(f"{path.name} is not a name for a recording; use .tif or .zarr")
    check_folder(path)
    for taken in (path, timestamps_path(path)):
        if taken.exists():
            raise InvalidInput(f"{taken.name} exists already; choose another name")
    if path.suffix.lower() == ZARR_SUFFIX:
        zarr_creator()


def timestamps_path(path: Path) -> Path:
    """Return the path of the table of timestamps beside a recording."""
    return path.with_suffix(".csv")


def open_writer(path: Path, first: Pixels, about: Mapping[str, Any]) -> FrameWriter:
    """Create the file for a path's suffix, for frames like the first one.

    Parameters
    ----------
    path
        New file (.tif) or folder (.zarr).
    first
        A frame of the size and type of all.
    about
        Metadata, as JSON can hold it.
    """
    if path.suffix.lower() == ZARR_SUFFIX:
        return ZarrWriter(path, first, about)
    return BigTiffWriter(path, first, about)


_HEADER = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 16)  # little-endian, BigTIFF, 8-byte offsets; the first page at 16
_FIRST_LINK: Final = 8  # where the header holds the offset of the first page
_ASCII, _SHORT, _LONG, _RATIONAL, _LONG8 = 2, 3, 4, 5, 16
_ENTRY = struct.Struct("<HHQ8s")


def open_raw(path: Path) -> RawIOBase:
    """Create a file without a buffer: what was written survives this program."""
    return path.open("xb", buffering=0)


class BigTiffWriter:
    """Appends frames to a new BigTIFF, which is valid after each of them.

    A TIFF is a chain: every page (its directory of tags, and its pixels) holds the offset of the next page. Here a
    frame's pixels are written first, its directory after them, and only then the eight bytes in the page before that
    link it in. If the program is killed in between, the chain ends at the last complete frame. The usual writers link
    first and write the pixels afterwards, or write all directories but the first at the end: a kill may then lose the
    last frame, or all but the first. A power cut can lose the frames since the last `sync`. The pages are plain: one
    strip, not compressed. Metadata are JSON in the description of the first page.
    """

    def __init__(self, path: Path, first: Pixels, about: Mapping[str, Any]) -> None:
        self._shape, self._type = first.shape, first.dtype.newbyteorder("<")
        self._description = json.dumps(dict(about)).encode("ascii") + b"\0"
        self._file = open_raw(path)
        self._end = 0
        self._link = _FIRST_LINK
        self._write(_HEADER[:8] + bytes(8))  # no pages yet

    def append(self, pixels: Pixels) -> None:
        """Append a frame, or raise OSError and leave the chain unchanged."""
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
        """Flush everything to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Truncate what is not linked in, and close the file."""
        if not self._file.closed:
            try:
                self._file.truncate(self._end)
            finally:
                self._file.close()

    def _directory(self, place: int) -> tuple[bytes, int]:
        """Return the tags of a page whose pixels are at an offset, and where in these bytes the next page's offset is.

        The description, if there is one, follows them.
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
            _entry(282, _RATIONAL, 1, 1),  # a resolution, which TIFF requires, without unit
            _entry(283, _RATIONAL, 1, 1),
            _entry(296, _SHORT, 1),
            _entry(339, _SHORT, 1),  # unsigned integers
        ]
        link = 8 + _ENTRY.size * (len(entries) + bool(description))
        if description:
            entries.insert(5, _ENTRY.pack(270, _ASCII, len(description), struct.pack("<Q", self._end + link + 8)))
        return struct.pack("<Q", len(entries)) + b"".join(entries) + bytes(8) + description, link

    def _write(self, data: Any) -> int:
        """Write at the end; return the offset."""
        place = self._end
        self._end += self._write_at(place, data)
        return place

    def _write_at(self, place: int, data: Any) -> int:
        """Write everything, even if the system accepts less at a time."""
        view = memoryview(data).cast("B")
        self._file.seek(place)
        written = 0
        while written < len(view):
            written += self._file.write(view[written:]) or 0
        return written


def _entry(tag: int, kind: int, *values: int) -> bytes:
    """Return a tag whose value fits in its entry."""
    form = {_SHORT: "<H6x", _LONG: "<L4x", _LONG8: "<Q", _RATIONAL: "<LL"}[kind]
    return _ENTRY.pack(tag, kind, 1, struct.pack(form, *values))


class ZarrWriter:
    """Appends frames to a new zarr array, one chunk each, not compressed.

    A frame is one file and the array's length another; each is written beside its place and renamed. The length grows
    before the frame is written: a program that is killed between the two leaves a last frame of zeros, which the table
    of timestamps does not list. Metadata are the array's attributes. Raises InvalidInput if the package zarr (3 or
    later) is not installed.
    """

    def __init__(self, path: Path, first: Pixels, about: Mapping[str, Any]) -> None:
        self._array = zarr_creator()(
            store=str(path),
            shape=(0, *first.shape),
            chunks=(1, *first.shape),
            dtype=first.dtype,
            compressors=None,
            attributes=dict(about),
        )
        self._length = 0

    def append(self, pixels: Pixels) -> None:
        """Append a frame, or raise OSError and leave the frames before it unchanged."""
        shape = self._array.shape[1:]
        self._array.resize((self._length + 1, *shape))
        self._array[self._length] = pixels
        self._length += 1

    def sync(self) -> None:
        """Do nothing: the package cannot flush."""

    def close(self) -> None:
        """Remove a last frame that was not written."""
        if self._array.shape[0] > self._length:
            self._array.resize((self._length, *self._array.shape[1:]))


def zarr_creator() -> Any:
    """Return ``zarr.create_array``, or raise InvalidInput if zarr 3 is not installed."""
    try:
        from zarr import create_array
    except ImportError as error:
        raise InvalidInput(
            "recording to .zarr needs zarr 3; install it with pip install 'napari-gpubio[zarr]', or record to .tif"
        ) from error
    return create_array


COLUMNS = ("index", "number", "timestamp_s", "arrived_s", "dropped")


class TimestampTable:
    """A CSV of timestamps, flushed after each row.

    Columns: index in the recording, number at the source, time on the source's clock, arrival on the machine's clock,
    and frames dropped by the recorder so far.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="ascii", newline="")
        self._rows = 0
        self._put(",".join(COLUMNS))

    def append(self, frame: Frame, dropped: int) -> None:
        """Append the row of a written frame, or raise OSError."""
        self._put(f"{self._rows},{frame.number},{frame.timestamp_s:.6f},{frame.arrived_s:.6f},{dropped}")
        self._rows += 1

    def sync(self) -> None:
        """Flush everything to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; may be called repeatedly."""
        self._file.close()

    def _put(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()
