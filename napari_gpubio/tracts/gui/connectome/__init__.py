"""The dock widget "Connectome"."""

from napari_gpubio.tracts.gui.connectome.panel import ConnectomePanel

__all__ = ["ConnectomePanel"]
