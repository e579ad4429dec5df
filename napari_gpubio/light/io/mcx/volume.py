"""The volume of an MCX file: an array in the JSON, or a file beside it."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, check_declared_size, one_volume, read_volume
from napari_gpubio.light.io.mcx.jdata import decode_array, is_array, shown
from napari_gpubio.light.io.mcx.sections import Section, load_json
from napari_gpubio.light.io.mcx.shapes import empty_grid, rasterize

Array = npt.NDArray[Any]
_LABELS = {"byte": "<u1", "short": "<u2", "integer": "<u4"}
CONTINUOUS = {"mua_float": 1, "muamus_float": 2}  # coefficients in a voxel
_OTHER = {
    "svmc": "voxels split by a plane",
    "mixlabel": "two labels in a voxel",
    "labelplus": "a property in each voxel beside the label",
    "muamus_half": "coefficients in half precision; save them as muamus_float",
    "muamus_short": "coefficients as gray levels; save them as muamus_float",
    "asgn_byte": "four properties as gray levels; save them as muamus_float",
    "asgn_float": "four properties in each voxel; save them as muamus_float",
}


def read_volume_file(
    path: Path, form: str, dim: Sequence[int] | None, *, from_zero: bool
) -> tuple[Array, tuple[str, ...]]:
    """Read a volume: raw values, NIfTI (``.nii``, ``.nii.gz``), JNIfTI (``.jnii``), or a list of shapes (``.json``).

    Parameters
    ----------
    path
        The file.
    form
        MCX's name of what is in a voxel (``MediaFormat``), for raw values.
    dim
        Dimensions; raw values need them, and others must agree with them.
    from_zero
        Whether the positions of shapes count from 0.

    Returns
    -------
    volume
        Labels, shape (X, Y, Z); or coefficients, 1/mm, shape (X, Y, Z, 1 or 2).
    notes
        What a person should know.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of the wrong size or of another kind.
    """
    path, name = existing_file(path), path.name.lower()
    notes: tuple[str, ...] = ()
    if name.endswith(".json"):
        return _shapes_file(path, dim, from_zero=from_zero), notes
    if name.endswith(NIFTI_SUFFIXES):
        volume = read_volume(path)[0]
        notes = (f"The affine of {path.name} is not used: MCX counts in voxels.",)
    elif name.endswith(".jnii"):
        volume = one_volume(_jnifti(path), path.name)
    elif name.endswith((".bnii", ".hdr", ".img", ".inp")):
        raise InvalidInput(f"{path.name} cannot be read here; convert it to NIfTI (.nii, .nii.gz)")
    else:
        return _raw(path, form, dim), notes
    if dim is not None and volume.shape != tuple(dim):
        raise InvalidInput(f"{path.name} has shape {volume.shape} and Domain.Dim is {list(dim)}; make them the same")
    return _checked_labels_format(volume, form), notes


def volume_of_array(node: Mapping[str, Any], form: str) -> Array:
    """Return the volume of an array in the JSON; the result and the errors are those of `read_volume_file`.

    Labels have three dimensions; coefficients (``mua_float``, ``muamus_float``) have a last one for the two.
    """
    volume = decode_array(node, "Shapes")
    if form not in CONTINUOUS:
        if volume.dtype.kind == "f":
            raise InvalidInput(f"Shapes has values of type {volume.dtype} and MediaFormat is {form!r}; give integers")
        return one_volume(_checked_labels_format(volume, form), "Shapes")
    values = volume.reshape(*volume.shape, 1) if volume.ndim == 3 else volume
    if values.ndim != 4 or values.shape[-1] != CONTINUOUS[form] or values.dtype.kind != "f":
        raise InvalidInput(
            f"Shapes has shape {volume.shape} of type {volume.dtype}; {form} needs single, (x, y, z, "
            f"{CONTINUOUS[form]})"
        )
    return values


def _checked_labels_format(volume: Array, form: str) -> Array:
    if form in CONTINUOUS or form in _OTHER:
        raise InvalidInput(f"Domain.MediaFormat is {form!r}, {_told(form)}; give labels here (byte, short or integer)")
    if form not in _LABELS:
        raise InvalidInput(f"Domain.MediaFormat is {shown(form)}; give one of {', '.join([*_LABELS, *CONTINUOUS])}")
    return volume


def _told(form: str) -> str:
    return _OTHER.get(form, "coefficients voxel by voxel")


def _raw(path: Path, form: str, dim: Sequence[int] | None) -> Array:
    """Raw values, the first axis fastest."""
    if form not in CONTINUOUS:
        _checked_labels_format(np.empty(0), form)
    if dim is None:
        raise InvalidInput(f"Domain.Dim is missing; {path.name} has raw values and does not tell its dimensions")
    empty_grid(dim)
    dtype, each = ("<f4", CONTINUOUS[form]) if form in CONTINUOUS else (_LABELS[form], 1)
    count = math.prod(dim) * each
    needed = count * np.dtype(dtype).itemsize
    check_declared_size(path, 0, needed)
    if (size := path.stat().st_size) != needed:
        raise InvalidInput(
            f"{path.name} has {size} bytes; Domain.Dim {list(dim)} in the format {form!r} needs {needed}: correct one "
            "of them"
        )
    values = np.fromfile(path, dtype).reshape((each, *dim), order="F")
    return np.moveaxis(values, 0, -1) if form in CONTINUOUS else values[0]


def _shapes_file(path: Path, dim: Sequence[int] | None, *, from_zero: bool) -> Array:
    shapes = Section("", load_json(path)).get("Shapes")
    if not isinstance(shapes, list):
        raise InvalidInput(f"{path.name}: Shapes is {shown(shapes)}; give a list of shapes")
    return rasterize(shapes, dim, from_zero=from_zero)


def _jnifti(path: Path) -> Array:
    data = Section("", load_json(path)).get("NIFTIData")
    if not is_array(data):
        raise InvalidInput(f"{path.name}: NIFTIData is {shown(data)}; an array with _ArraySize_ is needed")
    return decode_array(data, "NIFTIData")
