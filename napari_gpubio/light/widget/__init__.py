"""The dock widgets of the light engine."""

from napari_gpubio.light.widget.panel import LightPanel

__all__ = ["LightPanel"]
