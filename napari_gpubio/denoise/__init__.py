"""Adaptive non-local means for Monte Carlo fluence and MRI (Yuan et al. 2018).

From a noisy volume to a clean one in one call::

    result = denoise(volume)
    result.image, result.noise

and from file to file, with the header kept::

    image = io.read_image("t1.nii.gz")
    result = denoise(image.array, DenoiseSettings(noise_model="rician"), voxel_size_mm=image.voxel_size_mm)
    io.write_image("t1_clean.nii.gz", result.image, image)

The noise of a diffusion scan is that of its scanner, found across its volumes::

    noise.estimate(series).sigma

Fluence whose even and odd photons were kept apart is denoised better::

    halves = light.simulate(head, source, light.LightSettings(halves=True)).half_fluences
    result = denoise_fluence(*halves, labels=head.labels)
"""

from napari_gpubio.denoise import io, noise, samples
from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings, denoise_fluence, denoise_fluence_steps
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.run import denoise, denoise_steps, needed_memory
from napari_gpubio.denoise.settings import DenoiseSettings

__all__ = [
    "DenoiseResult",
    "DenoiseSettings",
    "FluenceResult",
    "FluenceSettings",
    "denoise",
    "denoise_fluence",
    "denoise_fluence_steps",
    "denoise_steps",
    "io",
    "needed_memory",
    "noise",
    "samples",
]
