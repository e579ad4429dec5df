"""The dock widget "Fiber orientations": FODs of a scan or a file, and their glyphs on the slice."""

from napari_gpubio.diffusion.gui.fods.panel import FodPanel

__all__ = ["FodPanel"]
