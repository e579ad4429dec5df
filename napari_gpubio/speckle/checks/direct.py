"""Contrast straight from its definition, in two passes and double precision; and frames that are hard on sums."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Array = npt.NDArray[Any]
SHAPE = (260, 348)


def contrast_directly(frames: Array, window: int, depth: int = 1, step: int = 1) -> Array:
    """Return K of all whole windows, shape (maps, Y - window + 1, X - window + 1)."""
    stack = np.asarray(frames, np.float64)
    stack = stack[None] if stack.ndim == 2 else stack
    windows = sliding_window_view(stack, (depth, window, window))[::step]
    found = np.empty(windows.shape[:3])
    for n, y in np.ndindex(windows.shape[:2]):  # row by row, since windows take their number of samples in memory
        samples = windows[n, y].reshape(windows.shape[2], -1)
        with np.errstate(invalid="ignore"):
            found[n, y] = samples.std(axis=1, ddof=1) / samples.mean(axis=1)
    return found


def _random(bits: int, rows: int = SHAPE[0]) -> Array:
    return np.random.default_rng(1).integers(0, 2**bits, (rows, SHAPE[1]), np.uint16)


def _speckle(mean: float) -> Array:
    return np.minimum(np.random.default_rng(2).exponential(mean, SHAPE), 4095).astype(np.uint16)


def _low_contrast(mean: float, contrast: float, top: int = 4095) -> Array:
    noise = np.random.default_rng(3).standard_normal(SHAPE)
    return np.clip(np.rint(mean * (1.0 + contrast * noise)), 0, top).astype(np.uint16)


# Name, window, and what makes the frame: contrast from high to low, bits from 12 to 16.
HARD_CASES: tuple[tuple[str, int, Callable[[], Array]], ...] = (
    ("12-bit noise, 5 x 5", 5, lambda: _random(12)),
    ("12-bit noise, 7 x 7", 7, lambda: _random(12)),
    ("speckle of mean 800, 7 x 7", 7, lambda: _speckle(800.0)),
    ("K = 0.05 at 3000, 5 x 5", 5, lambda: _low_contrast(3000.0, 0.05)),
    ("K = 0.01 at 3500, 5 x 5", 5, lambda: _low_contrast(3500.0, 0.01)),
    ("K = 0.002 at 3500, 5 x 5", 5, lambda: _low_contrast(3500.0, 0.002)),
    ("16-bit, K = 0.2 at 30000, 5 x 5", 5, lambda: _low_contrast(30000.0, 0.2, 65535)),
    ("16-bit noise, 7 x 7", 7, lambda: _random(16)),
    ("16-bit noise, 31 x 31", 31, lambda: _random(16, 60)),
)
