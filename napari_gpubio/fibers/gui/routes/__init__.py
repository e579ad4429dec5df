"""The dock widget "Connect regions"."""

from napari_gpubio.fibers.gui.routes.panel import ConnectPanel

__all__ = ["ConnectPanel"]
