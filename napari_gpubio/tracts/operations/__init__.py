"""The verbs of tracts: operations on diffusion scans, tensors, orientation distributions, regions and fibers."""

from napari_gpubio.tracts.operations.bundles import MeasureBundles, Measured, OpenBundle, ProfileBundles
from napari_gpubio.tracts.operations.connectome import MakeConnectome, MatrixSettings, OpenConnectome
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
from napari_gpubio.tracts.operations.dissection import Dissect, Dissected, FindClusters, Range, Rules
from napari_gpubio.tracts.operations.fibers import FiberFile, Fibers, HeldTractogram, OpenFibers, OpenTractogram
from napari_gpubio.tracts.operations.fods import OpenFixels, OpenFods
from napari_gpubio.tracts.operations.geodesics import ShootGeodesics
from napari_gpubio.tracts.operations.held import HeldAtlas, HeldFixels, HeldFods, HeldRegion, HeldScan, HeldTensors
from napari_gpubio.tracts.operations.noise import Mppca, ScanWithoutNoise
from napari_gpubio.tracts.operations.regions import BoxRegion, OpenAtlas, OpenRegion, SphereRegion
from napari_gpubio.tracts.operations.routes import ConnectRegions
from napari_gpubio.tracts.operations.scans import OpenScan
from napari_gpubio.tracts.operations.tensors import FittedTensors, FitTensors, OpenTensors, TensorsWithMaps
from napari_gpubio.tracts.operations.tracking import Track, TrackInFixels, TrackInFods
from napari_gpubio.tracts.operations.uncertainty import BootstrapFods, BootstrapTensors

__all__ = [
    "BootstrapFods",
    "BootstrapTensors",
    "BoxRegion",
    "ConnectRegions",
    "Deconvolve",
    "DeconvolveTissues",
    "Dissect",
    "Dissected",
    "EstimateResponse",
    "EstimateTissueResponses",
    "FiberFile",
    "Fibers",
    "FindClusters",
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
    "MakeConnectome",
    "MatrixSettings",
    "MeasureBundles",
    "Measured",
    "Mppca",
    "OpenAtlas",
    "OpenBundle",
    "OpenConnectome",
    "OpenFibers",
    "OpenFixels",
    "OpenFods",
    "OpenRegion",
    "OpenResponse",
    "OpenScan",
    "OpenTensors",
    "OpenTractogram",
    "Peaks",
    "ProfileBundles",
    "Range",
    "Rules",
    "ScanWithoutNoise",
    "ShootGeodesics",
    "SphereRegion",
    "TensorsWithMaps",
    "TissueFods",
    "TissueResponses",
    "Track",
    "TrackInFixels",
    "TrackInFods",
]
