"""The dock widget "Connectome"."""

from napari_gpubio.fibers.gui.connectome.panel import ConnectomePanel

__all__ = ["ConnectomePanel"]
