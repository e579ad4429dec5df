"""Images on the grid of another one: one resampling, whatever the number of transforms."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine, in_grid, voxel_sizes_mm
from napari_gpubio.registration.model import Transform, Warp

Array = npt.NDArray[Any]
_BLOCK = 1 << 19  # voxels that are looked up together


def resampled(
    array: Array, affine: Array, transforms: Sequence[Transform], shape: Sequence[int], grid: Array, *, linear: bool
) -> Array:
    """Return an image on another grid, 0 where it has no voxel.

    Parameters
    ----------
    array, affine
        The image, shape (X, Y, Z) or (X, Y, Z, N), and its voxel to world, mm.
    transforms
        From the image to the grid, in this order (labels to T1, T1 to scan); each takes points the other way.
    shape, grid
        Of the result, shape (3,), and its voxel to world, mm.
    linear
        Interpolate; False: the nearest voxel, whose number stays as it is, as that of a label must.

    Examples
    --------
    >>> labels = np.array([[[0, 12000]]])
    >>> resampled(labels, np.eye(4), [], (1, 1, 4), np.diag([1, 1, 0.5, 1]), linear=False)
    array([[[    0, 12000, 12000,     0]]])
    """
    x, y, z = (int(n) for n in shape[:3])
    parts, matrix = _parts(affine, transforms, grid)
    found = np.zeros((x, y, z, *array.shape[3:]), np.result_type(array.dtype, np.float32) if linear else array.dtype)
    slabs = max(1, _BLOCK // max(1, y * z))
    for first in range(0, x, slabs):
        part = found[first : first + slabs]
        voxels = np.moveaxis(np.indices(part.shape[:3], dtype=float), 0, -1) + np.array([first, 0, 0])
        for before, warp in parts:
            voxels = warp.moved(apply_affine(before, voxels))
        _look_up(array, apply_affine(matrix, voxels), part, linear=linear)
    return found


def _parts(affine: Array, transforms: Sequence[Transform], grid: Array) -> tuple[list[tuple[Array, Warp]], Array]:
    """What takes voxels of the grid to those of the image: matrices, each with the warp after it, and the last one."""
    parts, matrix = list[tuple[Array, Warp]](), np.asarray(grid, float)
    for one in reversed(transforms):
        for warp in one.warps:
            parts.append((matrix, warp))
            matrix = np.eye(4)
        matrix = one.matrix @ matrix
    return parts, np.linalg.inv(affine) @ matrix


def _look_up(array: Array, at: Array, out: Array, *, linear: bool) -> None:
    """Values at positions in voxels, shape (..., 3), into ``out``."""
    from scipy.ndimage import map_coordinates

    nearest = np.floor(at + 0.5).astype(np.int64)
    inside = in_grid(nearest, array.shape[:3])
    if not linear:
        out[inside] = array[tuple(nearest[inside].T)]
        return
    for n in np.ndindex(*array.shape[3:]):
        values = map_coordinates(array[(..., *n)], at[inside].T, order=1, mode="nearest", output=out.dtype)
        out[(..., *n)][inside] = values


def checkerboard(fixed: Array, moving: Array, affine: Array, blocks_mm: float) -> npt.NDArray[np.float32]:
    """Return blocks of two images on one grid in turn, each from 0 to 1 between its percentiles 1 and 99."""
    blocks = np.maximum(1, np.round(blocks_mm / voxel_sizes_mm(affine)).astype(int))
    i, j, k = np.ix_(*(np.arange(n) // size for n, size in zip(fixed.shape, blocks, strict=True)))
    is_moving = (i + j + k) % 2 == 1
    return np.where(is_moving, _stretched(moving), _stretched(fixed)).astype(np.float32)


def _stretched(values: Array) -> Array:
    inside = values[values != 0]
    low, high = np.percentile(inside, (1, 99)) if inside.size else (0.0, 1.0)
    return np.clip((values - low) / max(high - low, np.finfo(np.float32).tiny), 0, 1)
