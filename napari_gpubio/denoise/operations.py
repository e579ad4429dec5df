"""The verbs of denoising."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.records import (
    Operation,
    Ref,
    Summary,
    given,
)
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import check_unused, param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence.model import PROVABLE_TIMES, FluenceSettings
from napari_gpubio.denoise.parts import Filtering
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.denoise.volumes import DenoisedVolume


@dataclass(frozen=True, kw_only=True)
class _Denoising(Operation):
    """What both verbs take."""

    image: Ref[Volume] = given("Image", "Plane (x, y), volume (x, y, z), series (x, y, z, n).")
    mask: Ref[Volume] | None = given(
        "Mask", "Voxels to denoise: not 0; all others are left unchanged and out of every average.", optional=True
    )
    noise: Ref[Volume] | None = given(
        "Noise map", "Standard deviation of the noise as a map. It lies on the image's grid.", optional=True
    )
    sigma: float | None = param(
        None, "σ",
        "Standard deviation of the noise where it is known, in the unit of the image; for Rician noise, of its real "
        "and imaginary parts. Else it is estimated, Rician noise of a series of 10 or more volumes across all of them.",
        above=0.0,
    )  # fmt: skip
    volumes: tuple[int, int] | None = part(
        "Volumes", "First and last of a series, counted from 0; the others are left unchanged.", default=None
    )
    log10: bool | None = param(None, "log10", "The values are decimal logarithms; the linear values are filtered.")
    skip_gaps: bool = param(False, "Skip gaps", "Leave out voxels that are NaN or infinite.")

    def check(self) -> None:
        """Raise InvalidInput if the noise is given twice."""
        if self.sigma is not None and self.noise is not None:
            raise InvalidInput(f"sigma is {self.sigma:g} and there is a noise map, too; give one of them")

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, DenoisedVolume]:
        """Denoise it."""
        return Filtering.of(vars(self), vars(data)).steps(**run)


@dataclass(frozen=True, kw_only=True)
class Denoise(_Denoising, verb="denoise", makes=dict.fromkeys(("denoised", "noise", "residual"), Volume)):
    """Denoise an image or a series of volumes by adaptive non-local means; the header is kept.

    Ctrl-C ends a run early: what was done is written, and the rest is as it was.
    """

    examples = (
        "denoise t1.nii.gz --out t1_clean.nii.gz --noise-model rician",
        "denoise dwi.nii.gz --out dwi_clean.nii.gz --noise-model rician --mask brain.nii.gz",
    )
    settings: DenoiseSettings = part("Filter", "Patches, search and noise.", default=DenoiseSettings())

    def check(self) -> None:
        """Raise InvalidInput if the noise is given twice, or given and measured."""
        super().check()
        if self.sigma is not None or self.noise is not None:
            check_unused(self.settings, ("noise_from",), "the noise is given")

    def summary(self, result: DenoisedVolume) -> Summary:
        """Signal and noise."""
        found: Any = result.result
        return Summary((), {"signal_to_noise_db": found.signal_to_noise_db, **_numbers(result)})


_FLUENCE = dict.fromkeys(("denoised", "noise", "residual", "scale"), Volume)


@dataclass(frozen=True, kw_only=True)
class DenoiseFluence(_Denoising, verb="denoise-fluence", makes=_FLUENCE):
    """Denoise fluence of a Monte Carlo run, best from two halves of its photons; the header is kept.

    Halves and guide that lie beside the file of a run are used. Ctrl-C ends a run early: what was done is written,
    and the rest is less smooth.
    """

    examples = (
        "denoise-fluence even.nii.gz --second odd.nii.gz --labels labels.nii.gz --out clean.nii.gz",
        "denoise-fluence light.nii.gz --out clean.nii.gz --residual-out residual.nii.gz",
    )
    second: Ref[Volume] | None = given(
        "Second half", "Fluence of the other half of the photons; the image is that of the first.", optional=True
    )
    labels: Ref[Volume] | None = given(
        "Labels", "Refractive index or tissue: nothing is averaged across borders.", optional=True
    )
    guide: Ref[Volume] | None = given(
        "Guide", "What diffusion theory says of the same run (light --halves).", optional=True
    )
    mueff_per_mm: float | None = param(
        None, "µeff", "Effective attenuation, which the cap is relative to.", unit="1/mm", above=0.0
    )
    settings: FluenceSettings = part("Filter", "Scales, and how they are chosen.", default=FluenceSettings())

    def summary(self, result: DenoisedVolume) -> Summary:
        """The gain; part of the error that is left stays hidden in one buffer, and a very small one in two."""
        found: Any = result.result
        numbers = _numbers(result)
        if not np.isfinite(found.snr_gain_db):
            return Summary((), numbers)
        is_bound = not result.has_halves or found.photon_multiplier > PROVABLE_TIMES
        gain = f"{found.snr_gain_db:.1f} dB, as with {found.photon_multiplier:.2g} x the photons"
        numbers |= {"snr_gain_db": found.snr_gain_db, "photon_multiplier": found.photon_multiplier}
        return Summary(
            (f"gain of signal / noise: {'at most ' * is_bound}{gain}",), {**numbers, "is_upper_bound": is_bound}
        )


def _numbers(result: DenoisedVolume) -> dict[str, Any]:
    return {"noise_sd_median": np.nanmedian(result.result.noise), "complete": result.complete}
