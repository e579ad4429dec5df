"""The dock widget "Bundle profiles"."""

from napari_gpubio.tracts.gui.profiles.panel import ProfilesPanel

__all__ = ["ProfilesPanel"]
