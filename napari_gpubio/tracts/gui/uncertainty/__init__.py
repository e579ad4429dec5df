"""The dock widget "Fiber uncertainty"."""

from napari_gpubio.tracts.gui.uncertainty.panel import UncertaintyPanel

__all__ = ["UncertaintyPanel"]
