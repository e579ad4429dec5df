"""The dock widget "Fiber flow"."""

from napari_gpubio.fibers.gui.flow.panel import FlowPanel

__all__ = ["FlowPanel"]
