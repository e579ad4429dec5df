"""The dock widgets of the tracts engine."""

from napari_gpubio.tracts.widget.tensors import TensorPanel
from napari_gpubio.tracts.widget.tracking import TrackingPanel

__all__ = ["TensorPanel", "TrackingPanel"]
