"""Is the noise of neighboring voxels independent? Interpolation makes it alike, and then PCA takes it for signal.

The signals of all voxels together span few of the dimensions that a series has. What lies along the weakest ones is
noise, an image of which keeps how alike neighbors are: of white noise not at all, after a shift by half a voxel 0.27
(cubic) to 0.50 (linear).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_ENOUGH = 8000  # voxels: correlations are then known to 0.01
_MIN_PAIRS = 1000  # of neighbors, for a correlation to mean anything
_MAX_PRODUCTS = 200_000_000  # of signals, from which components are found
_STEPS, _RIDGE = 12, 1e-12
_WEAKEST = 8  # one in so many components is taken for noise


def neighbor_correlations(data: Array, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return the correlation of the noise of neighboring voxels along each axis.

    Parameters
    ----------
    data
        A series with finite signals, shape (X, Y, Z, N).
    mask
        Voxels to look at, shape (X, Y, Z); of many, only those of the middle planes are.

    Returns
    -------
    ndarray
        Shape (3,), from -1 to 1; NaN along axes with fewer than 1000 pairs of neighbors, or where there is no noise.
    """
    planes = _middle_planes(mask)
    inside = mask[:, :, planes]
    rows = data[:, :, planes][inside].astype(np.float64)
    weakest = _weakest_components(rows)
    images = np.zeros((*inside.shape, weakest.shape[1]))
    images[inside] = np.einsum("mn,nk->mk", rows, weakest)
    return np.array([_correlation(np.moveaxis(images, axis, 0), np.moveaxis(inside, axis, 0)) for axis in range(3)])


def correlation_bytes(mask: npt.NDArray[np.bool_], volumes: int) -> int:
    """Bytes that `neighbor_correlations` takes: signals of the voxels that it looks at, in both precisions."""
    return 12 * volumes * int(np.count_nonzero(mask[:, :, _middle_planes(mask)]))


def _weakest_components(rows: Array) -> Array:
    """Orthonormal directions (N, K) along which signals (M, N) have the least power, by inverse iteration.

    Eigenvectors of noise alone are as good as each other, so a few steps do. A matrix product of all rows, or LAPACK's
    eigenvectors, would wake the threads of BLAS, which go on spinning beside the next run.
    """
    volumes = rows.shape[1]
    some = rows[:: max(1, rows.size * volumes // _MAX_PRODUCTS)]
    power = np.einsum("mi,mj->ij", some, some)
    inverse = np.linalg.inv(power / (np.trace(power) or 1.0) + _RIDGE * np.eye(volumes))
    found = np.random.default_rng(0).normal(size=(volumes, max(1, volumes // _WEAKEST)))
    for _ in range(_STEPS):
        found = inverse @ found
        for k in range(found.shape[1]):
            found[:, k] -= found[:, :k] @ (found[:, :k].T @ found[:, k])
            found[:, k] /= np.linalg.norm(found[:, k])
    return found


def _middle_planes(mask: npt.NDArray[np.bool_]) -> slice:
    """Planes along z in the middle of the mask that hold enough voxels, or all of them."""
    counts = np.count_nonzero(mask, axis=(0, 1))
    middle = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    for away in range(len(counts)):
        planes = slice(max(0, middle - away), middle + away + 1)
        if counts[planes].sum() >= _ENOUGH:
            return planes
    return slice(None)


def _correlation(images: Array, inside: npt.NDArray[np.bool_]) -> float:
    """Correlation of voxels with those after them along the first axis."""
    both = inside[:-1] & inside[1:]
    if np.count_nonzero(both) < _MIN_PAIRS:
        return np.nan
    before, after = images[:-1][both], images[1:][both]
    spread = np.sqrt(np.sum(before**2) * np.sum(after**2))
    return float(np.sum(before * after) / spread) if spread > 0 else np.nan
