"""Adaptive non-local means for Monte Carlo fluence and MRI (Yuan et al. 2018).

From a noisy volume to a clean one in one call::

    result = denoise(volume)
    result.image, result.noise
"""

from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.run import denoise, denoise_steps
from napari_gpubio.denoise.settings import DenoiseSettings

__all__ = ["DenoiseResult", "DenoiseSettings", "denoise", "denoise_steps"]
