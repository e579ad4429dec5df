"""The dock widget "Dose-volume histogram"."""

from napari_gpubio.dose.gui.panel import DosePanel

__all__ = ["DosePanel"]
