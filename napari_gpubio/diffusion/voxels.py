"""Numbers of the voxels of a mask, one row each: taken out of volumes and put back, on all cores."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import in_mask

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def signals_of(data: Array, mask: Mask, volumes: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
    """Return the signals of the voxels of a mask, row by row.

    Parameters
    ----------
    data
        Series of any real type and memory order, shape (X, Y, Z, N).
    mask
        Shape (X, Y, Z).
    volumes
        Which of the N are taken, shape (V,).

    Returns
    -------
    ndarray
        Shape (M, V), in C order of the voxels, its own memory.

    Raises
    ------
    ValueError
        If the mask is of another shape than the volumes.
    """
    from napari_gpubio.core.jit import run_blocks

    if mask.shape != data.shape[:3]:
        raise ValueError(f"the mask has shape {mask.shape} and the volumes {data.shape[:3]}")
    some = not np.array_equal(volumes, np.arange(data.shape[3]))  # picking them costs a copy
    first = _first_rows(mask)
    signals = np.empty((first[-1], len(volumes)), np.float32)

    def take(start: int, stop: int) -> None:
        for x in range(start, stop):
            rows = data[x][mask[x]]
            signals[first[x] : first[x + 1]] = rows[:, volumes] if some else rows

    run_blocks(take, len(mask))
    return signals


def volume_of(values: Array, mask: Mask) -> Array:
    """Put one number, or row of numbers, into each voxel of a mask, zero elsewhere.

    Parameters
    ----------
    values
        Shape (M, ...), in C order of the voxels.
    mask
        With M voxels, shape (X, Y, Z).

    Returns
    -------
    ndarray
        Shape (X, Y, Z, ...), of the type of the values.

    Raises
    ------
    ValueError
        If there are more or fewer values than voxels.
    """
    from napari_gpubio.core.jit import run_blocks

    volume, first = np.zeros((*mask.shape, *values.shape[1:]), values.dtype), _first_rows(mask)
    if len(values) != first[-1]:
        raise ValueError(f"there are {len(values)} values for the {first[-1]} voxels of the mask")

    def put(start: int, stop: int) -> None:
        for x in range(start, stop):
            volume[x][mask[x]] = values[first[x] : first[x + 1]]

    run_blocks(put, len(mask))
    return volume


def _first_rows(mask: Mask) -> npt.NDArray[np.int64]:
    """Row at which each plane of a mask begins, and their number, shape (X + 1,)."""
    return np.concatenate([[0], np.cumsum(np.count_nonzero(mask, axis=(1, 2)))])


def voxels_to_draw(voxels: npt.ArrayLike, mask: Mask, most: int, what: str) -> npt.NDArray[np.int64]:
    """Return those of some voxels (M, 3) that lie in a mask, to be drawn as glyphs of what is there (``tensors``).

    Raises
    ------
    InvalidInput
        If there is none, or more than ``most``.
    """
    at: npt.NDArray[np.int64] = np.atleast_2d(np.asarray(voxels, np.int64))
    at = at[in_mask(at, mask)]
    if not len(at):
        raise InvalidInput(f"there are no {what} here; move to a place inside the brain")
    if len(at) > most:
        raise InvalidInput(
            f"{what} of {len(at)} voxels are too many to draw; choose a region with at most {most} voxels"
        )
    return at
