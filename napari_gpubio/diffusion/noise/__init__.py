"""Noise of a diffusion scan: taken out by Marchenko-Pastur PCA, and its level.

MPPCA may be covered by patents (US 10,698,065); check before commercial use.
"""

from napari_gpubio.diffusion.noise.model import DenoisedScan, ResidualRatios
from napari_gpubio.diffusion.noise.rician import gaussian_noise, rician_corrected
from napari_gpubio.diffusion.noise.run import denoise_scan, denoise_scan_steps, needed_memory
from napari_gpubio.diffusion.noise.settings import NoiseSettings

__all__ = [
    "DenoisedScan",
    "NoiseSettings",
    "ResidualRatios",
    "denoise_scan",
    "denoise_scan_steps",
    "gaussian_noise",
    "needed_memory",
    "rician_corrected",
]
