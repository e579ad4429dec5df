"""The dock widget "Denoise"."""

from napari_gpubio.denoise.gui.panel import DenoisePanel

__all__ = ["DenoisePanel"]
