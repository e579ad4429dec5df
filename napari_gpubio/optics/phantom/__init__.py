"""A head made of formulas, with a source and detectors."""

from napari_gpubio.optics.phantom.head import (
    default_detectors,
    default_source,
    head_phantom,
    load_head_phantom,
    write_head_phantom,
)

__all__ = ["default_detectors", "default_source", "head_phantom", "load_head_phantom", "write_head_phantom"]
