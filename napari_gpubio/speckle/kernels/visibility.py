"""A(x), the K² at β = 1 of flow whose correlation time is the exposure divided by x, and a table of its inverse."""

import functools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SMALL_X = 1e-3  # below it A is computed from its series, since the numerator cancels
SERIES_BELOW = 0.1  # of K²/β, where exp(-2x) < 1e-8 and x is the root of a quadratic equation
TABLE_STEPS = 1024


class DecayTable(NamedTuple):
    """x and its change from one step to the next, at K²/β = `SERIES_BELOW` to 1, shape (steps + 1, 2).

    ``single`` is for the kernels, which interpolate between steps by cubic polynomials.
    """

    by_steps: npt.NDArray[np.float64]
    single: npt.NDArray[np.float32]


@functools.cache
def decay_table() -> DecayTable:
    """Return the table of the inverse of A; at its last step x is 0."""
    k = np.linspace(SERIES_BELOW, 1.0, TABLE_STEPS + 1)
    x = np.array([_bisected(value) for value in k])
    slope = np.array([1.0 / _slope(value) if value > 0 else -1.5 for value in x])
    table = np.stack([x, slope * (k[1] - k[0])], axis=1)
    return DecayTable(table, np.ascontiguousarray(table, np.float32))


def _bisected(k: float) -> float:
    """Return the root of A(x) = k between 0 and 20."""
    low, high = 0.0, 20.0
    for _ in range(70):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _visibility(middle) < k else (middle, high)
    return 0.0 if k >= 1.0 else 0.5 * (low + high)


def _visibility(x: float) -> float:
    if x < SMALL_X:
        return 1.0 - x * (2.0 / 3.0) + x * x / 3.0
    return (math.expm1(-2.0 * x) + 2.0 * x) / (2.0 * x * x)


def _slope(x: float) -> float:
    """Return dA/dx."""
    if x < SMALL_X:
        return -2.0 / 3.0 + x * (2.0 / 3.0)
    return -(math.expm1(-2.0 * x) + x * math.exp(-2.0 * x) + x) / (x * x * x)
