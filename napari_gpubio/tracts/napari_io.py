"""Diffusion scans, tensor maps, fibers and their files as napari layers, without importing napari."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import described_layer, read_described
from napari_gpubio.core.napari_io import KEY, LayerData, carried, series_layer, volume_layer
from napari_gpubio.core.space import layer_matrix, world_order
from napari_gpubio.tracts.io.dwi import find_gradient_files, read_array, read_dwi
from napari_gpubio.tracts.io.mif import read_mif
from napari_gpubio.tracts.io.tractograms import read_tractogram, tractogram_suffix, write_tractogram
from napari_gpubio.tracts.io.validation import box_grid, offsets_of
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.tensors.maps import scalar_map

logger = logging.getLogger(__name__)
Array = npt.NDArray[Any]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
MOST_FIBERS = 10_000  # in a stock Tracks layer, which is slow
_DIFFUSIVITY = {"contrast_limits": (0.0, 3e-3), "colormap": "magma"}
_DISPLAY: dict[str, dict[str, Any]] = {
    "FA": {"contrast_limits": (0.0, 1.0), "colormap": "gray"},
    **dict.fromkeys(("MD", "AD", "RD"), _DIFFUSIVITY),
    "DEC": {"rgb": True},
    "S0": {"colormap": "gray"},
}
MAP_UNITS = {"FA": "", "MD": "mm²/s", "AD": "mm²/s", "RD": "mm²/s", "DEC": "", "S0": "signal"}


def scan_layer(scan: DiffusionScan, name: str) -> LayerData:
    """Return the layer of a diffusion scan: its volumes along the first axis, the scan itself in the metadata."""
    first = np.asarray(scan.data[..., int(np.argmin(scan.bvals))], np.float32)
    return series_layer(
        scan.data,
        scan.affine,
        name,
        "volume",
        contrast_limits=(0.0, float(np.percentile(first, 99.5)) or 1.0),
        colormap="gray",
        metadata={"scan": scan},
    )


def map_layer(field: TensorField, map_name: str, study: str, *, visible: bool = True) -> LayerData:
    """Return the layer of one scalar map; the tensor field travels with it.

    Parameters
    ----------
    field
        The tensors.
    map_name
        ``"FA"``, ``"MD"``, ``"AD"``, ``"RD"``, ``"DEC"`` or ``"S0"``.
    study
        Beginning of the layer's name.
    visible
        Whether it is shown at once.
    """
    unit = MAP_UNITS[map_name]
    name = f"{study} {map_name}" + (f" ({unit})" if unit else "")
    values = scalar_map(field, map_name)
    keywords = dict(_DISPLAY[map_name])
    if map_name == "DEC":
        values = values.clip(0, 1)
        middle = [(n - 1) / 2 for n in np.array(field.shape)[list(world_order(field.affine))][::-1]]
        # as a volume it would hide everything in 3-D
        keywords |= {"depiction": "plane", "plane": {"position": middle, "normal": (1, 0, 0), "thickness": 1}}
    return volume_layer(
        values,
        field.affine,
        name,
        metadata={"field": field, "parameters": dict(field.parameters)},
        visible=visible,
        **keywords,
    )


def field_of(layer: Any) -> TensorField | None:
    """Return the tensor field that a layer carries, or None."""
    value = carried(layer, "field")
    return value if isinstance(value, TensorField) else None


def scan_of(layer: Any) -> DiffusionScan | None:
    """Return the diffusion scan that a layer carries, or None."""
    value = carried(layer, "scan")
    return value if isinstance(value, DiffusionScan) else None


# -- images ------------------------------------------------------------------------------------------------------------


def get_reader(path: str | Sequence[str]) -> Callable[[str | Sequence[str]], list[LayerData]] | None:
    """Return the reader of NIfTI and MRtrix volumes (napari's reader contribution), or None if a name does not fit."""
    paths = [path] if isinstance(path, str) else list(path)
    fits = all(p.lower().endswith((".nii", ".nii.gz", ".mif", ".mif.gz")) and Path(p).is_file() for p in paths)
    return read_layers if fits and paths else None


def read_layers(path: str | Sequence[str]) -> list[LayerData]:
    """Read volumes as layers: a diffusion scan where a gradient table is found, else an image.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return [_read_one(Path(p)) for p in ([path] if isinstance(path, str) else path)]


def _read_one(path: Path) -> LayerData:
    name = path.name.split(".")[0]
    if ".mif" in path.name.lower():
        image = read_mif(path)
        if image.gradients is not None and image.data.ndim == 4:
            return scan_layer(read_dwi(path), name)
        array, affine = np.asarray(image.data), image.affine
    elif any(find_gradient_files(path)):
        return scan_layer(read_dwi(path), name)
    else:
        array, affine = read_array(path)
        array = array.reshape(array.shape[:3]) if array.size == np.prod(array.shape[:3]) else array
        if keywords := read_described(path, array.shape):
            return described_layer(array, affine, name, keywords, path)
    if array.ndim != 3:
        raise InvalidInput(
            f"{path.name} has {array.ndim} dimensions and no gradient table; put its bval and bvec files beside it "
            "if it is a diffusion scan"
        )
    return volume_layer(array, affine, name, metadata={"path": str(path)})


# -- tractograms -----------------------------------------------------------------------------------------------------
# The plugin draws fibers with its own layer, which a reader cannot return. So the reader returns a stock Tracks layer
# of at most 10,000 fibers, and the whole `Tractogram` in its metadata, where the dock widget and the writer find it.


def get_tractogram_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Return the reader of these files (napari's contribution), or None if a suffix is not a tractogram's."""
    paths = _listed(path)
    return read_tractogram_layers if paths and all(tractogram_suffix(p) for p in paths) else None


def read_tractogram_layers(path: Paths) -> list[LayerData]:
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
    keywords = {
        "name": path.name.removesuffix(tractogram_suffix(path) or ""),
        "metadata": {KEY: {"tractogram": tractogram}},
        "head_length": 0,
        "tail_length": 1,
    }
    return data, keywords, "tracks"


def tracks_data(tractogram: Tractogram, most: int = MOST_FIBERS) -> npt.NDArray[np.float64]:
    """Return the data of a Tracks layer, shape (N, 5): fiber, T = 0, z, y, x in world mm.

    At most ``most`` fibers, evenly sampled; the first column counts them in the tractogram.
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
    """Turn a Tracks layer, shape (N, 4) or (N, 5), into fibers in world mm; two-dimensional tracks get z = 0.

    InvalidInput if the data have another shape.
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
