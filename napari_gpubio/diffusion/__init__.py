"""Diffusion MRI: scans, noise, tensors, fiber orientation distributions (FODs) and fixels, and regions.

From a diffusion scan to tensors and FODs in three calls::

    scan = diffusion.io.read_dwi("dwi.nii.gz")
    field = diffusion.fit_tensors(scan)
    fods = diffusion.deconvolve(scan)

`diffusion.noise` takes the noise out of a raw scan. Files are in `diffusion.io`; scalar maps, the brain mask and the
check of the gradient table in `diffusion.tensors`; regions and atlases in `diffusion.regions`; samples with known truth
in `diffusion.phantom`.
"""

from napari_gpubio.diffusion import fods, io, noise, phantom, regions, tensors
from napari_gpubio.diffusion.fods.estimate import estimate_response, estimate_response_steps
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.normalize import normalize_tissues
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.fods.run import deconvolve, deconvolve_steps, find_peaks, find_peaks_steps
from napari_gpubio.diffusion.fods.settings import (
    CsdSettings,
    HighestFa,
    MultiTissueSettings,
    PeakSettings,
    ThreeTissues,
    Tournier,
    TwoTissues,
)
from napari_gpubio.diffusion.fods.tissues import estimate_tissue_responses, estimate_tissue_responses_steps
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.run import fit_tensors, fit_tensors_steps
from napari_gpubio.diffusion.tensors.settings import (
    FitSettings,
    OrdinaryLeastSquares,
    Repaired,
    Unrepaired,
    WeightedLeastSquares,
)

__all__ = [
    "CsdSettings",
    "DiffusionScan",
    "FitSettings",
    "FixelField",
    "FodField",
    "HighestFa",
    "MultiTissueSettings",
    "OrdinaryLeastSquares",
    "PeakSettings",
    "Repaired",
    "Response",
    "TensorField",
    "ThreeTissues",
    "Tournier",
    "TwoTissues",
    "Unrepaired",
    "WeightedLeastSquares",
    "deconvolve",
    "deconvolve_steps",
    "estimate_response",
    "estimate_response_steps",
    "estimate_tissue_responses",
    "estimate_tissue_responses_steps",
    "find_peaks",
    "find_peaks_steps",
    "fit_tensors",
    "fit_tensors_steps",
    "fods",
    "io",
    "noise",
    "normalize_tissues",
    "phantom",
    "regions",
    "tensors",
]
