"""Closed loops: points that repeat and loops that repeat are taken out."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def without_repeats(points: Array) -> Array:
    """The points of a loop, shape (N, 2) or (N, 3), without those that repeat the one before them."""
    return points[(points != following(points)).any(axis=1)]


def following(points: Array) -> Array:
    """The point after each one; after the last comes the first; much faster than ``numpy.roll``."""
    return np.concatenate([points[1:], points[:1]])


def without_duplicates(loops: Iterable[Array]) -> tuple[Array, ...]:
    """Loops of one plane, each kept once: two copies of the same loop would cancel by the even-odd rule."""
    parts = tuple(loops)
    return parts if len(parts) < 2 else tuple({_identity(loop): loop for loop in parts}.values())


def _identity(loop: Array) -> bytes:
    """The same for loops that differ only in where they start and which way they run."""
    first = int(np.lexsort((loop[:, 1], loop[:, 0]))[0])
    forward = np.roll(loop, -first, axis=0)
    backward = np.roll(forward[::-1], 1, axis=0)
    return min(forward.tobytes(), backward.tobytes())
