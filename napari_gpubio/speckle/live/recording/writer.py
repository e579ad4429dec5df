"""What a file format must be able to do to be recorded to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.frame import Pixels
from napari_gpubio.speckle.live.recording.bigtiff import BigTiffWriter
from napari_gpubio.speckle.live.recording.zarr_array import ZarrWriter, zarr_creator

TIFF_SUFFIXES, ZARR_SUFFIX = (".tif", ".tiff"), ".zarr"


class FrameWriter(Protocol):
    """An open file to which frames of one size are appended.

    After every `append` the file on the disk is whole: whatever happens to this program, the frames can be read.
    """

    def append(self, pixels: Pixels) -> None:
        """Add a frame, or raise OSError and leave the frames before it as they are."""

    def sync(self) -> None:
        """Ask the system to bring everything to the disk itself, which outlasts a power cut."""

    def close(self) -> None:
        """Close the file; harmless when repeated."""


def check_new(path: Path) -> None:
    """Raise InvalidInput unless a recording can begin at a path."""
    if path.suffix.lower() not in (*TIFF_SUFFIXES, ZARR_SUFFIX):
        raise InvalidInput(f"{path.name} is no name for a recording; let it end with .tif or .zarr")
    if not path.parent.is_dir():
        raise InvalidInput(f"the folder {path.parent} does not exist; create it or choose another place")
    for taken in (path, timestamps_path(path)):
        if taken.exists():
            raise InvalidInput(f"{taken.name} is there already; choose another name, recordings replace nothing")
    if path.suffix.lower() == ZARR_SUFFIX:
        zarr_creator()


def timestamps_path(path: Path) -> Path:
    """Path of the table of timestamps that lies beside a recording."""
    return path.with_suffix(".csv")


def open_writer(path: Path, first: Pixels, about: Mapping[str, Any]) -> FrameWriter:
    """Open the writer for a path's suffix, for frames like the first one.

    Parameters
    ----------
    path
        New file (.tif) or folder (.zarr).
    first
        A frame, for its size and type.
    about
        What to note with the frames, as JSON can hold it.
    """
    if path.suffix.lower() == ZARR_SUFFIX:
        return ZarrWriter(path, first, about)
    return BigTiffWriter(path, first, about)
