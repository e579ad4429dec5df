"""Distances between fibers of the same number of points."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel

Array = npt.NDArray[Any]


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
