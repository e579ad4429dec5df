"""Sums over square windows by sliding columns (Numba), the counterpart of ``windows.cu``.

A band of rows keeps, for every column of the frame, the sum of samples and of their squares over the rows of the
window; going down a row adds one row and drops one. Sums across come from doubling: windows of 2, 4, 8, ... columns,
put together by the binary digits of the window's edge; those of 5 and 7 columns are added at once. All sums are whole
numbers (as doubles, where these hold them), so the order of additions means nothing.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.kernels.contrast.finishing import (
    REFLECT,
    Outputs,
    Planes,
    finish_row,
    inline,
    jit,
    make_sums,
)
from napari_gpubio.speckle.kernels.contrast.problem import Rule

Array = npt.NDArray[Any]
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
LEAST_BAND = 8  # rows, or most of the work would be that of the window above the band


class Samples(NamedTuple):
    """Frames of integers (T, Y, X); their dark level (Y, X) in units of samples, or empty; what they mean.

    ``unit`` is units of samples per ADU, ``saturated`` the level of saturation in ADU.
    """

    frames: Array
    dark: Array
    unit: int
    saturated: int


class Sequence(NamedTuple):
    """Sums over frames at each pixel, (Y, X): of samples, of squares, and the number (uint16) of saturated samples."""

    s: Array
    q: Array
    saturated: Array


class Columns(NamedTuple):
    """Sums over rows for each column, with margins as wide as the window's radius; and rows of scratch.

    ``saturated`` counts saturated samples, of which a column of a window has no more than a byte holds.
    """

    s: Array
    q: Array
    saturated: Array
    spare: Array
    other: Array
    spare_bytes: Array
    other_bytes: Array


@jit
def make_columns(width: int, rule: Rule, like: Array) -> Columns:
    """Columns without any row; ``like`` has the type of sums."""
    size = width + 2 * rule.radius
    s, q, spare, other = (
        np.zeros(size, like.dtype), np.zeros(size, like.dtype), np.zeros(size, like.dtype), np.zeros(size, like.dtype),
    )  # fmt: skip
    saturated, spare_bytes, other_bytes = np.zeros(size, np.uint8), np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    return Columns(s, q, saturated, spare, other, spare_bytes, other_bytes)


@jit
def row_number(y: int, rows: int, rule: Rule) -> int:
    """The row of the frame that stands for a row of the window, or -1 for a row of zeros."""
    if 0 <= y < rows:
        return y
    if rule.edges != REFLECT:
        return -1
    return -1 - y if y < 0 else 2 * rows - 1 - y


@jit
def _sum_row(samples: Samples, row: Any, y: int, one: Any, s: Any, q: Any) -> None:
    """Add a row's samples, less the dark level where there is one, and their squares, ``one`` (1 or -1) times."""
    if samples.dark.size:
        dark, unit = samples.dark[y], s.dtype.type(samples.unit)
        for x in range(row.size):
            value = unit * s.dtype.type(row[x]) - s.dtype.type(dark[x])
            s[x] += one * value
            q[x] += one * value * value
    else:
        for x in range(row.size):
            value = s.dtype.type(row[x])
            s[x] += one * value
            q[x] += one * value * value


@jit
def _change(columns: Columns, samples: Samples, place: Any, sign: int, rule: Rule, mask: int) -> None:
    """Add (1) or drop (-1) a row of a frame."""
    n, y = place
    row = samples.frames[n, y]
    radius, one = rule.radius, columns.s.dtype.type(sign)
    s, q = columns.s[radius : radius + row.size], columns.q[radius : radius + row.size]
    _sum_row(samples, row, y, one, s, q)
    if mask:
        _count(row, samples.saturated, sign, columns.saturated[radius : radius + row.size])


@jit
def _count(row: Array, least: int, sign: int, counts: Array) -> None:
    """Add (1) or drop (-1) the samples of a row that reach a level."""
    level = np.int32(least)  # which, unlike a wider one, is compared without widening the samples to it
    for x in range(row.size):
        reached = np.uint8(1) if np.int32(row[x]) >= level else np.uint8(0)
        counts[x] = counts[x] + reached if sign > 0 else counts[x] - reached


