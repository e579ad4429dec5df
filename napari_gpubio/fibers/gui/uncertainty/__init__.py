"""The dock widget "Fiber uncertainty"."""

from napari_gpubio.fibers.gui.uncertainty.panel import UncertaintyPanel

__all__ = ["UncertaintyPanel"]
