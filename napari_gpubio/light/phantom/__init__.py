"""A head made of formulas, with a source and detectors."""

from napari_gpubio.light.phantom.head import head_phantom, load_head_phantom, write_head_phantom
from napari_gpubio.light.phantom.optodes import default_detectors, default_source

__all__ = ["default_detectors", "default_source", "head_phantom", "load_head_phantom", "write_head_phantom"]
