"""The filter voxel by voxel, straight from its equations in float64: slow, and independent of both backends.

Yuan et al. 2018, equations 1 to 3, with patches and windows as in its code; mixing as in Coupe et al. 2008, with
all eight bands of the periodic bank.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from napari_gpubio.denoise.kernels.anlm.tally import HIGH_PASS, LOW_PASS

Array = npt.NDArray[np.float64]
_LOCAL_MEAN_RADIUS = 1
_PADDING = 12  # zeros behind each line at least, more than the filters reach


def denoise_directly(volume: npt.ArrayLike, search: int, preselection: str) -> Array:
    """Denoise a volume with patches of radius 1 and 2 mixed, Gaussian noise, and the center's weight 1.

    Parameters
    ----------
    volume
        Shape (X, Y, Z).
    search
        Radius of the search window, voxels.
    preselection
        ``"seed"`` or ``"none"``.
    """
    u = np.asarray(volume, np.float64)
    boxes = _patches(u, _LOCAL_MEAN_RADIUS)
    mean, variance = boxes.mean(axis=-1), boxes.var(axis=-1, ddof=1)
    estimates = [np.empty_like(u) for _ in (1, 2)]
    candidates = list(_candidates(u, mean, variance, search, preselection))
    for estimate, radius in zip(estimates, (1, 2), strict=True):
        values, residuals = _patches(u, radius), _patches(u - mean, radius)
        for i, where in candidates:
            estimate[i] = _estimate(u, values, residuals, i, where)
    return mix_directly(*estimates)


def _patches(volume: Array, radius: int) -> Array:
    """The patch around every voxel, mirrored at the borders, shape (X, Y, Z, voxels of a patch)."""
    views = sliding_window_view(np.pad(volume, radius, mode="symmetric"), (2 * radius + 1,) * 3)
    return views.reshape(*volume.shape, -1)


def _candidates(
    u: Array, mean: Array, variance: Array, search: int, preselection: str
) -> Iterator[tuple[tuple[int, ...], tuple[Array, ...]]]:
    """Every voxel, and the indices of those in its window that it may be compared with."""
    for i in np.ndindex(u.shape):
        window = tuple(slice(max(0, n - search), n + search + 1) for n in i)
        chosen = _alike(mean, variance, u.max(), i, window) if preselection == "seed" else np.ones_like(u[window], bool)
        chosen[tuple(n - part.start for n, part in zip(i, window, strict=True))] = False
        found: Any = tuple(index + part.start for index, part in zip(np.nonzero(chosen), window, strict=True))
        yield i, found


def _alike(mean: Array, variance: Array, largest: float, i: tuple[int, ...], window: tuple[slice, ...]) -> Any:
    """Means alike (A), or inverted means (B) and variances (C) alike."""

    def close(one: Any, others: Any, least: float) -> Any:
        return (one > least * others) & (others > least * one)

    a = close(mean[i], mean[window], 0.95)
    b = close(largest - mean[i], largest - mean[window], 0.95)
    c = close(variance[i], variance[window], 0.5)
    return a | (b & c)


def _estimate(u: Array, values: Array, residuals: Array, i: tuple[int, ...], where: Any) -> float:
    """Weighted mean of a voxel and its candidates; the noise is the least distance of residual patches."""
    if not where[0].size:
        return float(u[i])
    noise = np.mean((residuals[where] - residuals[i]) ** 2, axis=-1).min()
    weights = np.exp(-np.mean((values[where] - values[i]) ** 2, axis=-1) / noise)
    return float(((weights * u[where]).sum() + u[i]) / (weights.sum() + 1.0))


def mix_directly(small: Array, large: Array) -> Array:
    """Bands with at least two high-pass axes from the large patch's estimate, the others from the small one's."""
    sizes = [n + n % 2 + _PADDING for n in small.shape]
    behind = [(0, size - n) for n, size in zip(small.shape, sizes, strict=True)]
    padded = [np.pad(np.asarray(volume, np.float64), behind) for volume in (small, large)]
    whole = np.zeros(sizes)
    for letters in itertools.product("LH", repeat=3):
        halves = [analysis(size, letter) for size, letter in zip(sizes, letters, strict=True)]
        band = np.einsum("abc,ia,jb,kc->ijk", padded[letters.count("H") >= 2], *halves, optimize=True)
        whole += np.einsum("ijk,ia,jb,kc->abc", band, *halves, optimize=True)
    mixed = whole[tuple(slice(n) for n in small.shape)]
    return np.where((mixed < 0) & (small >= 0), small, mixed)


def analysis(n: int, letter: str) -> Array:
    """Matrix of one half of the bank, low-pass or high-pass: y[m] = sum over k of h[k] x[(2 m + 5 - k) mod n]."""
    matrix = np.zeros((n // 2, n))
    for m in range(n // 2):
        for k, tap in enumerate(LOW_PASS if letter == "L" else HIGH_PASS):
            matrix[m, (2 * m + 5 - k) % n] += tap
    return matrix
