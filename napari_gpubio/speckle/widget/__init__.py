"""The dock widget "Laser speckle"."""

from napari_gpubio.speckle.widget.panel import SpecklePanel

__all__ = ["SpecklePanel"]
