"""From the sums of a row of windows to contrast, index and mask (Numba), the counterpart of ``finishing.cuh``.

With N samples I, S the sum of I and Q of I²: D = N Q - S² is an integer, and K² = D N / ((N - 1) S²). D is rounded
to single precision once; everything after it is done in single precision, in the same order by both backends. Arrays
that are not wanted are empty.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.indices import SERIES_BELOW, TABLE_STEPS
from napari_gpubio.speckle.kernels.contrast.problem import ICT, RECIPROCAL, RELATIVE, SQUARED, Rule
from napari_gpubio.speckle.settings import EDGES
from napari_gpubio.speckle.validity import BELOW_NOISE, EDGE, LOW_SIGNAL, SATURATED, ZERO_MEAN, ZERO_VARIANCE

Array = npt.NDArray[Any]
VALID, REFLECT, SHRINK, _ = range(len(EDGES))
jit = nb.njit(cache=True, nogil=True, error_model="numpy")
inline = nb.njit(inline="always", error_model="numpy")  # where a call would count references to many arrays
_F, _I = np.float32, np.int32
_ZERO, _ONE, _TWO, _NAN = _F(0.0), _F(1.0), _F(2.0), _F(np.nan)
_SERIES_BELOW, _STEPS_PER_K = _F(SERIES_BELOW), _F(TABLE_STEPS / (1.0 - SERIES_BELOW))


class Planes(NamedTuple):
    """What differs from pixel to pixel: variance of the camera's noise and K² of the baseline; and the decay table."""

    floor: Array
    baseline: Array
    table: Array


class Outputs(NamedTuple):
    """Where maps go, (maps, Y, X)."""

    contrast: Array
    indices: Array
    mask: Array


class Sums(NamedTuple):
    """S and Q (or D) of a row of windows, and bytes that are not 0 where a sample is saturated.

    And what is made of them in single precision: S, D, N² times the variance; and the bits of the mask.
    """

    s: Array
    q: Array
    saturated: Array
    level: Array
    deviation: Array
    variance: Array
    bits: Array


@jit
def make_sums(width: int, like: Array) -> Sums:
    """Room for a row; ``like`` has the type of sums."""
    s, q, saturated = np.zeros(width, like.dtype), np.zeros(width, like.dtype), np.zeros(width, np.uint8)
    level, deviation, variance = np.zeros(width, np.float32), np.zeros(width, np.float32), np.zeros(width, np.float32)
    return Sums(s, q, saturated, level, deviation, variance, np.zeros(width, np.int32))


@inline
def finish_row(sums: Sums, planes: Planes, rule: Rule, place: Any, rows: int, out: Outputs) -> None:
    """Fill a row of the maps.

    Parameters
    ----------
    place
        Number of the map, and of the row in the frame.
    rows
        Rows of the frame.
    """
    n, y = place
    width, radius = sums.s.size, rule.radius
    high = min(y + radius, rows - 1) - max(y - radius, 0) + 1
    margin = radius if high == 2 * radius + 1 else width
    for number in range(_parts(rule, margin, width)):
        part = _part(rule, number, width, high)
        _finish(sums, planes, rule, place, part, out)
    if rule.edges == VALID:
        _clear(out, n, y, margin)
    elif out.mask.size:
        _mark_edges(out.mask[n, y], margin)


@jit
def _parts(rule: Rule, margin: int, width: int) -> Any:
    """Into how many parts a row is cut, whose windows have the same number of samples."""
    if rule.edges == VALID:
        return 0 if margin == width else 1
    return 2 * rule.radius + 1 if rule.edges == SHRINK else 1


@jit
def _part(rule: Rule, number: int, width: int, high: int) -> Any:
    """First and end column of a part, and pixels of its windows; the middle comes first, then single columns."""
    radius = rule.radius
    if rule.edges == VALID or (rule.edges == SHRINK and number == 0):
        return radius, width - radius, high * (2 * radius + 1)
    if rule.edges == SHRINK:
        x = (number - 1) // 2
        first = x if number % 2 else width - 1 - x
        return first, first + 1, high * (x + radius + 1)
    return 0, width, (2 * radius + 1) * (2 * radius + 1)


@jit
def _clear(out: Outputs, n: int, y: int, margin: int) -> None:
    """No contrast in so many columns on both sides."""
    width = out.contrast.shape[2]
    for x in range(margin):
        for at in (x, width - 1 - x):
            out.contrast[n, y, at] = _NAN
            if out.indices.size:
                out.indices[n, y, at] = _NAN
            if out.mask.size:
                out.mask[n, y, at] = EDGE


@jit
def _mark_edges(mask: Array, margin: int) -> None:
    for x in range(margin):
        mask[x] |= EDGE
        mask[mask.size - 1 - x] |= EDGE if margin < mask.size else 0


