"""Results as napari layers, and files as layers, without importing napari.

A layer tuple is ``(data, keyword arguments, kind)``. What the engine needs again later travels in the layer's metadata
under ``KEY``: the diffusion scan, the tensor field, a tractogram, or a volume's true affine.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import layer_matrix, same_grid, to_layer, volume_layer_affine, world_order
from napari_gpubio.tracts.io.dwi import find_gradient_files, read_dwi
from napari_gpubio.tracts.io.mif import read_mif
from napari_gpubio.tracts.io.volumes import read_array, read_volume, write_volume
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.tensors.scalars import scalar_map

Array = npt.NDArray[Any]
LayerData = tuple[Any, dict[str, Any], str]
KEY = "napari_gpubio"
AXES = ("z", "y", "x")
_DISPLAY: dict[str, dict[str, Any]] = {
    "FA": {"contrast_limits": (0.0, 1.0), "colormap": "gray"},
    "MD": {"contrast_limits": (0.0, 3e-3), "colormap": "magma"},
    "AD": {"contrast_limits": (0.0, 3e-3), "colormap": "magma"},
    "RD": {"contrast_limits": (0.0, 3e-3), "colormap": "magma"},
    "DEC": {"rgb": True},
    "S0": {"colormap": "gray"},
}
MAP_UNITS = {"FA": "", "MD": "mm²/s", "AD": "mm²/s", "RD": "mm²/s", "DEC": "", "S0": "signal"}


def volume_layer(array: Array, affine: Array, name: str, **keywords: Any) -> LayerData:
    """Return the layer of a volume (X, Y, Z) or of a colour volume (X, Y, Z, 3)."""
    shown, matrix = _shown(array, affine)
    data = shown.transpose(2, 1, 0, 3) if array.ndim == 4 else shown.T
    metadata = {KEY: {"affine": affine, "shape": array.shape[:3], **keywords.pop("metadata", {})}}
    keywords = {"name": name, "affine": matrix, "axis_labels": AXES, "metadata": metadata, **keywords}
    return data, keywords, "image"


def scan_layer(scan: DiffusionScan, name: str) -> LayerData:
    """Return the layer of a diffusion scan: its volumes along the first axis, the scan itself in the metadata."""
    shown, matrix = _shown(scan.data, scan.affine)
    affine = np.eye(5)
    affine[1:, 1:] = matrix
    first = np.asarray(scan.data[..., int(np.argmin(scan.bvals))], np.float32)
    keywords = {
        "name": name,
        "affine": affine,
        "axis_labels": ("volume", *AXES),
        "contrast_limits": (0.0, float(np.percentile(first, 99.5)) or 1.0),
        "colormap": "gray",
        "metadata": {KEY: {"scan": scan, "affine": scan.affine, "shape": scan.shape}},
    }
    return shown.T, keywords, "image"


def _shown(array: Array, affine: Array) -> tuple[Array, Array]:
    """An array with its first three axes along x, y, z, and the affine of its layer."""
    order = world_order(affine)
    shown = array.transpose(*order, *range(3, array.ndim))
    return shown, volume_layer_affine(affine[:, [*order, 3]], shown.shape[:3])


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
    value = _carried(layer, "field")
    return value if isinstance(value, TensorField) else None


def scan_of(layer: Any) -> DiffusionScan | None:
    """Return the diffusion scan that a layer carries, or None."""
    value = _carried(layer, "scan")
    return value if isinstance(value, DiffusionScan) else None


def grid_of(layer: Any) -> tuple[Array, tuple[int, int, int]]:
    """Return the true affine (voxel to world, mm) and the shape (X, Y, Z) of an image or labels layer.

    A layer that some other plugin or the user made is taken by its own transform: data axes (z, y, x) in mm.
    """
    affine, shape = _carried(layer, "affine"), _carried(layer, "shape")
    if affine is not None and shape is not None:
        return np.asarray(affine), tuple(shape)
    rgb = bool(getattr(layer, "rgb", False))
    zyx = layer.data.shape[-4:-1] if rgb else layer.data.shape[-3:]
    attributes = {name: getattr(layer, name) for name in ("scale", "rotate", "shear", "translate")}
    matrix = layer_matrix({**attributes, "affine": layer.affine.affine_matrix}, layer.ndim)
    return to_layer(_last_three(matrix)), (zyx[2], zyx[1], zyx[0])


def volume_of(layer: Any) -> Array:
    """Return the array (X, Y, Z) of a three-dimensional image or labels layer."""
    data = np.asarray(layer.data)
    if data.ndim > 3 and data.dtype.kind in "iub" and not getattr(layer, "rgb", False):
        data = data.max(axis=tuple(range(data.ndim - 3)))  # labels drawn while a series is open: on any of its volumes
    if data.ndim != 3:
        raise InvalidInput(f"layer {layer.name!r} has {data.ndim} dimensions; choose a volume with three")
    return _stored(data.T, _carried(layer, "affine"))


def saved_path(layer: Any) -> Path | None:
    """Return the file that holds exactly what a volume layer shows, or None if it was painted or changed since."""
    known = _carried(layer, "path") or layer.source.path
    if known is None or not Path(known).is_file():
        return None
    try:
        array, affine = read_volume(known)
    except InvalidInput:
        return None
    own_affine, shape = grid_of(layer)
    same = same_grid(array.shape, affine, shape, own_affine) and np.array_equal(array, volume_of(layer))
    return Path(known) if same else None


def save_layer(layer: Any, folder: Path) -> Path:
    """Write a volume layer as NIfTI into a folder; the name is the layer's. Returns the path."""
    path = folder / f"{''.join(c if c.isalnum() or c in '-_' else '_' for c in layer.name)}.nii.gz"
    write_volume(path, volume_of(layer), grid_of(layer)[0])
    return path


def _stored(array: Array, affine: Array | None) -> Array:
    """Undo the order of axes that a layer of ours was given."""
    if affine is None:
        return array
    return array.transpose(*np.argsort(world_order(affine)), *range(3, array.ndim))


def _carried(layer: Any, what: str) -> Any:
    ours = layer.metadata.get(KEY)
    return ours.get(what) if isinstance(ours, dict) else None


# -- files ------------------------------------------------------------------------------------------------------------


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
    if array.ndim != 3:
        raise InvalidInput(
            f"{path.name} has {array.ndim} dimensions and no gradient table; put its bval and bvec files beside it "
            "if it is a diffusion scan"
        )
    keywords: dict[str, Any] = {"metadata": {"path": str(path)}}
    return volume_layer(array, affine, name, **keywords)


def write_image(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:
    """Write an image or labels layer as NIfTI (napari's writer contribution); returns the path."""
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


def _last_three(matrix: Array) -> Array:
    """The part of a layer's matrix that moves its last three axes, 4 x 4."""
    part = np.eye(4)
    part[:3, :3], part[:3, 3] = matrix[-4:-1, -4:-1], matrix[-4:-1, -1]
    return part


# -- sample data ------------------------------------------------------------------------------------------------------


def brain_sample_layers() -> list[LayerData]:
    """Return the brain phantom's diffusion scan (napari's sample-data contribution)."""
    from napari_gpubio.tracts.phantom import load_brain_phantom

    return [scan_layer(load_brain_phantom(), "brain phantom")]


def ring_sample_layers() -> list[LayerData]:
    """Return the FA and direction maps of an analytic ring-shaped bundle (napari's sample-data contribution)."""
    from napari_gpubio.tracts.phantom import ring_field

    field = ring_field()
    return [map_layer(field, "FA", "ring", visible=False), map_layer(field, "DEC", "ring")]
