"""Marching squares: where a function on a grid is zero, as segments."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def zero_level(values: Array, x: Array, y: Array) -> Array:
    """Segments of the zero level, shape (N, 4): x and y of one end, x and y of the other.

    Between grid points the function is taken to be linear. Every crossing of a grid line ends as many segments as it
    has cells beside it, so the segments close, in whatever order they come.

    Parameters
    ----------
    values
        Shape (X, Y); positive all around the border.
    x, y
        Coordinates of the grid.
    """
    inside = values < 0
    along_x = _crossings(values, inside, x, axis=0)  # (X - 1, Y), x of the crossing or NaN
    along_y = _crossings(values, inside, y, axis=1)  # (X, Y - 1)
    columns, rows = np.meshgrid(np.arange(len(x) - 1), np.arange(len(y) - 1), indexing="ij")
    low_x, low_y = x[columns], y[rows]
    high_x, high_y = x[columns + 1], y[rows + 1]
    ends = np.stack(  # of each cell: on its lower, right, upper and left side
        [
            np.stack([along_x[:, :-1], low_y], axis=-1),
            np.stack([high_x, along_y[1:, :]], axis=-1),
            np.stack([along_x[:, 1:], high_y], axis=-1),
            np.stack([low_x, along_y[:-1, :]], axis=-1),
        ],
        axis=-2,
    )
    crossed = np.isfinite(ends).all(axis=-1)
    used = crossed.any(axis=-1)
    ends, crossed = ends[used], crossed[used]
    two, four = crossed.sum(axis=-1) == 2, crossed.sum(axis=-1) == 4
    single = ends[two][crossed[two]].reshape(-1, 4)
    return np.concatenate([single, ends[four][:, :2].reshape(-1, 4), ends[four][:, 2:].reshape(-1, 4)])


def _crossings(values: Array, inside: Array, coordinates: Array, axis: int) -> Array:
    """Where each grid line between neighbors along an axis is crossed; NaN where it is not."""
    first, second = np.moveaxis(values, axis, 0)[:-1], np.moveaxis(values, axis, 0)[1:]
    changes = np.diff(np.moveaxis(inside, axis, 0), axis=0)
    shape = (-1, *[1] * (values.ndim - 1))
    start, step = coordinates[:-1].reshape(shape), np.diff(coordinates).reshape(shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(changes, start + first / (first - second) * step, np.nan)
    return np.moveaxis(found, 0, axis)
