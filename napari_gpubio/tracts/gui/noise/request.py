"""Denoising a diffusion scan: its inputs, read in the GUI thread, and the run, made in a worker."""

import threading
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.gui.records import output_of, remember
from napari_gpubio.tracts.model import DiffusionScan
from napari_gpubio.tracts.napari_io import DENOISED_PARTS, denoised_layer, of_result
from napari_gpubio.tracts.noise.model import DenoisedScan, ResidualRatios
from napari_gpubio.tracts.noise.run import denoise_steps
from napari_gpubio.tracts.noise.settings import NoiseSettings
from napari_gpubio.tracts.operations.noise import Mppca, ScanWithoutNoise

_OUTPUTS = {"noise σ": "noise", "denoised": "scan", "residual": "residual"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseRequest:
    """Everything that one run needs, read from the panel in the GUI thread.

    ``study``: name of the scan's layer.
    """

    scan: DiffusionScan
    study: str
    settings: NoiseSettings
    device: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseSummary:
    """How much noise was found, and how far what was taken away looks like it.

    ``sigma``: median of the noise level, in units of the signal; ``components``: median number of signal components;
    ``expected``: standard deviation that the ratios of residual and noise should have.
    """

    study: str
    sigma: float
    components: float
    ratios: ResidualRatios
    expected: float

    @property
    def text(self) -> str:
        """The numbers in a line."""
        return (
            f"σ median {short_number(self.sigma, 3)}, signal components median {short_number(self.components)}, "
            f"SD of residual / σ {self.ratios.standard_deviation:.2f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Denoised:
    """Result of one run: layers by their parts, from the bottom to the top."""

    scan: DiffusionScan
    layers: dict[str, LayerData]
    summary: NoiseSummary


def denoised_steps(request: NoiseRequest, stop: threading.Event) -> Generator[Step, None, Denoised | None]:
    """Denoise a scan and make what is shown of it; None if it was stopped, since a part of a scan fits no model."""
    scan = request.scan
    result = yield from denoise_steps(scan, None, request.settings, device=request.device, stop=stop)
    if not result.complete:
        return None
    yield Step(1, 1, "comparing what was taken away with the noise")
    made = Mppca(scan=output_of(scan), settings=request.settings)
    remember(made.output(), ScanWithoutNoise(scan, result), request.device)
    layers = {
        part: of_result(denoised_layer(result, scan, part, request.study), made.output(_OUTPUTS[part]))
        for part in DENOISED_PARTS
    }
    return Denoised(scan=scan, layers=layers, summary=_summary(result, scan, request.study))


def _summary(result: DenoisedScan, scan: DiffusionScan, study: str) -> NoiseSummary:
    return NoiseSummary(
        study=study,
        sigma=float(np.median(result.noise[result.mask])),
        components=float(np.median(result.rank[result.mask])),
        ratios=result.residual_ratio_histogram(scan),
        expected=expected_deviation(result),
    )


def expected_deviation(result: DenoisedScan) -> float:
    """Return the standard deviation that residual / noise should have, over the voxels in which noise was found.

    It is sqrt(1 - k / r) for k signal components and r, the smaller one of the numbers of volumes and of voxels of a
    window: the share of the noise that lies in the other components; NaN if no noise was found.
    """
    found = result.noise > 0
    if not found.any():
        return float("nan")
    smaller = min(result.denoised.data.shape[3], int(np.prod(result.parameters["window"])))
    return float(np.sqrt(1 - result.rank[found].mean(dtype=np.float64) / smaller))
