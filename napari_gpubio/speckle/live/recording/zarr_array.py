"""A zarr array that grows by one frame at a time (the package zarr is an optional extra).

A frame is a file of its own and the array's length is another; the package writes each beside its place and renames it,
so that either is whole or as it was. The length grows before the frame is there: a program that is killed between the
two leaves one last frame of zeros, which the table of timestamps does not name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.frame import Pixels


class ZarrWriter:
    """Append frames to a new zarr array, one chunk each, not compressed.

    Parameters
    ----------
    path
        A folder that does not exist.
    first
        A frame, for its size and type.
    about
        The array's attributes.

    Raises
    ------
    InvalidInput
        If the package zarr (3 or later) is not installed.
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
        """Add a frame, or raise OSError and leave the frames before it as they are."""
        shape = self._array.shape[1:]
        self._array.resize((self._length + 1, *shape))
        self._array[self._length] = pixels
        self._length += 1

    def sync(self) -> None:
        """Nothing: the package has no way to ask for it."""

    def close(self) -> None:
        """Cut off a frame that was announced and not written."""
        if self._array.shape[0] > self._length:
            self._array.resize((self._length, *self._array.shape[1:]))


def zarr_creator() -> Any:
    """Return ``zarr.create_array``, or raise InvalidInput if zarr 3 is not there."""
    try:
        from zarr import create_array
    except ImportError as error:
        raise InvalidInput(
            "recording to .zarr needs zarr 3; install it with pip install 'napari-gpubio[zarr]', or record to .tif"
        ) from error
    return create_array
