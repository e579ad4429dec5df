"""What a tournament does with volumes, voxel by voxel (Numba), the counterpart of ``fluence.cu``.

The same names, the same order of operations. Volumes are of shape (rows, n), both halves of shape (2, rows, n).
"""

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_jit_inline = nb.njit(cache=True, nogil=True, error_model="numpy", inline="always")
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
_F = np.float32
_ZERO, _QUARTER, _HALF, _ONE = _F(0.0), _F(0.25), _F(0.5), _F(1.0)
_LARGEST = _F(1e30)  # of differences of errors
_FAINT = _F(1e-28)  # of volumes near 1: less counts as nothing, since a GPU has no denormal numbers and a CPU has


@_jit_inline
def _corrected(p: np.float32, q: np.float32) -> np.float32:
    """p^2 / q, or p where that is not safe, or 0 where it is faint."""
    is_safe = (p > _ZERO) & (q > _QUARTER * p)
    ratio = p / q if is_safe else _ONE
    estimate = p * ratio
    return estimate if estimate > _FAINT else _ZERO


@_jit_parallel
def correct(again: Array, pilot: Array) -> None:
    """Make the estimate pilot^2 / again of both."""
    for row in nb.prange(len(again)):
        p, q = pilot[row], again[row]
        for k in range(len(p)):
            q[k] = _corrected(p[k], q[k])


@_jit_inline
def _error(
    estimates: tuple[np.float32, np.float32], halves: tuple[np.float32, np.float32], inverse: np.float32, noise: Any
) -> np.float32:
    """Relative squared error: weighted variance, and the product of what both halves say of the bias."""
    spread = (estimates[0] - estimates[1]) * inverse
    bias = ((estimates[0] - halves[0]) * inverse) * ((estimates[1] - halves[1]) * inverse)
    return noise * (spread * spread) + bias


@_jit_inline
def _bounded(difference: np.float32) -> np.float32:
    """A number that can be smoothed: where the reference is next to nothing, errors may be infinite."""
    if difference < -_LARGEST:
        return -_LARGEST
    return difference if difference <= _LARGEST else _LARGEST


@_jit_parallel
def judge(
    again: Array, pilot: Array, halves: Array, holder: Array, reference: Array, noise: np.float32, difference: Array
) -> None:
    """Make estimates of both halves, and find the error of the challenger less that of the holder, for every voxel.

    Parameters
    ----------
    again
        The pilot smoothed once more, shape (2, rows, n), and what the estimates take the place of.
    pilot, halves, holder
        The halves smoothed once, the halves, and what the holder makes of them, of the same shape.
    reference
        What errors are relative to, above 0, shape (rows, n).
    noise
        A quarter of the weight of the variance.
    difference
        Where the difference goes, shape (rows, n).
    """
    for row in nb.prange(len(reference)):
        for k in range(reference.shape[1]):
            inverse = _ONE / reference[row, k]
            both = halves[0, row, k], halves[1, row, k]
            new = _corrected(pilot[0, row, k], again[0, row, k]), _corrected(pilot[1, row, k], again[1, row, k])
            again[0, row, k], again[1, row, k] = new
            now = _error(new, both, inverse, noise)
            before = _error((holder[0, row, k], holder[1, row, k]), both, inverse, noise)
            difference[row, k] = _bounded((now - before) * np.sqrt(reference[row, k]))


@_jit_parallel
def decide(difference: Array) -> None:
    """1 where the challenger's error is the lower one, else 0."""
    for row in nb.prange(difference.shape[0]):
        for k in range(difference.shape[1]):
            difference[row, k] = _ONE if difference[row, k] < -_FAINT else _ZERO


@_jit_parallel
def hand_over(
    weights: Array,
    limit: Array,
    is_limited: np.int32,
    scale: np.float32,
    challenger: Array,
    holder: Array,
    scales: Array,
) -> None:
    """Let the holder become the challenger, as far as the weights say; nowhere where its scale is beyond a limit."""
    for row in nb.prange(len(weights)):
        for k in range(weights.shape[1]):
            is_forbidden = is_limited != 0 and not scale <= limit[row, k]
            weight = _ZERO if is_forbidden else weights[row, k]
            for half in range(2):
                held = holder[half, row, k]
                held += weight * (challenger[half, row, k] - held)
                holder[half, row, k] = held if abs(held) > _FAINT else _ZERO
            scales[row, k] += weight * (scale - scales[row, k])


@_jit_parallel
def clear_faint(values: Array) -> None:
    """0 where hardly anything is: a choice in the dark may hang on it."""
    for row in nb.prange(values.shape[0]):
        for k in range(values.shape[1]):
            values[row, k] = values[row, k] if abs(values[row, k]) > _FAINT else _ZERO


@_jit_parallel
def average(first: Array, second: Array, out: Array) -> None:
    """Mean of both halves."""
    for row in nb.prange(out.shape[0]):
        for k in range(out.shape[1]):
            out[row, k] = _HALF * (first[row, k] + second[row, k])


@_jit_parallel
def raise_to(values: Array, floor: Array, share: np.float32, least: np.float32) -> None:
    """Raise values to a share of the floor, and to ``least``."""
    for row in nb.prange(values.shape[0]):
        for k in range(values.shape[1]):
            values[row, k] = max(max(values[row, k], share * floor[row, k]), least)


@_jit_parallel
def dispersion(first: Array, second: Array, reference: Array, out: Array) -> None:
    """Variance of the mean of both halves, from their difference, over the reference: nearly even in shot noise."""
    for row in nb.prange(out.shape[0]):
        for k in range(out.shape[1]):
            spread = _HALF * (first[row, k] - second[row, k])
            out[row, k] = spread * (spread / reference[row, k]) if abs(spread) > _FAINT else _ZERO


@_jit_parallel
def standard_error(dispersion: Array, reference: Array) -> None:
    """Turn a dispersion into a standard error."""
    for row in nb.prange(dispersion.shape[0]):
        for k in range(dispersion.shape[1]):
            dispersion[row, k] = np.sqrt(dispersion[row, k]) * np.sqrt(reference[row, k])
