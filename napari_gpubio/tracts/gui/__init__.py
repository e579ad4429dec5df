"""The dock widgets of the tracts engine."""

from napari_gpubio.tracts.gui.connectome import ConnectomePanel
from napari_gpubio.tracts.gui.dissection import DissectionPanel
from napari_gpubio.tracts.gui.fods import FodPanel
from napari_gpubio.tracts.gui.profiles import ProfilesPanel
from napari_gpubio.tracts.gui.routes import ConnectPanel
from napari_gpubio.tracts.gui.tensor_panel import TensorPanel
from napari_gpubio.tracts.gui.tracking_panel import TrackingPanel
from napari_gpubio.tracts.gui.uncertainty import UncertaintyPanel

__all__ = [
    "ConnectPanel",
    "ConnectomePanel",
    "DissectionPanel",
    "FodPanel",
    "ProfilesPanel",
    "TensorPanel",
    "TrackingPanel",
    "UncertaintyPanel",
]
