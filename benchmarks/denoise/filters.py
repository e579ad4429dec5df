"""The filters that are compared on fluence: ours, a Gaussian, and peers."""

import importlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from common import Array
from scipy import ndimage

from denoise import peers
from denoise.domains import Pair, Tissue
from denoise.stabilize import on_anscombe
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.run import denoise
from napari_gpubio.denoise.settings import DenoiseSettings

FLUENCE_MODULE = "napari_gpubio.denoise.fluence"
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
        denoise_fluence = importlib.import_module(FLUENCE_MODULE).denoise_fluence
        options = {"labels": tissue.labels, "mueff_per_mm": tissue.mueff_per_mm} if labeled else {}
        both = (pair.first, pair.second) if halves else (pair.whole, None)
        return denoise_fluence(*both, **options, device=device).image

    return apply


def _missing_fluence() -> str | None:
    try:
        found = importlib.import_module(FLUENCE_MODULE)
    except ImportError as error:
        return f"{FLUENCE_MODULE} cannot be imported ({error})"
    return None if hasattr(found, "denoise_fluence") else f"{FLUENCE_MODULE} has no denoise_fluence"


def make_filters(device: Device) -> Mapping[str, Filter]:
    """All filters by name; ours run on the device, peers on the CPU."""
    dipy, ants, bm4d = (peers.missing(name) for name in ("DIPY", "ANTs", "BM4D"))
    no_fluence = _missing_fluence()
    return {
        "Gaussian 0.67, 5x5x5": Filter(gaussian(0.67, 2)),
        "Gaussian 1": Filter(gaussian(1.0, 4)),
        "anlm": Filter(anlm(device)),
        "anlm, Anscombe": Filter(anlm_on_anscombe(device)),
        "fluence": Filter(fluence(device), no_fluence),
        "fluence, no labels": Filter(fluence(device, labeled=False), no_fluence),
        "fluence, one buffer": Filter(fluence(device, halves=False), no_fluence),
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
