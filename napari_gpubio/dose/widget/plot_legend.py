"""Where the legend hides least of the curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_PLACES = tuple((x, y) for y in (0.0, 0.33, 0.66, 1.0) for x in (1.0, 0.75, 0.5, 0.25, 0.0))  # the best ones first
_POINTS = 200  # that a curve is looked at in
_MARGIN = 0.02


def emptiest(curves: Sequence[tuple[Array, Array]], size: tuple[float, float]) -> tuple[float, float]:
    """Return the upper left corner of a box that covers least of the curves.

    Parameters
    ----------
    curves
        Places x and y of each, as shares of the plot from its lower left corner, shape (N,) each.
    size
        Width and height of the box, as shares.

    Returns
    -------
    tuple
        Shares from the upper left corner of the plot.
    """
    if not curves:
        return 1.0 - size[0] - _MARGIN, _MARGIN
    points = np.concatenate([_even(x, y) for x, y in curves])
    free = np.maximum(1.0 - np.array(size) - 2 * _MARGIN, 0.0)
    corners = [np.array(place) * free + _MARGIN for place in _PLACES]
    covered = [int(((points >= corner) & (points <= corner + size)).all(axis=1).sum()) for corner in corners]
    best = corners[int(np.argmin(covered))]
    return float(best[0]), float(best[1])


def _even(x: Array, y: Array) -> Array:
    """Points of a curve in equal steps of its length, from the upper left corner, shape (N, 2)."""
    x, y = x[: len(y)], y[: len(x)]
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    at = np.linspace(0.0, along[-1], _POINTS)
    return np.column_stack([np.interp(at, along, x), 1.0 - np.interp(at, along, y)])
