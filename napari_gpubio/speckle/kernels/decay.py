"""A(x) of `napari_gpubio.speckle.indices` and its inverse, for many values (Numba)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel, leaf
from napari_gpubio.speckle.kernels.visibility import SERIES_BELOW, SMALL_X, TABLE_STEPS

Array = npt.NDArray[Any]
_NEWTON_STEPS = 4


@kernel
def fill_visibility(start: int, stop: int, x: Array, out: Array) -> None:
    """Fill A(x)."""
    for i in range(start, stop):
        out[i] = _visibility(x[i])


@kernel
def invert(start: int, stop: int, k2: Array, table: Array, out: Array) -> None:
    """Fill x = T/τ of K²/β: a start from the table, and Newton's steps."""
    for i in range(start, stop):
        out[i] = _inverse(k2[i], table)


@leaf
def _visibility(x: float) -> float:
    if x < SMALL_X:
        return 1.0 - x * (2.0 / 3.0) + x * x / 3.0
    return (np.expm1(-2.0 * x) + 2.0 * x) / (2.0 * x * x)


@leaf
def _slope(x: float) -> float:
    """Return dA/dx."""
    if x < SMALL_X:
        return -2.0 / 3.0 + x * (2.0 / 3.0)
    return -(np.expm1(-2.0 * x) + x * np.exp(-2.0 * x) + x) / (x * x * x)


@leaf
def _inverse(k: float, table: Array) -> float:
    if not 0.0 < k < 1.0:
        return np.inf if k == 0.0 else (0.0 if k >= 1.0 else np.nan)
    if k < SERIES_BELOW:
        return (1.0 + np.sqrt(1.0 - 2.0 * k)) / (2.0 * k)
    at = np.int64((k - SERIES_BELOW) / (1.0 - SERIES_BELOW) * TABLE_STEPS)
    x: float = table[at if at < TABLE_STEPS else TABLE_STEPS - 1, 0]
    for _ in range(_NEWTON_STEPS):
        x = max(0.0, x - (_visibility(x) - k) / _slope(x))
    return x
