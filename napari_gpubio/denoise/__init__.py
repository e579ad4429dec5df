"""Adaptive non-local means for Monte Carlo fluence and MRI (Yuan et al. 2018).

From a noisy volume to a clean one in one call::

    result = denoise(volume)
    result.image, result.noise

and from file to file, with the header kept::

    image = open_volume("t1.nii.gz")
    result = denoise_volume(image, DenoiseSettings(noise_model="rician"))
    save_volume(result.denoised, "t1_clean.nii.gz")

The noise of a diffusion scan is that of its scanner, found across its volumes::

    noise.estimate(series).sigma

Fluence whose even and odd photons were kept apart is denoised better::

    halves = light.simulate(head, source, light.LightSettings(halves=True)).half_fluences
    result = denoise_fluence(*halves, labels=head.labels)
"""

from napari_gpubio.core.operations.volumes import Volume, open_volume, save_volume
from napari_gpubio.denoise import noise, samples, values
from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings, denoise_fluence, denoise_fluence_steps
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.run import denoise, denoise_steps, needed_memory
from napari_gpubio.denoise.settings import DenoiseSettings, Large, Mixed, Small
from napari_gpubio.denoise.volumes import DenoisedVolume, Selection, denoise_volume, denoise_volume_steps

__all__ = [
    "DenoiseResult",
    "DenoiseSettings",
    "DenoisedVolume",
    "FluenceResult",
    "FluenceSettings",
    "Large",
    "Mixed",
    "Selection",
    "Small",
    "Volume",
    "denoise",
    "denoise_fluence",
    "denoise_fluence_steps",
    "denoise_steps",
    "denoise_volume",
    "denoise_volume_steps",
    "needed_memory",
    "noise",
    "open_volume",
    "samples",
    "save_volume",
    "values",
]
