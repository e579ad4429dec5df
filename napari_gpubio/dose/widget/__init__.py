"""The dock widget "Dose-volume histogram"."""

from napari_gpubio.dose.widget.panel import DosePanel

__all__ = ["DosePanel"]
