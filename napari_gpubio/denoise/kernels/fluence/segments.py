"""How far the segments of equal label reach along the lines of a volume."""

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
FARTHEST = 255


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _measure(labels: npt.NDArray[np.int64], below: Bytes, above: Bytes) -> None:
    """Voxels of the same label below and above each voxel of (before, line, behind), up to `FARTHEST`."""
    before, n, behind = labels.shape
    for plane in range(before):
        for i in range(1, n):
            for k in range(behind):
                if labels[plane, i, k] == labels[plane, i - 1, k]:
                    below[plane, i, k] = min(FARTHEST, below[plane, i - 1, k] + 1)
        for i in range(n - 2, -1, -1):
            for k in range(behind):
                if labels[plane, i, k] == labels[plane, i + 1, k]:
                    above[plane, i, k] = min(FARTHEST, above[plane, i + 1, k] + 1)


def as_lines(volume: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """A view of a volume as (before, line along the axis, behind)."""
    return volume.reshape((int(np.prod(volume.shape[:axis])), volume.shape[axis], -1))


def measure_segments(labels: npt.NDArray[np.int64]) -> Bytes:
    """For each axis, the voxels of the same label below and above each voxel, without a gap: (3, 2, X, Y, Z)."""
    reach = np.zeros((3, 2, *labels.shape), np.uint8)
    for axis in range(3):
        _measure(as_lines(labels, axis), as_lines(reach[axis, 0], axis), as_lines(reach[axis, 1], axis))
    return reach
