"""Images on the grid of another one: one resampling, whatever the number of transforms."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine, in_grid, voxel_sizes_mm
from napari_gpubio.registration.model import Transform

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
    """
    shape = tuple(int(n) for n in shape[:3])
    dtype = np.result_type(array.dtype, np.float32) if linear else array.dtype
    found = np.zeros((*shape, *array.shape[3:]), dtype)
    slabs = max(1, _BLOCK // max(1, shape[1] * shape[2]))
    for first in range(0, shape[0], slabs):
        part = found[first : first + slabs]
        points = np.moveaxis(np.indices(part.shape[:3], dtype=float), 0, -1)
        points[..., 0] += first
        points = apply_affine(grid, points)
        for one in reversed(transforms):
            points = one.apply(points)
        _look_up(array, apply_affine(np.linalg.inv(affine), points), part, linear=linear)
    return found


def _look_up(array: Array, at: Array, out: Array, *, linear: bool) -> None:
    """Values at positions in voxels, shape (..., 3), into ``out``."""
    nearest = np.floor(at + 0.5).astype(np.int64)
    inside = in_grid(nearest, array.shape[:3])
    if not linear:
        out[inside] = array[tuple(nearest[inside].T)]
        return
    from scipy.ndimage import map_coordinates

    for volume, target in zip(_volumes(array), _volumes(out), strict=True):
        target[inside] = map_coordinates(volume, at[inside].T, order=1, mode="nearest", output=out.dtype)


def _volumes(array: Array) -> list[Array]:
    return [array] if array.ndim == 3 else [array[..., n] for n in range(array.shape[3])]


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
