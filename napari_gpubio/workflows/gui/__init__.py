"""Dock widgets and buttons of what joins engines."""

from napari_gpubio.workflows.gui.bids_panel import BidsPanel

__all__ = ["BidsPanel"]
