"""The dock widget "Connect regions"."""

from napari_gpubio.tracts.gui.routes.panel import ConnectPanel

__all__ = ["ConnectPanel"]
