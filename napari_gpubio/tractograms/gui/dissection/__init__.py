"""The dock widget "Dissect fibers"."""

from napari_gpubio.tractograms.gui.dissection.panel import DissectionPanel

__all__ = ["DissectionPanel"]
