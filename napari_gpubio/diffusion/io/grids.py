"""Grids that volumes and fibers lie in: of a file, or given as numbers; and whether they are the same."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.mif import MIF_SUFFIXES, read_mif
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import as_many_voxels, checked_affine, voxel_sizes_mm
from napari_gpubio.core.volumes import has_orientation, nifti_affine, open_nifti

Array = npt.NDArray[Any]
Reference = str | os.PathLike[str] | tuple[npt.ArrayLike, tuple[int, int, int]]


class Grid(NamedTuple):
    """The volume that fibers belong to: voxel to world in mm, shape (4, 4), and its dimensions."""

    affine: npt.NDArray[np.float64]
    shape: tuple[int, int, int]


def checked_shape(shape: Any) -> tuple[int, int, int]:
    """Return three positive dimensions; InvalidInput if they are not."""
    sizes = tuple(int(n) for n in shape)
    if len(sizes) != 3 or min(sizes) < 1:
        raise InvalidInput(f"the volume has dimensions {sizes}; give three positive integers")
    return sizes


def reference_grid(reference: Reference) -> Grid:
    """Return the grid of a volume: a path of NIfTI or MRtrix, or (affine, shape).

    InvalidInput if the file cannot be read or the numbers make no grid.
    """
    if isinstance(reference, str | os.PathLike):
        file = existing_file(reference)
        if file.name.lower().endswith(MIF_SUFFIXES):
            volume = read_mif(file)
            return Grid(volume.affine, checked_shape(volume.data.shape[:3]))
        image = open_nifti(file)
        return Grid(nifti_affine(image), checked_shape(image.shape[:3]))
    affine, shape = reference
    return Grid(checked_affine(affine), checked_shape(shape))


def place_in(reference: Reference, shape: tuple[int, ...], affine: Array) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the affine of a reference, with a note, for a volume without an orientation; and whether it has one.

    InvalidInput if it has other voxels.
    """
    grid = reference_grid(reference)
    check_voxels("it", shape, affine, grid.shape, grid.affine)
    note("it has no orientation and was taken voxel by voxel in the reference")
    return grid.affine, isinstance(reference, tuple) or has_orientation(Path(reference))


def check_voxels(what: str, shape: tuple[int, ...], affine: Array, wanted: tuple[int, ...], matrix: Array) -> None:
    """Make sure that a volume has as many voxels of the same sizes as a reference; InvalidInput if not."""
    if not as_many_voxels(shape, affine, wanted, matrix):
        sizes = [" x ".join(f"{size:g}" for size in voxel_sizes_mm(one)) for one in (affine, matrix)]
        raise InvalidInput(
            f"{what} has {tuple(shape[:3])} voxels of {sizes[0]} mm, and the reference {tuple(wanted[:3])} of "
            f"{sizes[1]} mm, so they cannot be taken voxel by voxel; give an image of the same voxels"
        )
