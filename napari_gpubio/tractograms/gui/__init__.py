"""The dock widgets of tractograms."""

from napari_gpubio.tractograms.gui.dissection.panel import DissectionPanel
from napari_gpubio.tractograms.gui.profiles.panel import ProfilesPanel

__all__ = [
    "DissectionPanel",
    "ProfilesPanel",
]