@jit
def _count_change(added: Array, dropped: Array, least: int, counts: Array) -> None:
    """Add the samples of one row that reach a level, and drop those of another one."""
    level = np.int32(least)
    for x in range(added.size):
        one = np.uint8(1) if np.int32(added[x]) >= level else np.uint8(0)
        other = np.uint8(1) if np.int32(dropped[x]) >= level else np.uint8(0)
        counts[x] = counts[x] + one - other


@inline
def _slide(columns: Columns, samples: Samples, n: int, new: int, old: int, rule: Rule, mask: int) -> None:
    """Add one row and drop another of a frame, in one pass where there are both and no dark level."""
    if new < 0 or old < 0 or samples.dark.size:
        if new >= 0:
            _change(columns, samples, (n, new), 1, rule, mask)
        if old >= 0:
            _change(columns, samples, (n, old), -1, rule, mask)
        return
    below, above, radius = samples.frames[n, new], samples.frames[n, old], rule.radius
    s, q = columns.s[radius : radius + below.size], columns.q[radius : radius + below.size]
    for x in range(below.size):
        one, other = s.dtype.type(below[x]), s.dtype.type(above[x])
        s[x] += one - other
        q[x] += (one - other) * (one + other)
    if mask:
        _count_change(below, above, samples.saturated, columns.saturated[radius : radius + below.size])


@jit
def _change_by_sums(columns: Columns, sequence: Sequence, y: int, sign: int, rule: Rule, mask: int) -> None:
    """Add (1) or drop (-1) a row of sums over frames."""
    _add_row(columns.s[rule.radius :], sequence.s[y], sign)
    _add_row(columns.q[rule.radius :], sequence.q[y], sign)
    if mask:
        _count(sequence.saturated[y], 1, sign, columns.saturated[rule.radius :])


@jit
def _add_row(sums: Array, row: Array, sign: int) -> None:
    one = sums.dtype.type(sign)
    for x in range(row.size):
        sums[x] += one * row[x]


@jit
def _add(one: Array, other: Array, out: Array) -> None:
    for x in range(out.size):
        out[x] = one[x] + other[x]


@jit
def _accumulate(more: Array, out: Array) -> None:
    """Add to sums in place, which `_add` would do without vector instructions."""
    for x in range(out.size):
        out[x] += more[x]


@jit
def _add_across(values: Array, spare: Array, following: Array, radius: int, mirrored: int, out: Array) -> None:
    """Sums of 2 ``radius`` + 1 neighbors in ``values``, whose margins are set here; two rows of scratch."""
    edge, size = 2 * radius + 1, values.size
    _set_margins(values, radius, mirrored)
    if radius == 0:
        out[:] = values
        return
    if radius == 2 or radius == 3:  # the usual windows: in one pass
        _add_few_across(values, radius, out)
        return
    source, target, span, done = values, spare, 1, 1
    while 2 * span <= edge:
        _add(source, source[span:], target[: size - 2 * span + 1])  # sums of twice as many neighbors
        source, target, following, span = target, following, target, 2 * span
        if edge & span:
            if done == 1:
                _add(values, source[done:], out)
            else:
                _accumulate(source[done:], out)
            done += span


@jit
def _set_margins(values: Array, radius: int, mirrored: int) -> None:
    """What windows see beyond the border: the mirrored row, or zeros."""
    size = values.size
    for x in range(radius):
        values[x] = values[2 * radius - 1 - x] if mirrored else 0
        values[size - 1 - x] = values[size - 2 * radius + x] if mirrored else 0


@jit
def _add_few_across(v: Array, radius: int, out: Array) -> None:
    if radius == 2:
        for x in range(out.size):
            out[x] = v[x] + v[x + 1] + v[x + 2] + v[x + 3] + v[x + 4]
    else:
        for x in range(out.size):
            out[x] = v[x] + v[x + 1] + v[x + 2] + v[x + 3] + v[x + 4] + v[x + 5] + v[x + 6]


@jit
def _find_across(counts: Array, spare: Array, following: Array, radius: int, mirrored: int, out: Array) -> None:
    """Not 0 where one of 2 ``radius`` + 1 neighbors is not, by doubling; margins are set here; two rows of scratch."""
    edge = 2 * radius + 1
    _set_margins(counts, radius, mirrored)
    source, target, span = counts, spare, 1
    while 2 * span <= edge:
        _unite(source, source[span:], target[: counts.size - 2 * span + 1])
        source, target, following, span = target, following, target, 2 * span
    _unite(source, source[edge - span :], out)  # both overlap, which here does no harm


