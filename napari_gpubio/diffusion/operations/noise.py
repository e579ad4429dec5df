"""The noise of diffusion scans: a verb."""

import functools
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.core.operations.kinds import MadeOf
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.noise.model import DenoisedScan
from napari_gpubio.diffusion.noise.run import denoise_scan_steps
from napari_gpubio.diffusion.noise.settings import NoiseSettings
from napari_gpubio.diffusion.operations.scans import mask_of_scan


@dataclass(frozen=True, eq=False)
class ScanWithoutNoise(MadeOf, main="result"):
    """What `Mppca` makes."""

    original: DiffusionScan
    result: DenoisedScan

    @property
    def scan(self) -> DiffusionScan:
        """The scan without its noise."""
        return self.result.scan

    @property
    def noise(self) -> Volume:
        """Standard deviation of the noise."""
        return self._volume(self.result.noise, "standard deviation of the noise")

    @property
    def rank(self) -> Volume:
        """Number of signal components."""
        return self._volume(self.result.rank, "number of signal components")

    @functools.cached_property
    def residual(self) -> Volume:
        """What was taken away; it must not show anatomy."""
        return self._volume(self.result.residual(self.original), "scan - denoised scan")

    def _volume(self, array: Any, name: str) -> Volume:
        return Volume(array=array, affine=self.original.affine, name=name)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found, in sentences."""
        return self.result.denoised.notes


_MADE = {"scan": DiffusionScan, "noise": Volume, "residual": Volume, "rank": Volume}


@dataclass(frozen=True, kw_only=True)
class Mppca(Operation, verb="mppca", makes=_MADE):
    """Take the noise out of a diffusion scan by Marchenko-Pastur PCA.

    Veraart (2016); before motion correction and any resampling. The gradient table is written beside the result. MPPCA
    may be covered by patents (US 10,698,065); check before commercial use.
    """

    examples = ("mppca dwi.nii.gz --out denoised.nii.gz --noise-out noise.nii.gz --residual-out residual.nii.gz",)
    keeps_parts = "a scan that is denoised in part only fits no model"

    scan: Ref[DiffusionScan] = given("Scan", "Diffusion scan: NIfTI with bval and bvec beside it, or .mif.")
    mask: Ref[Volume] | None = given(
        "Mask", "Voxels to denoise: not 0. By default all that have a signal.", optional=True
    )
    settings: NoiseSettings = part("Noise", "Window, estimator, correction.", default=NoiseSettings())

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, ScanWithoutNoise]:
        """Denoise it."""
        scan = data.scan
        mask = None if data.mask is None else mask_of_scan(data.mask, scan)
        result = yield from denoise_scan_steps(scan, mask, self.settings, **run)
        return ScanWithoutNoise(scan, result)

    def summary(self, made: ScanWithoutNoise) -> Summary:
        """How much noise there was."""
        result = made.result
        noise, rank = (float(np.median(values[result.mask])) for values in (result.noise, result.rank))
        ratio = result.residual_ratio_histogram(made.original).standard_deviation
        voxels, window = int(result.mask.sum()), result.parameters["window"]
        lines = (
            f"{voxels:,} voxels, window {' x '.join(map(str, window))}",
            f"noise: standard deviation {noise:.5g} (median)",
            f"signal components: {rank:g} (median)",
            f"residual / noise: standard deviation {ratio:.3f}",
        )
        numbers = {"voxels": voxels, "window_voxels": window, "noise_sd_median": noise}
        return Summary(lines, {**numbers, "signal_components_median": rank, "residual_over_noise_sd": ratio})
