"""Other filters, where they can be imported: DIPY, ANTs, BM4D (whose license is non-commercial: a benchmark only)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from common import Array

PACKAGES = {"DIPY": ("dipy", "dipy"), "ANTs": ("ants", "antspyx"), "BM4D": ("bm4d", "bm4d")}  # module, distribution
SEARCH = 3  # voxels, as ours
ANTS_SCALE = 1e12  # ANTs leaves voxels of less than 1e-5 as they are
Denoiser = Callable[[Array, Any], Array]  # (volume, sigma: a number, a map, or None for unknown) -> denoised


def dipy_nlmeans(volume: Array, sigma: Any, *, patch: int = 1, rician: bool = False) -> Array:
    """DIPY's blockwise non-local means, which calls the search radius ``patch_radius``."""
    from dipy.denoise.nlmeans import nlmeans

    level = float(sigma) if np.ndim(sigma) == 0 else np.ascontiguousarray(sigma, np.float64)
    return nlmeans(
        np.ascontiguousarray(volume, np.float64), level, patch_radius=SEARCH, block_radius=patch, rician=rician,
        method="blockwise",
    )  # fmt: skip


def dipy_ascm(volume: Array, sigma: Any, *, rician: bool = False) -> Array:
    """DIPY's adaptive soft coefficient matching: two passes, patch radius 1 and 2, and wavelet mixing."""
    from dipy.denoise.adaptive_soft_matching import adaptive_soft_matching

    small, large = (dipy_nlmeans(volume, sigma, patch=patch, rician=rician) for patch in (1, 2))
    return adaptive_soft_matching(np.ascontiguousarray(volume, np.float64), small, large, float(np.mean(sigma)))


def dipy_estimate(volume: Array) -> float:
    """DIPY's own estimate of the noise of a volume."""
    from dipy.denoise.noise_estimate import estimate_sigma

    return float(np.ravel(estimate_sigma(volume, N=0))[0])


def ants_denoise(volume: Array, *, rician: bool = False) -> Array:
    """ANTs' DenoiseImage with patch radius 1, which estimates the noise itself."""
    import ants

    image = ants.from_numpy(np.ascontiguousarray(volume, np.float32))
    found = ants.denoise_image(image, shrink_factor=1, p=1, r=SEARCH, noise_model="Rician" if rician else "Gaussian")
    return found.numpy()


def bm4d_denoise(volume: Array, sigma: Any) -> Array:
    """BM4D with its normal profile; of a map it takes quotients, since it knows one sigma only."""
    from bm4d import bm4d

    if np.ndim(sigma) == 0:
        return bm4d(np.asarray(volume, np.float64), float(sigma), profile="np")
    return bm4d(np.asarray(volume, np.float64) / sigma, 1.0, profile="np") * sigma
