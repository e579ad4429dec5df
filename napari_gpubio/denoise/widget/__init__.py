"""The dock widget "Denoise"."""

from napari_gpubio.denoise.widget.panel import DenoisePanel

__all__ = ["DenoisePanel"]
