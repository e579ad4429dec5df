"""Lengths of fibers, and distances between fibers of the same number of points, on the CPU (Numba)."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel

Array = npt.NDArray[Any]


@kernel
def find_lengths(start: int, stop: int, points: Any, offsets: Any, lengths: Any) -> None:
    """Length of each fiber from its points (P, 3), in double precision; 0 where there is less than two."""
    for f in range(start, stop):
        total = 0.0
        for p in range(offsets[f], offsets[f + 1] - 1):
            dx = np.float64(points[p + 1, 0]) - np.float64(points[p, 0])
            dy = np.float64(points[p + 1, 1]) - np.float64(points[p, 1])
            dz = np.float64(points[p + 1, 2]) - np.float64(points[p, 2])
            total += math.sqrt(dx * dx + dy * dy + dz * dz)
        lengths[f] = total


@kernel
def join_nearer(start: int, stop: int, lines: Array, leader: int, directed: bool, nearest: Array, owner: Array) -> None:
    """Give each fiber to a leader that is nearer than its present one.

    Parameters
    ----------
    lines
        Shape (F, K, 3), mm.
    leader
        A fiber.
    directed
        Whether fibers run one way only; else a fiber and its reverse are the same.
    nearest, owner
        Distance (mean over the K pairs of points) to the nearest leader so far, and that leader; changed in place.
    """
    points = lines.shape[1]
    for f in range(start, stop):
        same, turned = np.float32(0.0), np.float32(0.0)
        for k in range(points):
            x = lines[f, k, 0] - lines[leader, k, 0]
            y = lines[f, k, 1] - lines[leader, k, 1]
            z = lines[f, k, 2] - lines[leader, k, 2]
            same += np.sqrt(x * x + y * y + z * z)
            x = lines[f, k, 0] - lines[leader, points - 1 - k, 0]
            y = lines[f, k, 1] - lines[leader, points - 1 - k, 1]
            z = lines[f, k, 2] - lines[leader, points - 1 - k, 2]
            turned += np.sqrt(x * x + y * y + z * z)
        distance = (same if directed else min(same, turned)) / np.float32(points)
        if distance < nearest[f]:
            nearest[f] = distance
            owner[f] = leader
