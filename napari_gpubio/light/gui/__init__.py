"""The dock widget of the light engine."""

from napari_gpubio.light.gui.panel import LightPanel

__all__ = ["LightPanel"]
