"""Contrast, index and mask of a row of windows from its sums (Numba), the counterpart of ``finishing.cuh``.

With N samples I, S the sum of I and Q of I²: D = N Q - S² is an integer, and K² = D N / ((N - 1) S²). D is rounded
to single precision once; everything after it is done in single precision, in the same order by both backends.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import leaf
from napari_gpubio.speckle.kernels.contrast.problem import ICT, RECIPROCAL, RELATIVE, SQUARED, Rule
from napari_gpubio.speckle.kernels.visibility import SERIES_BELOW, TABLE_STEPS
from napari_gpubio.speckle.model import BELOW_NOISE, EDGE, LOW_SIGNAL, SATURATED, ZERO_MEAN, ZERO_VARIANCE
from napari_gpubio.speckle.settings import EDGES

Array = npt.NDArray[Any]
VALID, REFLECT, SHRINK, _ = range(len(EDGES))
_F, _I = np.float32, np.int32
_ZERO, _HALF, _ONE, _TWO, _THREE = _F(0.0), _F(0.5), _F(1.0), _F(2.0), _F(3.0)
_NAN = _F(np.nan)
_SERIES_BELOW, _STEPS_PER_K = _F(SERIES_BELOW), _F(TABLE_STEPS / (1.0 - SERIES_BELOW))


@leaf
def part_count(rule: Rule, margin: Any, width: Any) -> Any:
    """Return the number of parts of a row; windows of a part have the same number of samples."""
    if rule.edges == VALID:
        return 0 if margin == width else 1
    return 2 * rule.radius + 1 if rule.edges == SHRINK else 1


@leaf
def part_of_row(rule: Rule, number: Any, width: Any, high: Any) -> Any:
    """Return the first and end column of a part, and the pixels of its windows, which are ``high`` rows high.

    The first part is the middle of the row; the others, where windows shrink, are single columns.
    """
    radius = rule.radius
    if rule.edges == VALID or (rule.edges == SHRINK and number == 0):
        return radius, width - radius, high * (2 * radius + 1)
    if rule.edges == SHRINK:
        x = (number - 1) // 2
        first = x if number % 2 == 1 else width - 1 - x
        return first, first + 1, high * (x + radius + 1)
    return 0, width, (2 * radius + 1) * (2 * radius + 1)


@leaf
def round_sums(s: Array, q: Array, samples: Any, level: Array, deviation: Array) -> None:
    """Fill S and D in single precision; with 0 samples, ``q`` holds D already."""
    if samples == 0:
        for x in range(s.size):
            deviation[x] = _F(q[x])
    else:
        for x in range(s.size):
            deviation[x] = _F(samples * q[x] - s[x] * s[x])
    for x in range(s.size):
        level[x] = _F(s[x])


@leaf
def fill_variance(deviation: Array, unbiased: np.float32, a: Array) -> None:
    """Fill N² times the variance."""
    for x in range(a.size):
        a[x] = deviation[x] * unbiased


@leaf
def subtract_noise(a: Array, level: Array, floor: Array, gain: np.float32, count: np.float32) -> None:
    """Subtract shot noise and the noise floor from N² times the variance, and the bias of the noise of S in a / S²."""
    shot, squared_count, thrice, twice = gain * count, count * count, _THREE / count, _TWO * gain
    for x in range(a.size):
        f, square = squared_count * floor[x], level[x] * level[x]
        near, least = square + (thrice * f - gain * level[x]), _HALF * square
        inverse = level[x] / (near if near > least else least)
        a[x] = (a[x] - (shot * level[x] + f) - twice * f * inverse) * (level[x] * inverse)


@leaf
def fill_contrast(a: Array, level: Array, signed: Any, contrast: Array) -> None:
    """Fill K; ``signed``: with the sign of the variance, which is below that of the noise where it is negative."""
    for x in range(a.size):
        below = signed and a[x] < _ZERO
        k = np.sqrt(-a[x] if below else a[x]) / level[x]
        contrast[x] = (-k if below else k) if level[x] > _ZERO else _NAN


@leaf
def fill_index(a: Array, level: Array, baseline: Array, table: Array, rule: Rule, index: Array) -> None:
    """Fill the index; ``baseline`` is empty unless the index is relative to it."""
    if rule.kind == RECIPROCAL:
        for x in range(a.size):
            index[x] = _guarded(level[x] * level[x] / (a[x] * rule.scale), a[x], level[x], rule.top)
    elif rule.kind == SQUARED:
        for x in range(a.size):
            value = a[x] / (level[x] * level[x])
            index[x] = value if level[x] > _ZERO else _NAN
    elif rule.kind == ICT:
        for x in range(a.size):
            k2 = a[x] / (level[x] * level[x] * rule.beta)
            index[x] = _guarded(decay_of(k2, table) * rule.scale, a[x], level[x], rule.top)
    elif rule.kind == RELATIVE:
        for x in range(a.size):
            index[x] = _guarded(level[x] * level[x] * baseline[x] / a[x], a[x], level[x], rule.top)


@leaf
def _guarded(value: np.float32, a: np.float32, level: np.float32, top: np.float32) -> np.float32:
    """Return an index: not finite where the variance is zero, NaN where the variance or the mean is negative."""
    positive = value if a > _ZERO else _NAN
    known = top if a == _ZERO else positive
    return known if level > _ZERO else _NAN


@leaf
def decay_of(k2: np.float32, table: Array) -> np.float32:
    """Return x = T/τ of K²/β, from the table of `napari_gpubio.speckle.indices` by cubic interpolation."""
    if not k2 > _ZERO:
        return _NAN
    if k2 >= _ONE:
        return _ZERO
    if k2 < _SERIES_BELOW:
        return (_ONE + np.sqrt(_ONE - _TWO * k2)) / (_TWO * k2)
    place = (k2 - _SERIES_BELOW) * _STEPS_PER_K
    at = np.int64(place)
    if at > TABLE_STEPS - 1:
        at = np.int64(TABLE_STEPS - 1)
    t = place - _F(at)
    low, low_slope, rise, high_slope = table[at, 0], table[at, 1], table[at + 1, 0] - table[at, 0], table[at + 1, 1]
    bend = _TWO * low_slope + high_slope - _TWO * rise - rise
    twist = low_slope + high_slope - _TWO * rise
    return low + t * (low_slope - t * (bend - t * twist))


@leaf
def fill_mask(
    deviation: Array, a: Array, level: Array, low: np.float32, saturated: Array, bits: Array, mask: Array
) -> None:
    """Fill the mask in two loops, each over values of one width: mixed widths make poor vector code."""
    for x in range(bits.size):
        found = _I(BELOW_NOISE) if a[x] < _ZERO else _I(0)
        found = _I(ZERO_VARIANCE) if deviation[x] == _ZERO else found
        found = found if level[x] > _ZERO else _I(ZERO_MEAN)
        bits[x] = found | (_I(LOW_SIGNAL) if level[x] < low else _I(0))
    for x in range(bits.size):
        mask[x] = np.uint8(bits[x]) | (np.uint8(SATURATED) if saturated[x] != 0 else np.uint8(0))


@leaf
def finish_edges(contrast: Array, index: Array, mask: Array, margin: Any, clear: Any) -> None:
    """Mark ``margin`` columns on both sides of a row as edges; ``clear``: there is no contrast either."""
    width = contrast.size
    for x in range(margin):
        for side in range(2):
            at = width - 1 - x if side else x
            if clear:
                contrast[at] = _NAN
                if index.size:
                    index[at] = _NAN
            if mask.size:
                mask[at] = np.uint8(EDGE) if clear else mask[at] | np.uint8(EDGE)
