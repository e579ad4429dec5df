"""Reference and speed cases of the light engine, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

from napari_gpubio.light.layered import cases as layered
from napari_gpubio.light.voxels import cases as voxels

CHECKS = voxels.CHECKS + layered.CHECKS
SPEEDS = voxels.SPEEDS + layered.SPEEDS
