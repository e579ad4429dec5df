"""What denoised images say of themselves."""

from collections.abc import Iterator

import numpy as np

from napari_gpubio.core.describe import Fact, Item, Slices, describes, description
from napari_gpubio.denoise.fluence.model import FluenceResult
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.volumes import DenoisedVolume


@describes(DenoiseResult, FluenceResult)
def _result(one: DenoiseResult | FluenceResult) -> Iterator[Item]:
    if isinstance(one, FluenceResult):
        yield Fact("gain of signal over error", one.snr_gain_db, "dB")
    else:
        yield Fact("signal over noise before", one.signal_to_noise_db, "dB")
    affine = np.diag([*np.resize(one.parameters.get("voxel_size_mm", 1.0), 3), 1.0])
    axes = (*"xyz", "volume")[: one.image.ndim]
    yield Slices("denoised", one.image, affine, axes=axes, error=one.noise if isinstance(one, FluenceResult) else None)
    yield Slices("standard deviation of the noise", one.noise, affine, axes=axes, style="heat")


@describes(DenoisedVolume)
def _volume(one: DenoisedVolume) -> Iterator[Item]:
    for name in ("denoised", "noise", "residual"):
        yield Fact("volume", name)
        yield from description(getattr(one, name))
