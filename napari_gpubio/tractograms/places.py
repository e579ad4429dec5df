"""Where fibers lie beside volumes: what tells no place has one only voxel by voxel, in a reference that does."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import apply_affine, checked_affine, same_grid
from napari_gpubio.diffusion.io.grids import check_voxels
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
UNKNOWN_PLACE = {"place": "unknown"}  # parameters of fibers of a file that does not tell where they lie
UNKNOWN_LENGTHS = {"lengths": "voxels"}  # beside it, where it does not tell the size of a voxel either
PLACED_IN = "placed_in"  # the parameter of fibers that `placed_in` has put there: affine and shape


def has_place(fibers: Tractogram) -> bool:
    """Whether it is known where fibers lie in the world; else only their lengths are."""
    return not UNKNOWN_PLACE.items() <= fibers.parameters.items()


def placed_in(fibers: Tractogram, affine: npt.ArrayLike, shape: tuple[int, int, int]) -> Tractogram:
    """Return fibers of unknown place as they lie, voxel by voxel, in a volume (voxel to world, mm; dimensions).

    InvalidInput if it has other voxels than the volume of the fibers, along the axes of the world that they follow.
    """
    from nibabel.orientations import inv_ornt_aff, io_orientation, ornt_transform

    matrix = checked_affine(affine)
    turn = ornt_transform(io_orientation(fibers.affine), io_orientation(matrix))
    own = fibers.affine @ inv_ornt_aff(turn, fibers.shape)
    has = tuple(fibers.shape[axis] for axis in np.argsort(turn[:, 0]))
    check_voxels("the volume of the fibers", has, own, shape, matrix)
    return dataclasses.replace(
        fibers,
        points=apply_affine(matrix @ np.linalg.inv(own), fibers.points).astype(np.float32),
        affine=matrix,
        shape=shape,
        parameters={name: value for name, value in fibers.parameters.items() if name not in UNKNOWN_PLACE}
        | {PLACED_IN: (matrix.tolist(), list(shape))},
    )


def is_placeable(fibers: Tractogram, affine: npt.ArrayLike, shape: tuple[int, int, int]) -> bool:
    """Whether `placed_in` can put fibers into a volume."""
    try:
        placed_in(fibers.part(0, 0), affine, shape)
    except InvalidInput:
        return False
    return True


def in_reference(
    fibers: Tractogram, reference: tuple[npt.NDArray[np.float64], tuple[int, int, int]] | None
) -> Tractogram:
    """Return fibers of unknown place in a reference (affine, shape), or as they are; a note tells what was done."""
    why = "" if UNKNOWN_LENGTHS.items() <= fibers.parameters.items() else ", lengths are right"
    if reference is not None:
        try:
            placed = placed_in(fibers, *reference)
            note("it tells no place of the fibers in the world; they were taken voxel by voxel in the reference")
            return placed
        except InvalidInput as error:
            why += f"; {error}"
    note(f"the place of the fibers in the world is not known{why}")
    return fibers


def check_place(found: Any, shape: tuple[int, ...], affine: Array, what: str, *, is_oriented: bool = True) -> None:
    """Make sure that it is known how fibers, or tensors and the like, lie to a volume.

    Parameters
    ----------
    found
        Fibers, which may be of unknown place; or tensors, FODs or fixels.
    shape, affine
        The volume: dimensions, and voxel to world in mm.
    what
        Name of the volume.
    is_oriented
        Whether the volume tells its place itself.

    Raises
    ------
    InvalidInput
        If one of both does not tell its place, unless the volume is that to which the other belongs.
    """
    fibers = isinstance(found, Tractogram)
    if (is_oriented and not (fibers and not has_place(found))) or same_grid(found.shape, found.affine, shape, affine):
        return
    others = "fibers" if fibers else "image"
    lacking = f"the file of the fibers tells no place in the world, so how they lie to {what}"
    if not is_oriented:
        lacking = f"{what} has no orientation, so how it lies to the {others}"
    raise InvalidInput(
        f"{lacking} is not known; to take it voxel by voxel, give an image that tells its place and has as many voxels "
        "(reference=, --reference, or the button below the inputs)"
    )
