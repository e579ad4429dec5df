"""Reader of napari for frames that it does not read itself: videos, and raw files of UT Austin's software.

napari asks its user at every file that two readers name in their manifests. TIFF is not named in ours, since that would
be every picture: the panel reads frames from TIFF, and `what_differs` looks at those that other readers have opened.
Needs no napari.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, LayerData, LayerReader, Paths, read_each, reader_if, with_notes
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import register_finder
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.reading import noted, reading
from napari_gpubio.speckle.io import VIDEO_SUFFIXES, is_raw, look_at_tiff, read_frames
from napari_gpubio.speckle.model import Recording
from napari_gpubio.speckle.opening import OpenFrames

_AXES = ("frame", "y", "x")
_FRAMES = "frames"  # under which a layer says that it holds frames
register_finder((_FRAMES,), "napari_gpubio.speckle.gui.run:finder")


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of videos and raw files, or None for other files."""
    return reader_if(_is_ours, path, read_layers)


def read_layers(path: Paths) -> list[LayerData]:
    """Read frames as image layers, shape (frames, y, x).

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, _read)


def read_layer(path: str | os.PathLike[str]) -> LayerData:
    """Read frames of any file that `read_frames` reads as an image layer, with its notes and path in the metadata.

    Raises
    ------
    InvalidInput
        As of `read_frames`.
    """
    path = Path(path)
    with reading(path), noted() as found:
        frames = read_frames(path)
    (layer,) = with_notes([_layer_of(frames, path.stem, {"path": str(path)})], found)
    return layer


def layers_of_frames(recording: Recording, output: Output[Any], name: str, _part: Any = None) -> list[LayerData]:
    """Return the layer of frames that are opened or held; see `napari_gpubio.core.operations.Kind`."""
    about: dict[str, Any] = {RECORD: record_of_output(output)}
    about |= {"path": output.of.file.path} if isinstance(output.of, OpenFrames) else {}
    return [_layer_of(np.asarray(recording.frames), name, about)]


def _layer_of(frames: Any, name: str, about: dict[str, Any]) -> LayerData:
    metadata = {KEY: {_FRAMES: True, **about}}
    return frames, {"name": name, "axis_labels": _AXES[-frames.ndim :], "metadata": metadata}, "image"


def what_differs(path: str | os.PathLike[str], values: int, *, is_napari: bool) -> tuple[str, ...]:
    """What a TIFF file lacks, or has beyond what another reader showed of it; nothing of what both read alike.

    Parameters
    ----------
    path
        The file, whose headers are read.
    values
        In the array of that reader.
    is_napari
        Whether it is napari's own, which shows all channels and planes as one array.

    Raises
    ------
    InvalidInput
        If it holds no frames.
    """
    look = look_at_tiff(path)
    shown = values / max(look.values, 1)
    if shown != look.whole and (is_napari or look.whole < look.images):
        count = f"{shown:g}" if shown.is_integer() else "others"
        return (f"it has {look.whole} images; shown: {count}", *look.notes)
    return look.notes if look.is_cut else ()


def _is_ours(path: Path) -> bool:
    return is_raw(path) or path.suffix.lower() in VIDEO_SUFFIXES


def _read(path: Path) -> list[LayerData]:
    if not _is_ours(path):
        raise InvalidInput(f"it is neither a video ({', '.join(VIDEO_SUFFIXES)}) nor a raw file (.00000)")
    return [read_layer(path)]
