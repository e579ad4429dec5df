"""Denoising of Monte Carlo fluence from two half-buffers.

From the fluence of even and of odd photons to a clean volume in one call::

    result = denoise_fluence(even, odd)
    result.image, result.noise, result.photon_multiplier
"""

from napari_gpubio.denoise.fluence.model import FluenceResult, FluenceSettings
from napari_gpubio.denoise.fluence.run import denoise_fluence, denoise_fluence_steps

__all__ = ["FluenceResult", "FluenceSettings", "denoise_fluence", "denoise_fluence_steps"]
