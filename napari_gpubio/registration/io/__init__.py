"""Files of transforms: ITK and ANTs, FSL's FLIRT, and plain matrices."""

from napari_gpubio.registration.io.transforms import read_transform, write_transform

__all__ = ["read_transform", "write_transform"]
