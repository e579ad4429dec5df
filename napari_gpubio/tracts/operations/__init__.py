"""The verbs of tracts: operations on diffusion scans, tensors, orientation distributions, regions and fibers."""

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
    "OpenScan",
    "OpenTensors",
    "OpenTractogram",
    "ScanWithoutNoise",
    "SphereRegion",
    "TensorsWithMaps",
]
