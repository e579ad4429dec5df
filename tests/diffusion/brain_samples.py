"""The brain phantom with every second or third voxel along each axis, which takes a fraction of the time."""

import dataclasses
import functools

import numpy as np

from napari_gpubio.diffusion import DiffusionScan
from napari_gpubio.diffusion.phantom import load_brain_phantom


@functools.cache
def coarse_brain(every: int = 2) -> DiffusionScan:
    """The scan; it comes from no file."""
    scan = load_brain_phantom()
    data = np.ascontiguousarray(scan.data[::every, ::every, ::every])
    data.flags.writeable = False
    return dataclasses.replace(scan, data=data, affine=scan.affine @ np.diag([every, every, every, 1.0]), path=None)
