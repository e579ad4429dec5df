"""The filters that are compared on fluence: ours, a Gaussian, and peers, some of them on stabilized variance."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from common import Array, missing
from scipy import ndimage

from denoise import peers
from denoise.domains import Pair, Tissue
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.fluence import denoise_fluence
from napari_gpubio.denoise.run import denoise
from napari_gpubio.denoise.settings import DenoiseSettings

MORE_SIGMA = 1.2  # noise that is correlated in space wants more than its own sigma; this is best for B1
Apply = Callable[[Pair, Tissue], Array]


class Filter(NamedTuple):
    """A filter, or why there is none."""

    apply: Apply  # denoises a run
    missing: str | None = None  # why it cannot, or None


def gaussian(sigma: float, radius: int) -> Apply:
    """A Gaussian, cut off at a radius."""
    return lambda pair, _: ndimage.gaussian_filter(pair.whole.astype(np.float64), sigma, radius=radius)


def anlm(device: Device) -> Apply:
    """Our adaptive non-local means, with its defaults, on linear fluence."""
    return lambda pair, _: denoise(pair.whole, DenoiseSettings(), device=device).image


def anlm_on_anscombe(device: Device) -> Apply:
    """The same on stabilized fluence."""
    return lambda pair, _: on_anscombe(pair, lambda v: denoise(v, DenoiseSettings(), device=device).image)


def fluence(device: Device, *, labeled: bool = True, halves: bool = True) -> Apply:
    """Our filter for fluence, with and without labels, on both halves or on their mean alone."""

    def apply(pair: Pair, tissue: Tissue) -> Array:
        options = {"labels": tissue.labels, "mueff_per_mm": tissue.mueff_per_mm} if labeled else {}
        both = (pair.first, pair.second) if halves else (pair.whole, None)
        return denoise_fluence(*both, **options, device=device).image

    return apply


def make_filters(device: Device) -> Mapping[str, Filter]:
    """All filters by name; ours run on the device, peers on the CPU."""
    dipy, ants, bm4d = (missing(peers.PACKAGES, name) for name in ("DIPY", "ANTs", "BM4D"))
    return {
        "Gaussian 0.67, 5x5x5": Filter(gaussian(0.67, 2)),
        "Gaussian 1": Filter(gaussian(1.0, 4)),
        "anlm": Filter(anlm(device)),
        "anlm, Anscombe": Filter(anlm_on_anscombe(device)),
        "fluence": Filter(fluence(device)),
        "fluence, no labels": Filter(fluence(device, labeled=False)),
        "fluence, one buffer": Filter(fluence(device, halves=False)),
        "DIPY nlmeans, Anscombe": Filter(_dipy(peers.dipy_nlmeans), dipy),
        "DIPY ASCM, Anscombe": Filter(_dipy(peers.dipy_ascm), dipy),
        "ANTs DenoiseImage": Filter(_ants, ants),
        "BM4D, Anscombe": Filter(_bm4d(1.0), bm4d),
        "BM4D, Anscombe, sigma 1.2": Filter(_bm4d(MORE_SIGMA), bm4d),
    }


def _dipy(apply: Callable[[Array, float], Array]) -> Apply:
    return lambda pair, _: on_anscombe(pair, lambda volume: apply(volume, 1.0))


def _bm4d(sigma: float) -> Apply:
    return lambda pair, _: on_anscombe(pair, lambda volume: peers.bm4d_denoise(volume, sigma))


def _ants(pair: Pair, _: Tissue) -> Array:
    return peers.ants_denoise(pair.whole * peers.ANTS_SCALE) / peers.ANTS_SCALE


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
