"""The dock widget "Laser speckle"."""

from napari_gpubio.speckle.gui.panel import SpecklePanel

__all__ = ["SpecklePanel"]
