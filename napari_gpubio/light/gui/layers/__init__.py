"""The dock widget "Light in layers"."""

from napari_gpubio.light.gui.layers.panel import LayeredPanel

__all__ = ["LayeredPanel"]
