"""Volumes as napari layers and back, without importing napari.

A layer tuple is ``(data, keyword arguments, kind)``. What an engine needs again later travels in the layer's metadata
under ``KEY``: the volume's true affine and shape always, and whatever the engine adds (a scan, a result).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import layer_matrix, same_grid, to_layer, volume_layer_affine, world_order
from napari_gpubio.core.volumes import read_volume, write_volume

Array = npt.NDArray[Any]
LayerData = tuple[Any, dict[str, Any], str]
Reader = Callable[[Path], tuple[Array, Array]]
KEY = "napari_gpubio"
AXES = ("z", "y", "x")


def volume_layer(array: Array, affine: Array, name: str, *, kind: str = "image", **keywords: Any) -> LayerData:
    """Return the layer of a volume (X, Y, Z) or of a color volume (X, Y, Z, 3).

    Parameters
    ----------
    array
        The volume, indexed as its file is.
    affine
        Voxel to world, mm.
    name
        Of the layer.
    kind
        ``"image"`` or ``"labels"``.
    **keywords
        What else the layer is given; ``metadata`` is what it carries under ``KEY``.
    """
    shown, matrix = _shown(array, affine)
    data = shown.transpose(2, 1, 0, 3) if array.ndim == 4 else shown.T
    return data, {"name": name, "affine": matrix, "axis_labels": AXES, **_carrying(array, affine, keywords)}, kind


def series_layer(array: Array, affine: Array, name: str, first_axis: str, **keywords: Any) -> LayerData:
    """Return the image layer of volumes (X, Y, Z, N), whose first axis counts them; the rest as `volume_layer`."""
    shown, matrix = _shown(array, affine)
    spatial = np.eye(5)
    spatial[1:, 1:] = matrix
    labels = (first_axis, *AXES)
    return (
        shown.T,
        {"name": name, "affine": spatial, "axis_labels": labels, **_carrying(array, affine, keywords)},
        "image",
    )


def _shown(array: Array, affine: Array) -> tuple[Array, Array]:
    """An array with its first three axes along x, y, z, and the affine of its layer."""
    order = world_order(affine)
    shown = array.transpose(*order, *range(3, array.ndim))
    return shown, volume_layer_affine(affine[:, [*order, 3]], shown.shape[:3])


def _carrying(array: Array, affine: Array, keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a layer, with its true grid in the metadata."""
    carried = {"affine": affine, "shape": array.shape[:3], **keywords.pop("metadata", {})}
    return {**keywords, "metadata": {KEY: carried}}


def carried(layer: Any, what: str) -> Any:
    """Return what a layer carries under a name, or None."""
    ours = layer.metadata.get(KEY)
    return ours.get(what) if isinstance(ours, dict) else None


def grid_of(layer: Any) -> tuple[Array, tuple[int, int, int]]:
    """Return the true affine (voxel to world, mm) and the shape (X, Y, Z) of an image or labels layer.

    A layer that some other plugin or the user made is taken by its own transform: data axes (z, y, x) in mm.
    """
    affine, shape = carried(layer, "affine"), carried(layer, "shape")
    if affine is not None and shape is not None:
        return np.asarray(affine), tuple(shape)
    rgb = bool(getattr(layer, "rgb", False))
    zyx = layer.data.shape[-4:-1] if rgb else layer.data.shape[-3:]
    attributes = {name: getattr(layer, name) for name in ("scale", "rotate", "shear", "translate")}
    matrix = layer_matrix({**attributes, "affine": layer.affine.affine_matrix}, layer.ndim)
    return to_layer(_last_three(matrix)), (zyx[2], zyx[1], zyx[0])


def volume_of(layer: Any) -> Array:
    """Return the array (X, Y, Z) of a three-dimensional image or labels layer.

    Raises
    ------
    InvalidInput
        If the layer has another number of dimensions.
    """
    data = np.asarray(layer.data)
    if data.ndim > 3 and data.dtype.kind in "iub" and not getattr(layer, "rgb", False):
        data = data.max(axis=tuple(range(data.ndim - 3)))  # labels drawn while a series is open: on any of its volumes
    if data.ndim != 3:
        raise InvalidInput(f"layer {layer.name!r} has {data.ndim} dimensions; choose a volume with three")
    return _stored(data.T, carried(layer, "affine"))


def saved_path(layer: Any, read: Reader = read_volume, stored: Array | None = None) -> Path | None:
    """Return the file that holds exactly what a layer shows, or None if it was painted or changed since.

    Parameters
    ----------
    layer
        An image or labels layer.
    read
        Reads a file's array and affine; an engine that knows more formats than NIfTI gives its own.
    stored
        The layer's array as a file has it; by default that of a volume, see `volume_of`.
    """
    known = carried(layer, "path") or layer.source.path
    if known is None or not Path(known).is_file():
        return None
    try:
        array, affine = read(Path(known))
    except InvalidInput:
        return None
    shown = volume_of(layer) if stored is None else stored
    own_affine, shape = grid_of(layer)
    same = same_grid(array.shape, affine, shape, own_affine)
    return Path(known) if same and np.array_equal(array, shown, equal_nan=shown.dtype.kind == "f") else None


def save_layer(layer: Any, folder: Path) -> Path:
    """Write a volume layer as NIfTI into a folder; the name is the layer's. Returns the path."""
    path = folder / f"{''.join(c if c.isalnum() or c in '-_' else '_' for c in layer.name)}.nii.gz"
    write_volume(path, volume_of(layer), grid_of(layer)[0])
    return path


def write_image(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:
    """Write an image or labels layer as NIfTI (napari's writer contribution); returns the path.

    Raises
    ------
    InvalidInput
        If the layer has fewer than three dimensions, or the file cannot be written.
    """
    ours = attributes.get("metadata", {}).get(KEY, {})
    array = np.asarray(data)
    ndim = array.ndim - bool(attributes.get("rgb"))
    if ndim < 3:
        raise InvalidInput(f"a volume has at least 3 dimensions; this layer has {ndim}: save it as TIFF or PNG")
    array = array.transpose(2, 1, 0, 3) if attributes.get("rgb") else array.T
    affine = ours.get("affine") if isinstance(ours, dict) else None
    if affine is None:
        affine = to_layer(_last_three(layer_matrix(attributes, ndim)))  # (z, y, x) turned round is (x, y, z)
    else:
        array = _stored(array, affine)
    write_volume(path, array, affine)
    return [path]


def _stored(array: Array, affine: Array | None) -> Array:
    """Undo the order of axes that a layer of ours was given."""
    if affine is None:
        return array
    return array.transpose(*np.argsort(world_order(affine)), *range(3, array.ndim))


def _last_three(matrix: Array) -> Array:
    """The part of a layer's matrix that moves its last three axes, 4 x 4."""
    part = np.eye(4)
    part[:3, :3], part[:3, 3] = matrix[-4:-1, -4:-1], matrix[-4:-1, -1]
    return part
