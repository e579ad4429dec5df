"""Volumes of a diffusion study, from NIfTI or MRtrix: scalar maps, labels and masks."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import volumes as nifti
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import same_grid
from napari_gpubio.tracts.io.mif import MIF_SUFFIXES, read_mif

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]


def read_volume(path: str | Path) -> tuple[Array, Affine]:
    """Read one three-dimensional volume (a scalar map, labels, a mask) from NIfTI or MRtrix.

    Parameters
    ----------
    path
        A ``.nii``, ``.nii.gz``, ``.mif`` or ``.mif.gz`` file. Further axes of length 1 are dropped.

    Returns
    -------
    array
        Shape (X, Y, Z), any real type, in the machine's byte order.
    affine
        Voxel to world, mm.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, too large for the memory, of another kind, or not three-dimensional.
    """
    array, affine = read_array(path)
    return nifti.one_volume(array, Path(path).name), affine


def read_array(path: str | Path) -> tuple[Array, Affine]:
    """Read the whole array of an image, of any number of dimensions, and its affine (mm); errors as `read_volume`."""
    if not str(path).lower().endswith(MIF_SUFFIXES):
        return nifti.read_array(path)
    image = read_mif(path)
    return image.data, image.affine


def read_mask(path: str | Path, shape: tuple[int, ...], affine: Affine) -> npt.NDArray[np.bool_]:
    """Read a mask that must lie on a given grid; voxels that are not zero are inside.

    Parameters
    ----------
    path
        As for `read_volume`.
    shape, affine
        Grid of the volume that the mask belongs to (voxel to world, mm).

    Returns
    -------
    ndarray of bool
        Shape ``shape[:3]``.

    Raises
    ------
    InvalidInput
        As `read_volume`, or if the grid differs by more than 1e-3 mm or the mask is empty.
    """
    name = Path(path).name
    array, own_affine = read_volume(path)
    if array.shape != tuple(shape[:3]):
        raise InvalidInput(
            f"the mask {name} has shape {array.shape} and the image {tuple(shape[:3])}; resample it to the image"
        )
    if not same_grid(array.shape, own_affine, shape, affine):
        raise InvalidInput(f"the mask {name} lies elsewhere than the image (other affine); resample it to the image")
    mask = np.nan_to_num(array) != 0
    if not mask.any():
        raise InvalidInput(f"the mask {name} is empty; choose one with voxels that are not zero")
    return np.ascontiguousarray(mask)
