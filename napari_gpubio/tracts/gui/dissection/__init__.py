"""The dock widget "Dissect fibers"."""

from napari_gpubio.tracts.gui.dissection.panel import DissectionPanel

__all__ = ["DissectionPanel"]