@jit
def _unite(one: Array, other: Array, out: Array) -> None:
    for x in range(out.size):
        out[x] = one[x] | other[x]


@inline
def _finish_windows(
    columns: Columns, sums: Any, planes: Planes, rule: Rule, place: Any, rows: int, out: Outputs
) -> None:
    """Fill a row of the maps from the columns' sums."""
    radius, mirrored = rule.radius, int(rule.edges == REFLECT)
    _add_across(columns.s, columns.spare, columns.other, radius, mirrored, sums.s)
    _add_across(columns.q, columns.spare, columns.other, radius, mirrored, sums.q)
    if out.mask.size:
        spare, other = columns.spare_bytes, columns.other_bytes
        _find_across(columns.saturated, spare, other, radius, mirrored, sums.saturated)
    finish_row(sums, planes, rule, place, rows, out)


@jit
def _fill_band(
    samples: Samples, planes: Planes, rule: Rule, like: Array, n: int, first: int, end: int, out: Outputs
) -> None:
    """Fill rows of a frame's maps."""
    rows, width = samples.frames.shape[1:]
    columns, sums, mask = make_columns(width, rule, like), make_sums(width, like), out.mask.size
    for y in range(first - rule.radius, first + rule.radius):
        at = row_number(y, rows, rule)
        if at >= 0:
            _change(columns, samples, (n, at), 1, rule, mask)
    for y in range(first, end):
        old = row_number(y - rule.radius - 1, rows, rule) if y > first else -1
        _slide(columns, samples, n, row_number(y + rule.radius, rows, rule), old, rule, mask)
        _finish_windows(columns, sums, planes, rule, (n, y), rows, out)


@jit
def _fill_band_of_sums(
    sequence: Sequence, planes: Planes, rule: Rule, n: int, first: int, end: int, out: Outputs
) -> None:
    """Fill rows of a map from sums over frames."""
    rows, width = sequence.s.shape
    columns, sums, mask = make_columns(width, rule, sequence.s), make_sums(width, sequence.s), out.mask.size
    for y in range(first - rule.radius, end + rule.radius):
        new, middle = row_number(y, rows, rule), y - rule.radius
        if new >= 0:
            _change_by_sums(columns, sequence, new, 1, rule, mask)
        if middle >= first:
            _finish_windows(columns, sums, planes, rule, (n, middle), rows, out)
            old = row_number(middle - rule.radius, rows, rule)
            if old >= 0:
                _change_by_sums(columns, sequence, old, -1, rule, mask)


@_jit_parallel
def fill_spatial(samples: Samples, planes: Planes, rule: Rule, like: Array, band: int, out: Outputs) -> None:
    """Fill the maps of frames, each from itself alone, in bands of so many rows."""
    frames, rows, _ = samples.frames.shape
    bands = -(-rows // band)
    for job in nb.prange(frames * bands):
        n, first = job // bands, job % bands * band
        _fill_band(samples, planes, rule, like, n, first, min(first + band, rows), out)


@_jit_parallel
def change_sums(sequence: Sequence, samples: Samples, new: int, old: int, mask: int) -> None:
    """Add a frame to the sums over frames, and drop another one; -1 for neither."""
    for y in nb.prange(sequence.s.shape[0]):
        if new >= 0:
            _change_row(sequence, samples, new, y, 1, mask)
        if old >= 0:
            _change_row(sequence, samples, old, y, -1, mask)


@jit
def _change_row(sequence: Sequence, samples: Samples, n: int, y: int, sign: int, mask: int) -> None:
    row, s, q, one = samples.frames[n, y], sequence.s[y], sequence.q[y], sequence.s.dtype.type(sign)
    _sum_row(samples, row, y, one, s, q)
    if mask:
        _count(row, samples.saturated, sign, sequence.saturated[y])


@_jit_parallel
def fill_from_sums(sequence: Sequence, planes: Planes, rule: Rule, n: int, band: int, out: Outputs) -> None:
    """Fill one map from sums over frames."""
    rows = sequence.s.shape[0]
    for job in nb.prange(-(-rows // band)):
        first = job * band
        _fill_band_of_sums(sequence, planes, rule, n, first, min(first + band, rows), out)
