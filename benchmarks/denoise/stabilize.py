"""Variance stabilization: fluence with Poisson-like noise made fit for filters that expect one sigma everywhere."""

from collections.abc import Callable

import numpy as np
from common import Array
from scipy import ndimage

from denoise.domains import Pair

_PILOT, _SMOOTHING = 2.0, 3.0  # voxels


def unit_of(pair: Pair) -> Array:
    """Variance over mean of the fluence, smoothed: what one count would be if the noise were Poisson's.

    Of a pair of halves, (a - b)^2 / 4 is an unbiased variance of their mean. Both are divided by a smooth pilot before
    they are smoothed and their ratio is taken, so that bright voxels do not speak for dark ones; a ratio taken voxel by
    voxel would be too small, because photons leave paths of different lengths.
    """
    whole = pair.whole.astype(np.float64)
    pilot = ndimage.gaussian_filter(whole, _PILOT)
    weight = np.where(pilot > 0, 1.0 / np.where(pilot > 0, pilot, 1.0), 0.0)
    variance = (pair.first.astype(np.float64) - pair.second) ** 2 / 4
    smooth, mean = (ndimage.gaussian_filter(values * weight, _SMOOTHING) for values in (variance, whole))
    unit = smooth / np.where(mean > 0, mean, 1.0)
    return np.maximum(unit, 1e-6 * unit.max())


def anscombe(counts: Array) -> Array:
    """Anscombe's transform of counts, whose noise has sigma 1."""
    return 2.0 * np.sqrt(counts + 0.375)


def inverse_anscombe(values: Array) -> Array:
    """Mean counts from the mean of their transform (Makitalo and Foi 2011, closed form); 0 below its least."""
    d = np.maximum(values, anscombe(np.float64(0.0)))
    root = np.sqrt(1.5)
    return np.maximum(d**2 / 4 + root / (4 * d) - 11 / (8 * d**2) + 5 * root / (8 * d**3) - 0.125, 0.0)


def on_anscombe(pair: Pair, apply: Callable[[Array], Array]) -> Array:
    """Filter fluence in units in which its noise has sigma 1."""
    unit = unit_of(pair)
    return inverse_anscombe(apply(anscombe(pair.whole / unit)).astype(np.float64)) * unit
