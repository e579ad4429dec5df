"""The verbs of diffusion MRI: operations on scans, tensors, FODs, fixels and regions."""

from napari_gpubio.diffusion.operations.deconvolution import (
    Deconvolve,
    DeconvolveTissues,
    EstimateResponse,
    EstimateTissueResponses,
    FindPeaks,
    OpenResponse,
    Peaks,
    TissueFods,
    TissueResponses,
)
from napari_gpubio.diffusion.operations.fods import OpenFixels, OpenFods
from napari_gpubio.diffusion.operations.held import HeldAtlas, HeldFixels, HeldFods, HeldRegion, HeldScan, HeldTensors
from napari_gpubio.diffusion.operations.noise import Mppca, ScanWithoutNoise
from napari_gpubio.diffusion.operations.regions import BoxRegion, OpenAtlas, OpenRegion, SphereRegion
from napari_gpubio.diffusion.operations.scans import OpenScan
from napari_gpubio.diffusion.operations.tensors import FittedTensors, FitTensors, OpenTensors, TensorsWithMaps

__all__ = [
    "BoxRegion",
    "Deconvolve",
    "DeconvolveTissues",
    "EstimateResponse",
    "EstimateTissueResponses",
    "FindPeaks",
    "FitTensors",
    "FittedTensors",
    "HeldAtlas",
    "HeldFixels",
    "HeldFods",
    "HeldRegion",
    "HeldScan",
    "HeldTensors",
    "Mppca",
    "OpenAtlas",
    "OpenFixels",
    "OpenFods",
    "OpenRegion",
    "OpenResponse",
    "OpenScan",
    "OpenTensors",
    "Peaks",
    "ScanWithoutNoise",
    "SphereRegion",
    "TensorsWithMaps",
    "TissueFods",
    "TissueResponses",
]
