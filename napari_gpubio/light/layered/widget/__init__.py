"""The dock widget "Light in layers"."""

from napari_gpubio.light.layered.widget.panel import LayeredPanel

__all__ = ["LayeredPanel"]
