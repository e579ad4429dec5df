"""The verbs of tracts: operations on diffusion scans, tensors, orientation distributions, regions and fibers."""

from napari_gpubio.tracts.operations.deconvolution import (
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
from napari_gpubio.tracts.operations.fibers import OpenTractogram
from napari_gpubio.tracts.operations.fods import OpenFixels, OpenFods
from napari_gpubio.tracts.operations.held import (
    HeldAtlas,
    HeldFixels,
    HeldFods,
    HeldRegion,
    HeldScan,
    HeldTensors,
    HeldTractogram,
)
from napari_gpubio.tracts.operations.noise import Mppca, ScanWithoutNoise
from napari_gpubio.tracts.operations.regions import BoxRegion, OpenAtlas, OpenRegion, SphereRegion
from napari_gpubio.tracts.operations.scans import OpenScan
from napari_gpubio.tracts.operations.tensors import FittedTensors, FitTensors, OpenTensors, TensorsWithMaps

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
    "HeldTractogram",
    "Mppca",
    "OpenAtlas",
    "OpenFixels",
    "OpenFods",
    "OpenRegion",
    "OpenResponse",
    "OpenScan",
    "OpenTensors",
    "OpenTractogram",
    "Peaks",
    "ScanWithoutNoise",
    "SphereRegion",
    "TensorsWithMaps",
    "TissueFods",
    "TissueResponses",
]
