"""The verbs of fiber tracking."""

from napari_gpubio.fibers.operations.flow import BootstrapFlow, FindRoutes, FlowBetweenRegions
from napari_gpubio.fibers.operations.geodesics import ShootGeodesics
from napari_gpubio.fibers.operations.routes import ConnectRegions
from napari_gpubio.fibers.operations.source_flow import FlowFromSource, TrackAlongRoutes
from napari_gpubio.fibers.operations.tracking import Track, TrackInFixels, TrackInFods
from napari_gpubio.fibers.operations.uncertainty import BootstrapFods, BootstrapTensors

__all__ = [
    "BootstrapFlow",
    "BootstrapFods",
    "BootstrapTensors",
    "ConnectRegions",
    "FindRoutes",
    "FlowBetweenRegions",
    "FlowFromSource",
    "ShootGeodesics",
    "Track",
    "TrackAlongRoutes",
    "TrackInFixels",
    "TrackInFods",
]
