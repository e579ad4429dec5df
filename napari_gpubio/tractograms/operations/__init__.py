"""The verbs of tractograms: operations on fibers and regions."""

from napari_gpubio.tractograms.operations.bundles import MeasureBundles, Measured, OpenBundle, ProfileBundles
from napari_gpubio.tractograms.operations.connectome import MakeConnectome, MatrixSettings, OpenConnectome
from napari_gpubio.tractograms.operations.dissection import Dissect, Dissected, FindClusters, Range, Rules
from napari_gpubio.tractograms.operations.fibers import FiberFile, Fibers, HeldTractogram, OpenFibers, OpenTractogram

__all__ = [
    "Dissect",
    "Dissected",
    "FiberFile",
    "Fibers",
    "FindClusters",
    "HeldTractogram",
    "MakeConnectome",
    "MatrixSettings",
    "MeasureBundles",
    "Measured",
    "OpenBundle",
    "OpenConnectome",
    "OpenFibers",
    "OpenTractogram",
    "ProfileBundles",
    "Range",
    "Rules",
]
