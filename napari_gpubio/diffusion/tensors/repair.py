"""Make tensors positive definite, which tracking needs."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_PIECE = 8192  # tensors at a time, so that they stay in the processor's cache


def repair_tensors(
    tensors: Array, mask: npt.NDArray[np.bool_], floor_mm2_per_s: float = 1e-6
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Raise low eigenvalues to a floor, so that every tensor inside the mask is positive definite.

    Returns a copy, zero outside the mask, and the voxels that were repaired, shape (X, Y, Z).
    """
    copy = np.where(mask[..., None], tensors, 0)
    inside = copy[mask]
    low = repair_rows(inside, floor_mm2_per_s)
    copy[mask] = inside
    repaired = np.zeros(mask.shape, bool)
    repaired[mask] = low
    return copy, repaired


def repair_rows(tensors: Array, floor: float) -> npt.NDArray[np.bool_]:
    """Raise eigenvalues of tensors (M, 6) to a floor, in place; return which tensors were repaired, shape (M,)."""
    from napari_gpubio.diffusion.kernels.tensors.cpu import compose, eigen_decompose

    low = np.zeros(len(tensors), bool)
    bound = tensors.dtype.type(floor)
    for first in range(0, len(tensors), _PIECE):
        part = tensors[first : first + _PIECE]
        low[first : first + _PIECE] = ~_surely_above(part, bound)
    if low.any():
        values, vectors = eigen_decompose(tensors[low])
        below = values[:, 2] < bound
        low[low] = below
        if below.any():
            tensors[low] = compose(np.maximum(values[below], floor), vectors[below])
    return low


def _surely_above(tensors: Array, floor: float) -> npt.NDArray[np.bool_]:
    """Whether all eigenvalues are above a floor by more than rounding: Sylvester's criterion for d - floor I.

    It costs much less than the eigenvalues, and nearly all tensors meet it; the others need a closer look.
    """
    d = np.ascontiguousarray(tensors.T, np.float64)
    x, y, z = d[0] - floor, d[1] - floor, d[2] - floor
    size = x + y + z  # larger than any entry of a positive definite matrix
    minor = x * y - d[3] * d[3]
    determinant = z * minor - d[5] * (x * d[5] - d[3] * d[4]) + d[4] * (d[3] * d[5] - y * d[4])
    return np.asarray((x > 0.0) & (minor > 1e-12 * size * size) & (determinant > 1e-12 * size * size * size))
