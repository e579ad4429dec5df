"""Noise: how its local measure relates to its variance, and the bias of magnitude images.

The filter measures noise by the least mean squared difference between residual patches (image minus local mean) of a
voxel and its candidates (Manjon et al. 2010). In white noise of variance 1 that is 0.84 for patch radius 1 and 1.37 for
radius 2 with search radius 3, and another number for other windows; `calibrate` knows it. Where pre-selection leaves
few candidates the least of them is larger: at a signal / noise of 4 the seed's rule makes the measured variance up to
10 % too large. For magnitudes with less than that, choose no pre-selection, or give the noise.
"""

import functools
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
from scipy.special import i0e, i1e

from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.denoise.kernels.anlm.wavelet import FilterAxis
from napari_gpubio.denoise.kernels.anlm.windows import Windows
from napari_gpubio.denoise.settings import DenoiseSettings

Array = npt.NDArray[Any]
# By patch radius, for search radius 1 to 5: means over at least 200 000 voxels of white noise; standard error 0.3 %.
_MEASURED = {1: (1.237, 0.948, 0.844, 0.778, 0.732), 2: (1.654, 1.433, 1.366, 1.317, 1.285)}
_SIDE = 32  # voxels of the volume that is tried for other windows
_SMOOTHING_TAPS = np.ones((2, 11), np.float32)  # a box of radius 5


def calibrate(windows: Windows, settings: DenoiseSettings) -> tuple[float, ...]:
    """Mean of the local measure of noise in white noise of variance 1, for each patch."""
    search = windows.search[0]
    is_known = windows.search == (search,) * 3 and search <= 5 and settings.preselection != "coupe"
    if is_known and all(patch == (patch[0],) * 3 for patch in windows.patches):
        return tuple(_MEASURED[patch[0]][search - 1] for patch in windows.patches)
    return simulate_measure(windows, settings.preselection)


@functools.lru_cache(maxsize=64)
def simulate_measure(windows: Windows, preselection: str) -> tuple[float, ...]:
    """Filter white noise of variance 1 and return the mean measure of noise; standard error about 1 %."""
    from napari_gpubio.denoise.kernels.anlm import cpu
    from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, Problem

    margins = [search + patch for search, patch in zip(windows.search, windows.largest_patch, strict=True)]
    values = 100.0 + np.random.default_rng(1).standard_normal([_SIDE + 2 * margin for margin in margins])
    problem = Problem(
        values=values.astype(np.float32),
        usable=np.ones(values.shape, np.uint8),
        windows=windows,
        settings=DenoiseSettings(preselection=preselection),
        calibration=(1.0,) * len(windows.patches),
    )
    run = cpu.Run(problem)
    run.advance(0, problem.bricks)
    inner = tuple(slice(margin, margin + _SIDE) for margin in margins)
    sums = [s[inner].astype(np.float64) for s in run.snapshot().sums]
    return tuple(float(s[s < NOTHING / 2].mean()) / n for s, n in zip(sums, windows.patch_sizes, strict=True))


def koay(theta: Array) -> Array:
    """Variance of a Rician magnitude over that of its noise, at signal / noise = theta (Koay and Basser 2006, eq. 17).

    From 2 - pi/2 without signal to 1.
    """
    x = np.square(theta) / 4.0
    bracket = (2.0 + 4.0 * x) * i0e(x) + 4.0 * x * i1e(x)
    return np.asarray(2.0 + 4.0 * x - np.pi / 8.0 * np.square(bracket))


@functools.cache
def _koay_table() -> tuple[Array, Array]:
    """Mean square of a magnitude over its variance, and the variance of the noise over that of the magnitude.

    A magnitude's mean square is theta^2 + 2 in units of the noise's variance, and its variance is `koay`.
    """
    theta = np.linspace(0.0, 30.0, 3001)
    ratio = koay(theta)
    return (np.square(theta) + 2.0) / ratio, 1.0 / ratio


def rician_variance(mean_square: Any, variance: Any, xp: Any = np) -> Any:
    """Variance of the noise from the mean square and the variance of magnitudes, on the host or a GPU; 0 stays 0."""
    is_known = variance > 0
    ratio = mean_square / xp.where(is_known, variance, np.float32(1.0))
    if xp is np:
        factor = np.empty_like(ratio)
        with cpu_threads():
            _look_up(ratio.ravel(), *_koay_table(), factor.ravel())
    else:
        ratios, factors = (xp.asarray(column) for column in _koay_table())
        factor = xp.interp(ratio.ravel(), ratios, factors).reshape(variance.shape).astype(np.float32)
    return xp.where(is_known, variance * factor, np.float32(0.0))


@nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def _look_up(ratio: Array, ratios: Array, factors: Array, out: Array) -> None:
    """The table's factor of each ratio, between its entries along straight lines; NumPy does it on one core only."""
    last = len(ratios) - 1
    for i in nb.prange(len(ratio)):
        x = np.float64(ratio[i])
        below = min(max(int(np.searchsorted(ratios, x, side="right")) - 1, 0), last - 1)
        share = (x - ratios[below]) / (ratios[below + 1] - ratios[below])
        out[i] = factors[below] + min(max(share, 0.0), 1.0) * (factors[below + 1] - factors[below])


def without_bias(mean_square: Any, variance: Any, xp: Any = np) -> Any:
    """Signal from the mean square of Rician magnitudes, sqrt(M2 - 2 sigma^2), 0 where that is not real."""
    return xp.sqrt(xp.maximum(mean_square - (variance + variance), np.float32(0.0)))


def smooth(variance: Any, filter_axis: FilterAxis, xp: Any = np) -> Any:
    """Mean over a box of radius 5 of what is known (above 0), inside the volume; 0 where nothing is near."""
    is_known = variance > 0
    total, known = variance, is_known.astype(np.float32)
    is_whole = bool(is_known.all())
    for axis in range(3):
        total = filter_axis(total, axis, _SMOOTHING_TAPS)
        if not is_whole:
            known = filter_axis(known, axis, _SMOOTHING_TAPS)
    if is_whole:
        known = _voxels_in_box(variance.shape, xp)
    return total / xp.maximum(known, np.float32(1.0))


def _voxels_in_box(shape: tuple[int, ...], xp: Any) -> Any:
    """Voxels of a volume that a box of radius 5 around each of them holds, float32."""
    reach = _SMOOTHING_TAPS.shape[1] // 2
    lines = (np.minimum(np.arange(n), reach) + np.minimum(np.arange(n)[::-1], reach) + 1 for n in shape)
    x, y, z = (xp.asarray(line, np.float32) for line in np.ix_(*lines))
    return x * y * z
