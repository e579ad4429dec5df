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
from napari_gpubio.speckle.io.tiff_writer import BIG, directory, write_at
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


_FIRST_LINK: Final = len(BIG.header)  # where the header holds the offset of the first page


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
        self._write(BIG.header + bytes(8))  # no pages yet

    def append(self, pixels: Pixels) -> None:
        """Append a frame, or raise OSError and leave the chain unchanged."""
        whole = self._end
        try:
            place = self._write(np.ascontiguousarray(pixels, self._type))
            self._write(bytes(-self._end % 8))
            tags, link = directory(BIG, self._end, place, self._shape, self._type, self._description)
            page = self._write(tags)
            write_at(self._file, self._link, struct.pack("<Q", page))
        except OSError:
            self._end = whole
            raise
        self._link, self._description = page + link, b""

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

    def _write(self, data: Any) -> int:
        """Write at the end; return the offset."""
        place = self._end
        self._end += write_at(self._file, place, data)
        return place


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
