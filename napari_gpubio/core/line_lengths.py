"""Lengths of lines through points, on the CPU (Numba)."""

import math
from typing import Any

import numpy as np

from napari_gpubio.core.jit import kernel


@kernel
def find_lengths(start: int, stop: int, points: Any, offsets: Any, lengths: Any) -> None:
    """Length of each line from its points (P, 3), in double precision; 0 where there is less than two."""
    for f in range(start, stop):
        total = 0.0
        for p in range(offsets[f], offsets[f + 1] - 1):
            dx = np.float64(points[p + 1, 0]) - np.float64(points[p, 0])
            dy = np.float64(points[p + 1, 1]) - np.float64(points[p, 1])
            dz = np.float64(points[p + 1, 2]) - np.float64(points[p, 2])
            total += math.sqrt(dx * dx + dy * dy + dz * dz)
        lengths[f] = total