@inline
def _finish(sums: Sums, planes: Planes, rule: Rule, place: Any, part: Any, out: Outputs) -> None:
    """Fill a part of a row."""
    columns, samples = slice(part[0], part[1]), part[2] * rule.depth
    level, deviation, a = sums.level[columns], sums.deviation[columns], sums.variance[columns]
    count = _F(samples)
    _round(sums.s[columns], sums.q[columns], samples if rule.whole else 0, count / (count - _ONE), level, deviation, a)
    if planes.floor.size:
        _subtract_noise(a, level, planes.floor[place[1], columns], rule.gain * count, count * count)
    _fill_contrast(a, level, out.contrast[place[0], place[1], columns])
    if out.indices.size:
        index = out.indices[place[0], place[1], columns]
        if rule.kind == RELATIVE:
            _fill_relative(a, level, planes.baseline[place[1], columns], rule, index)
        else:
            _fill_index(a, level, planes.table, rule, index)
    if out.mask.size:
        mask = out.mask[place[0], place[1], columns]
        _fill_mask(deviation, a, level, rule.low * count, sums.saturated[columns], sums.bits[columns], mask)


@jit
def _round(s: Array, q: Array, samples: int, unbiased: np.float32, level: Array, deviation: Array, a: Array) -> None:
    """S, D and N² times the variance in single precision; where no number of samples is given, Q is D already."""
    if samples == 0:
        deviation[:] = q
    n = s.dtype.type(samples)
    for x in range(s.size if samples else 0):
        deviation[x] = _F(n * q[x] - s[x] * s[x])
    for x in range(s.size):
        level[x] = _F(s[x])
        a[x] = deviation[x] * unbiased


@jit
def _subtract_noise(a: Array, level: Array, floor: Array, gain: np.float32, squared_count: np.float32) -> None:
    for x in range(a.size):
        a[x] = a[x] - (gain * level[x] + squared_count * floor[x])


@jit
def _fill_contrast(a: Array, level: Array, contrast: Array) -> None:
    for x in range(a.size):
        k = np.sqrt(a[x]) / level[x]
        contrast[x] = k if level[x] > _ZERO else _NAN


@jit
def _fill_index(a: Array, level: Array, table: Array, rule: Rule, index: Array) -> None:
    """Fill an index from N² times the variance and the sums."""
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


@jit
def _fill_relative(a: Array, level: Array, baseline: Array, rule: Rule, index: Array) -> None:
    for x in range(a.size):
        index[x] = _guarded(level[x] * level[x] * baseline[x] / a[x], a[x], level[x], rule.top)


@inline
def _guarded(value: np.float32, a: np.float32, level: np.float32, top: np.float32) -> np.float32:
    """An index, which is not finite where the variance is zero and unknown where it or the mean is negative."""
    positive = value if a > _ZERO else _NAN
    known = top if a == _ZERO else positive
    return known if level > _ZERO else _NAN


@jit
def decay_of(k2: np.float32, table: Array) -> np.float32:
    """x = T/τ of a K²/β, from the table of `napari_gpubio.speckle.indices` by cubic interpolation."""
    if not k2 > _ZERO:
        return _NAN
    if k2 >= _ONE:
        return _ZERO
    if k2 < _SERIES_BELOW:
        return (_ONE + np.sqrt(_ONE - _TWO * k2)) / (_TWO * k2)
    place = (k2 - _SERIES_BELOW) * _STEPS_PER_K
    at = min(int(place), TABLE_STEPS - 1)
    t = place - _F(at)
    low, low_slope, rise, high_slope = table[at, 0], table[at, 1], table[at + 1, 0] - table[at, 0], table[at + 1, 1]
    bend = _TWO * low_slope + high_slope - _TWO * rise - rise
    twist = low_slope + high_slope - _TWO * rise
    return low + t * (low_slope - t * (bend - t * twist))


@jit
def _fill_mask(
    deviation: Array, a: Array, level: Array, low: np.float32, saturated: Array, bits: Array, mask: Array
) -> None:
    """In two steps, each of which has values of one width only, or the compiler makes poor vectors of them."""
    for x in range(bits.size):
        found = _I(BELOW_NOISE) if a[x] < _ZERO else _I(0)
        found = _I(ZERO_VARIANCE) if deviation[x] == _ZERO else found
        found = found if level[x] > _ZERO else _I(ZERO_MEAN)
        bits[x] = found | (_I(LOW_SIGNAL) if level[x] < low else _I(0))
    for x in range(bits.size):
        mask[x] = np.uint8(bits[x]) | (np.uint8(SATURATED) if saturated[x] != 0 else np.uint8(0))
