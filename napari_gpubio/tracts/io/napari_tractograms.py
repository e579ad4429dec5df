"""Tractograms for napari's own open and save: a reader and a writer of Tracks layers, without importing napari.

The plugin draws fibers with its own layer, which a reader cannot return. So the reader gives a stock Tracks layer of at
most 10,000 fibers, and the whole `Tractogram` in its metadata, where the dock widget and the writer find it.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import layer_matrix, world_layer_affine
from napari_gpubio.tracts.io.tractograms import read_tractogram, tractogram_suffix, write_tractogram
from napari_gpubio.tracts.io.validation import box_grid, offsets_of
from napari_gpubio.tracts.model import Tractogram

logger = logging.getLogger(__name__)
Array = npt.NDArray[Any]
LayerData = tuple[Array, dict[str, Any], str]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
MOST_FIBERS = 10_000
KEY = "napari_gpubio"


def get_tractogram_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Give the function that reads these files, or None if one of them is no tractogram by its suffix."""
    paths = _listed(path)
    return read_layers if paths and all(tractogram_suffix(p) for p in paths) else None


def read_layers(path: Paths) -> list[LayerData]:
    """Read tractogram files as Tracks layers.

    Returns
    -------
    layers
        For each file: data, shape (N, 5), with columns fiber, T = 0, z, y, x in world mm; keyword arguments;
        ``"tracks"``.

    Raises
    ------
    InvalidInput
        If a file cannot be read or holds no fibers.
    """
    return [_layer(Path(p)) for p in _listed(path)]


def _listed(path: Paths) -> list[str | os.PathLike[str]]:
    return [path] if isinstance(path, str | os.PathLike) else list(path)


def _layer(path: Path) -> LayerData:
    tractogram = read_tractogram(path)
    if not len(tractogram.points):
        raise InvalidInput(f"{path.name} holds no fibers; there is nothing to show")
    data = tracks_data(tractogram)
    affine = np.eye(5)
    affine[1:, 1:] = world_layer_affine(tractogram.affine, tractogram.shape)
    keywords = {
        "name": path.name.removesuffix(tractogram_suffix(path) or ""),
        "metadata": {KEY: {"tractogram": tractogram}},
        "affine": affine,
        "head_length": 0,
        "tail_length": 1,
    }
    return data, keywords, "tracks"


def tracks_data(tractogram: Tractogram, most: int = MOST_FIBERS) -> npt.NDArray[np.float64]:
    """Give the data of a Tracks layer, shape (N, 5): fiber, T = 0, z, y, x in world mm.

    Parameters
    ----------
    tractogram
        The fibers.
    most
        Draw at most so many, evenly sampled; the first column counts them in the tractogram.
    """
    which = np.flatnonzero(tractogram.counts)
    if len(which) > most:
        logger.info("%d of %d fibers are drawn; the layer's metadata has all of them", most, len(which))
        which = which[np.linspace(0, len(which) - 1, most).round().astype(np.int64)]
    shown = tractogram.select(which)
    data = np.zeros((len(shown.points), 5))
    data[:, 0] = which[shown.fiber_of_point()]
    data[:, 2:] = shown.points[:, ::-1]
    return data


def write_tracks(path: str, data: Any, attributes: Mapping[str, Any]) -> list[str]:
    """Write a Tracks layer as a tractogram file.

    Parameters
    ----------
    path
        A ``.trk``, ``.tck``, ``.trx`` or ``.vtk`` file.
    data
        Shape (N, 4) or (N, 5): track, T, (z,) y, x in layer coordinates.
    attributes
        The layer's attributes. If the metadata hold a whole `Tractogram`, that is written, and not the data.

    Returns
    -------
    paths
        The file that was written.

    Raises
    ------
    InvalidInput
        If the data are no tracks, or the file cannot be written.
    """
    kept = attributes.get("metadata", {}).get(KEY, {})
    tractogram = kept.get("tractogram") if isinstance(kept, Mapping) else None
    if not isinstance(tractogram, Tractogram):
        tractogram = tractogram_of_tracks(data, attributes)
    write_tractogram(path, tractogram)
    return [os.fspath(path)]


def tractogram_of_tracks(data: Any, attributes: Mapping[str, Any]) -> Tractogram:
    """Turn a Tracks layer into fibers in world mm; two-dimensional tracks get z = 0.

    Parameters
    ----------
    data
        Shape (N, 4) or (N, 5): track, T, (z,) y, x in layer coordinates.
    attributes
        The layer's ``scale``, ``rotate``, ``shear``, ``translate`` and ``affine``, as far as they are given.

    Raises
    ------
    InvalidInput
        If the data have another shape.
    """
    table = np.asarray(data, np.float64)
    if table.ndim != 2 or table.shape[1] not in (4, 5):
        raise InvalidInput(f"tracks have shape (N, 4) or (N, 5); this layer has shape {table.shape}")
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    world = _shown(table[:, 1:], attributes)
    points = np.zeros((len(table), 3), np.float32)
    points[:, : world.shape[1] - 1] = world[:, :0:-1]
    counts = np.unique(table[:, 0], return_counts=True)[1]
    affine, shape = box_grid(points)
    return Tractogram(points=points, offsets=offsets_of(counts), affine=affine, shape=shape)


def _shown(points: Array, attributes: Mapping[str, Any]) -> Array:
    """Take layer coordinates, shape (N, d), through the layer's transforms, as napari does."""
    d = points.shape[1]
    matrix = layer_matrix(attributes, d)
    return points @ matrix[:d, :d].T + matrix[:d, d]
