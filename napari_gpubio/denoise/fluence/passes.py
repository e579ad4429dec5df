"""What a tournament does with volumes, voxel by voxel (Numba), the twin of ``fluence.cu``.

The same names, the same order of operations. All arrays are of shape (rows, n).
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
_FAINT = _F(1e-28)  # of volumes near 1: less counts as nothing, since a GPU has no denormal numbers and a CPU has


@_jit_parallel
def correct(pilot: Array, again: Array) -> None:
    """Make the estimate pilot^2 / again of both; the pilot where that is not safe, and 0 where that is faint."""
    for row in nb.prange(pilot.shape[0]):
        p, q = pilot[row], again[row]
        for k in range(len(p)):
            is_safe = (p[k] > _ZERO) & (q[k] > _QUARTER * p[k])
            ratio = p[k] / q[k] if is_safe else _ONE
            corrected = p[k] * ratio
            q[k] = corrected if corrected > _FAINT else _ZERO


@_jit_inline
def _error(
    estimates: tuple[np.float32, np.float32], halves: tuple[np.float32, np.float32], inverse: np.float32, noise: Any
) -> np.float32:
    """Relative squared error: weighted variance, and the product of what both halves say of the bias."""
    spread = (estimates[0] - estimates[1]) * inverse
    bias = ((estimates[0] - halves[0]) * inverse) * ((estimates[1] - halves[1]) * inverse)
    return noise * (spread * spread) + bias


@_jit_parallel
def compare(  # noqa: PLR0913 - a kernel
    first: Array,
    second: Array,
    old_first: Array,
    old_second: Array,
    new_first: Array,
    new_second: Array,
    reference: Array,
    noise: np.float32,
    out: Array,
) -> None:
    """Error of the challenger less that of the holder, for every voxel.

    Parameters
    ----------
    first, second
        The halves, shape (rows, n), as all others.
    old_first, old_second, new_first, new_second
        What is made of them by the holder and by the challenger.
    reference
        What errors are relative to, above 0.
    noise
        A quarter of the weight of the variance.
    out
        Where the difference goes.
    """
    for row in nb.prange(reference.shape[0]):
        for k in range(reference.shape[1]):
            inverse = _ONE / reference[row, k]
            both = first[row, k], second[row, k]
            new = _error((new_first[row, k], new_second[row, k]), both, inverse, noise)
            old = _error((old_first[row, k], old_second[row, k]), both, inverse, noise)
            out[row, k] = (new - old) * np.sqrt(reference[row, k])


@_jit_parallel
def decide(difference: Array) -> None:
    """1 where the challenger's error is the lower one, else 0."""
    for row in nb.prange(difference.shape[0]):
        for k in range(difference.shape[1]):
            difference[row, k] = _ONE if difference[row, k] < -_FAINT else _ZERO


@_jit_parallel
def forbid(weight: Array, limit: Array, scale: np.float32) -> None:
    """0 where the scale is beyond the limit."""
    for row in nb.prange(weight.shape[0]):
        for k in range(weight.shape[1]):
            weight[row, k] = weight[row, k] if scale <= limit[row, k] else _ZERO


@_jit_parallel
def hand_over(weight: Array, challenger: Array, holder: Array) -> None:
    """Let the holder become the challenger, as far as ``weight`` says."""
    for row in nb.prange(weight.shape[0]):
        for k in range(weight.shape[1]):
            holder[row, k] += weight[row, k] * (challenger[row, k] - holder[row, k])


@_jit_parallel
def hand_scale_over(weight: Array, scale: np.float32, scales: Array) -> None:
    """Let the scale become that of the challenger, as far as ``weight`` says."""
    for row in nb.prange(weight.shape[0]):
        for k in range(weight.shape[1]):
            scales[row, k] += weight[row, k] * (scale - scales[row, k])


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
