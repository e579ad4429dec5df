"""Make tensors positive definite, which tracking needs."""

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.tracts.kernels.tensors.cpu import compose, eigen3, eigen_decompose

Array = npt.NDArray[Any]


def repair_tensors(
    tensors: Array, mask: npt.NDArray[np.bool_], floor_mm2_per_s: float = 1e-6
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Raise eigenvalues below a floor to the floor, so that every tensor inside the mask is positive definite.

    Parameters
    ----------
    tensors
        Shape (X, Y, Z, 6), mm^2/s. Tensors outside the mask become zero.
    mask
        Shape (X, Y, Z).
    floor_mm2_per_s
        The smallest eigenvalue to leave.

    Returns
    -------
    tensors, repaired
        The mended copy, and the voxels that were mended, shape (X, Y, Z).
    """
    mended = np.where(mask[..., None], tensors, 0)
    inside = mended[mask]
    low = repair_rows(inside, floor_mm2_per_s)
    mended[mask] = inside
    repaired = np.zeros(mask.shape, bool)
    repaired[mask] = low
    return mended, repaired


def repair_rows(tensors: Array, floor: float) -> npt.NDArray[np.bool_]:
    """Raise eigenvalues of tensors (M, 6) to a floor, in place; return which tensors were mended, shape (M,)."""
    low = np.empty(len(tensors), bool)
    with cpu_threads():
        _low_rows(tensors, tensors.dtype.type(floor), low)
    if low.any():
        values, vectors = eigen_decompose(tensors[low])
        tensors[low] = compose(np.maximum(values, floor), vectors)
    return low


@nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def _low_rows(tensors: Array, floor: float, low: Array) -> None:
    """Find the tensors with an eigenvalue below a floor."""
    real = tensors.dtype.type
    for block in nb.prange((len(tensors) + 255) // 256):
        a, v, w, d = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty(6)
        for n in range(256 * block, min(256 * block + 256, len(tensors))):
            for c in range(6):
                d[c] = tensors[n, c]
            low[n] = False
            if not _surely_above(d, floor):
                eigen3(d, a, w, v)
                low[n] = real(w[2]) < floor


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _surely_above(d: Array, floor: float) -> bool:
    """Whether all eigenvalues are above a floor by more than rounding: Sylvester's criterion for d - floor I.

    It costs a thirtieth of the eigenvalues, and nearly all tensors meet it; the others are looked at closely.
    """
    x, y, z = d[0] - floor, d[1] - floor, d[2] - floor
    size = x + y + z  # larger than any entry of a positive definite matrix
    minor = x * y - d[3] * d[3]
    determinant = z * minor - d[5] * (x * d[5] - d[3] * d[4]) + d[4] * (d[3] * d[5] - y * d[4])
    return x > 0.0 and minor > 1e-12 * size * size and determinant > 1e-12 * size * size * size
