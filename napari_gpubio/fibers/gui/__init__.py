"""The dock widgets of fiber tracking."""

from napari_gpubio.fibers.gui.connectome.panel import ConnectomePanel
from napari_gpubio.fibers.gui.flow.panel import FlowPanel
from napari_gpubio.fibers.gui.routes.panel import ConnectPanel
from napari_gpubio.fibers.gui.tracking_panel import TrackingPanel
from napari_gpubio.fibers.gui.uncertainty.panel import UncertaintyPanel

__all__ = [
    "ConnectPanel",
    "ConnectomePanel",
    "FlowPanel",
    "TrackingPanel",
    "UncertaintyPanel",
]
