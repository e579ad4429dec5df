"""Diffusion scans, tensor maps and files as napari layers, without importing napari (see `core.layers`).

A layer carries what the engine needs again later: the diffusion scan or the tensor field.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData, carried, series_layer, volume_layer
from napari_gpubio.core.space import world_order
from napari_gpubio.tracts.io.dwi import find_gradient_files, read_dwi
from napari_gpubio.tracts.io.mif import read_mif
from napari_gpubio.tracts.io.volumes import read_array
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.tensors.scalars import scalar_map

_DISPLAY: dict[str, dict[str, Any]] = {
    "FA": {"contrast_limits": (0.0, 1.0), "colormap": "gray"},
    "MD": {"contrast_limits": (0.0, 3e-3), "colormap": "magma"},
    "AD": {"contrast_limits": (0.0, 3e-3), "colormap": "magma"},
    "RD": {"contrast_limits": (0.0, 3e-3), "colormap": "magma"},
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
    return volume_layer(array, affine, name, metadata={"path": str(path)})


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
