"""Reader of napari for frames that it does not read well itself: videos, and raw files of UT Austin's software.

TIFF stays with napari's own reader. Needs no napari.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData, read_each
from napari_gpubio.speckle.io import VIDEO_SUFFIXES, is_raw, read_frames

Paths = str | Sequence[str]
_AXES = ("frame", "y", "x")


def get_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Return the reader of videos and raw files, or None for other files."""
    names = [path] if isinstance(path, str) else path
    return read_layers if names and all(map(_is_ours, names)) else None


def read_layers(path: Paths) -> list[LayerData]:
    """Read frames as image layers, shape (frames, y, x).

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, _read)


def _is_ours(path: str) -> bool:
    return is_raw(path) or Path(path).suffix.lower() in VIDEO_SUFFIXES


def _read(path: Path) -> list[LayerData]:
    if not _is_ours(str(path)):
        raise InvalidInput(f"it is neither a video ({', '.join(VIDEO_SUFFIXES)}) nor a raw file (.00000)")
    frames = read_frames(path)
    return [(frames, {"name": path.stem, "axis_labels": _AXES[-frames.ndim :]}, "image")]
