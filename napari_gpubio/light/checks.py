"""Reference and speed cases of the light engine, for ``napari-gpubio check`` and ``napari-gpubio bench``."""

from napari_gpubio.light import voxel_checks as voxels
from napari_gpubio.light.layers import checks as layered

CHECKS = voxels.CHECKS + layered.CHECKS
SPEEDS = voxels.SPEEDS + layered.SPEEDS
