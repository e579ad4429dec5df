"""The dock widget "Bundle profiles"."""

from napari_gpubio.tractograms.gui.profiles.panel import ProfilesPanel

__all__ = ["ProfilesPanel"]
