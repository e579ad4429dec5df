"""Sums over windows, and the kernel that turns them into maps (Numba); the counterpart of the ``.cu`` files.

Going down a range of rows, `fill_rows` keeps for every column of a frame the sum of samples and of their squares over
the rows of the window: it adds one row and drops one. Sums across come from doubling: windows of 2, 4, 8, ... columns,
combined by the binary digits of the window's edge; those of 5 and 7 columns are added at once. All sums are whole
numbers (as doubles, where these hold them), so the order of additions does not matter.

Windows over several frames are sums of `sum_frames`, over which `fill_rows` slides in place of a frame. Floating-point
frames are summed by `sum_samples`, window by window, since differences of rounded sums would drift.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.speckle.kernels.contrast import finishing
from napari_gpubio.speckle.kernels.contrast.finishing import REFLECT, SHRINK, VALID
from napari_gpubio.speckle.kernels.contrast.problem import Rule

Array = npt.NDArray[Any]
_F = np.float32


class Samples(NamedTuple):
    """Frames of integers (T, Y, X), with a row of zeros for rows that do not exist.

    ``dark`` is the dark level (Y, X) in units of samples, or empty; ``unit`` is units of samples per ADU and
    ``saturated`` the level of saturation in ADU.
    """

    frames: Array
    no_samples: Array
    dark: Array
    no_dark: Array
    unit: np.int64
    saturated: np.int64


class Sums(NamedTuple):
    """Sums per pixel, (maps, Y, X): of samples, of squares, and the number (uint16) of saturated samples, or empty.

    Of floating-point frames, ``q`` holds D instead. ``no_sums`` and ``no_counts`` are rows of zeros.
    """

    s: Array
    q: Array
    saturated: Array
    no_sums: Array
    no_counts: Array


class Work(NamedTuple):
    """Scratch rows of one call of `fill_rows`.

    Parameters
    ----------
    columns
        Sums over rows of samples and of squares for each column, with margins as wide as the window's radius, and
        two spare rows; shape (4, width + 2 radius).
    counts
        Saturated samples of each column, and two spare rows; a column has no more than a byte holds.
    across
        Sums over windows; shape (2, width).
    single
        S, D and N² times the variance in single precision; shape (3, width).
    saturated, bits
        Whether windows have saturated samples, and bits of the mask; shape (width,).
    """

    columns: Array
    counts: Array
    across: Array
    single: Array
    saturated: Array
    bits: Array


class Outputs(NamedTuple):
    """Maps, (maps, Y, X), empty where not requested; and what differs between pixels: noise floor, baseline, table."""

    contrast: Array
    indices: Array
    mask: Array
    floor: Array
    baseline: Array
    table: Array


def make_work(width: int, reach: int, dtype: npt.DTypeLike) -> Work:
    """Allocate scratch for windows that reach so many columns to both sides."""
    return Work(
        np.zeros((4, width + 2 * reach), dtype),
        np.zeros((3, width + 2 * reach), np.uint8),
        np.zeros((2, width), dtype),
        np.zeros((3, width), np.float32),
        np.zeros(width, np.uint8),
        np.zeros(width, np.int32),
    )


# -- one row ----------------------------------------------------------------------------------------------------------


@leaf
def _row_number(y: Any, rows: Any, edges: Any) -> Any:
    """Return the row of the frame that stands for a row of the window, or -1 for a row of zeros."""
    if 0 <= y < rows:
        return y
    if edges != REFLECT:
        return -1
    return -1 - y if y < 0 else 2 * rows - 1 - y


@leaf
def _slide(added: Array, dropped: Array, s: Array, q: Array) -> None:
    """Add a row of samples to sums and drop another: a² - b² = (a - b)(a + b)."""
    for x in range(added.size):
        one, other = s.dtype.type(added[x]), s.dtype.type(dropped[x])
        s[x] += one - other
        q[x] += (one - other) * (one + other)


@leaf
def _slide_dark(added: Array, dropped: Array, dark: Array, dropped_dark: Array, unit: Any, s: Array, q: Array) -> None:
    """Do the same with samples less their dark level."""
    for x in range(added.size):
        one = unit * s.dtype.type(added[x]) - s.dtype.type(dark[x])
        other = unit * s.dtype.type(dropped[x]) - s.dtype.type(dropped_dark[x])
        s[x] += one - other
        q[x] += (one - other) * (one + other)


@leaf
def _slide_sums(added: Array, dropped: Array, s: Array) -> None:
    for x in range(added.size):
        s[x] += added[x] - dropped[x]


@leaf
def _count(added: Array, dropped: Array, level: Any, counts: Array) -> None:
    """Add the samples of one row that reach a level, and drop those of another."""
    least = np.int32(level)  # which, unlike a wider one, is compared without widening the samples to it
    for x in range(added.size):
        one = np.uint8(1) if np.int32(added[x]) >= least else np.uint8(0)
        other = np.uint8(1) if np.int32(dropped[x]) >= least else np.uint8(0)
        counts[x] = counts[x] + one - other


@leaf
def _set_margins(values: Array, reach: Any, mirrored: Any) -> None:
    """Set what windows see beyond the border: the mirrored row, or zeros."""
    size = values.size
    for x in range(reach):
        values[x] = values[2 * reach - 1 - x] if mirrored else 0
        values[size - 1 - x] = values[size - 2 * reach + x] if mirrored else 0


@leaf
def _add(one: Array, other: Array, out: Array) -> None:
    for x in range(out.size):
        out[x] = one[x] + other[x]


@leaf
def _unite(one: Array, other: Array, out: Array) -> None:
    for x in range(out.size):
        out[x] = one[x] | other[x]


@helper
def _add_across(v: Array, spare: Array, following: Array, reach: Any, mirrored: Any, out: Array) -> None:
    """Fill sums of 2 ``reach`` + 1 neighbors in ``v``, whose margins are set here."""
    _set_margins(v, reach, mirrored)
    if reach == 2:  # the usual windows: in one pass
        for x in range(out.size):
            out[x] = v[x] + v[x + 1] + v[x + 2] + v[x + 3] + v[x + 4]
        return
    if reach == 3:
        for x in range(out.size):
            out[x] = v[x] + v[x + 1] + v[x + 2] + v[x + 3] + v[x + 4] + v[x + 5] + v[x + 6]
        return
    edge, source, target, span, done = 2 * reach + 1, v, spare, 1, 1
    for x in range(out.size):
        out[x] = v[x]
    while 2 * span <= edge:
        _add(source, source[span:], target[: v.size - 2 * span + 1])  # sums of twice as many neighbors
        source, target, following, span = target, following, target, 2 * span
        if edge & span:
            more = source[done:]
            for x in range(out.size):
                out[x] += more[x]  # in place, which `_add` would do without vector instructions
            done += span


@helper
def _find_across(v: Array, spare: Array, following: Array, reach: Any, mirrored: Any, out: Array) -> None:
    """Fill a number other than 0 where one of 2 ``reach`` + 1 neighbors is not 0; margins are set here."""
    _set_margins(v, reach, mirrored)
    edge, source, target, span = 2 * reach + 1, v, spare, 1
    while 2 * span <= edge:
        _unite(source, source[span:], target[: v.size - 2 * span + 1])
        source, target, following, span = target, following, target, 2 * span
    _unite(source, source[edge - span :], out)  # both overlap, which here does no harm


# -- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def fill_rows(start: int, stop: int, samples: Samples, sums: Sums, rule: Rule, work: Work, out: Outputs) -> None:
    """Fill rows of maps, counted through all maps.

    Parameters
    ----------
    start, stop
        Range of rows: row y of map n has the number n times the rows of a frame, plus y.
    samples
        One frame for each map.
    sums
        Sums of the same maps that are used in place of ``samples``, unless they are empty.
    """
    rows, width = out.contrast.shape[1], out.contrast.shape[2]
    radius, reach, masked, mirrored = rule.radius, rule.reach, out.mask.size > 0, rule.edges == REFLECT
    s, q, counts = work.columns[0], work.columns[1], work.counts[0]
    inner_s, inner_q, inner_counts = s[reach : reach + width], q[reach : reach + width], counts[reach : reach + width]
    unit = s.dtype.type(samples.unit)
    given = reach == 0 and sums.s.size > 0  # the sums of whole windows
    for row in range(start, stop):
        n, y = row // rows, row % rows
        if given:
            window_s, window_q = sums.s[n, y], sums.q[n, y]
            if masked:
                for x in range(width):
                    work.saturated[x] = np.uint8(1) if sums.saturated[n, y, x] != 0 else np.uint8(0)
        else:
            window_s, window_q = work.across[0], work.across[1]
            fresh = reach == 0 or y == 0 or row == start
            if fresh:
                for x in range(width):
                    inner_s[x] = 0
                for x in range(width):
                    inner_q[x] = 0
                for x in range(width):
                    inner_counts[x] = 0
            for next_y in range(y - reach if fresh else y + reach, y + reach + 1):
                new = _row_number(next_y, rows, rule.edges)
                old = -1 if fresh else _row_number(y - reach - 1, rows, rule.edges)
                if sums.s.size > 0:
                    dropped_s = sums.s[n, old] if old >= 0 else sums.no_sums
                    dropped_q = sums.q[n, old] if old >= 0 else sums.no_sums
                    _slide_sums(sums.s[n, new] if new >= 0 else sums.no_sums, dropped_s, inner_s)
                    _slide_sums(sums.q[n, new] if new >= 0 else sums.no_sums, dropped_q, inner_q)
                    if masked:
                        added = sums.saturated[n, new] if new >= 0 else sums.no_counts
                        dropped = sums.saturated[n, old] if old >= 0 else sums.no_counts
                        _count(added, dropped, np.int64(1), inner_counts)
                    continue
                below = samples.frames[n, new] if new >= 0 else samples.no_samples
                above = samples.frames[n, old] if old >= 0 else samples.no_samples
                if samples.dark.size > 0:
                    dark = samples.dark[new] if new >= 0 else samples.no_dark
                    dropped_dark = samples.dark[old] if old >= 0 else samples.no_dark
                    _slide_dark(below, above, dark, dropped_dark, unit, inner_s, inner_q)
                else:
                    _slide(below, above, inner_s, inner_q)
                if masked:
                    _count(below, above, samples.saturated, inner_counts)
            _add_across(s, work.columns[2], work.columns[3], reach, mirrored, window_s)
            _add_across(q, work.columns[2], work.columns[3], reach, mirrored, window_q)
            if masked:
                _find_across(counts, work.counts[1], work.counts[2], reach, mirrored, work.saturated)

        high = min(y + radius, rows - 1) - max(y - radius, 0) + 1
        margin = radius if high == 2 * radius + 1 else width
        for number in range(finishing.part_count(rule, margin, width)):
            first, end, pixels = finishing.part_of_row(rule, number, width, high)
            part = slice(first, end)
            count = _F(pixels * rule.depth)
            level, deviation, a = work.single[0, part], work.single[1, part], work.single[2, part]
            exact = s.dtype.type(pixels * rule.depth if rule.whole else 0)
            finishing.round_sums(window_s[part], window_q[part], exact, level, deviation)
            finishing.fill_variance(deviation, count / (count - _F(1.0)), a)
            noisy = out.floor.size > 0
            if noisy:
                finishing.subtract_noise(a, level, out.floor[y, part], rule.gain, count)
            finishing.fill_contrast(a, level, noisy, out.contrast[n, y, part])
            if out.indices.size > 0:
                baseline = out.baseline[y, part] if out.baseline.size > 0 else work.single[0, 0:0]
                finishing.fill_index(a, level, baseline, out.table, rule, out.indices[n, y, part])
            if masked:
                low, bits, mask = rule.low * count, work.bits[part], out.mask[n, y, part]
                finishing.fill_mask(deviation, a, level, low, work.saturated[part], bits, mask)
        if rule.edges == VALID or masked:
            index = out.indices[n, y] if out.indices.size > 0 else work.single[0, 0:0]
            mask = out.mask[n, y] if masked else work.saturated[0:0]
            finishing.finish_edges(out.contrast[n, y], index, mask, margin, rule.edges == VALID)


@kernel
def sum_frames(start: int, stop: int, samples: Samples, sums: Sums, new: int, old: int) -> None:
    """Add a frame to rows of sums over frames, and drop another, by their numbers; -1 for none."""
    unit = sums.s.dtype.type(samples.unit)
    for y in range(start, stop):
        added = samples.frames[new, y] if new >= 0 else samples.no_samples
        dropped = samples.frames[old, y] if old >= 0 else samples.no_samples
        if samples.dark.size > 0:
            dark = samples.dark[y] if new >= 0 else samples.no_dark
            dropped_dark = samples.dark[y] if old >= 0 else samples.no_dark
            _slide_dark(added, dropped, dark, dropped_dark, unit, sums.s[0, y], sums.q[0, y])
        else:
            _slide(added, dropped, sums.s[0, y], sums.q[0, y])
        if sums.saturated.size > 0:
            _count(added, dropped, samples.saturated, sums.saturated[0, y])


@kernel
def sum_samples(start: int, stop: int, frames: Array, saturated: Array, rule: Rule, step: Any, sums: Sums) -> None:
    """Sum rows of windows sample by sample, as differences from the window's middle sample.

    Thus D is accurate, and exactly zero where all samples are equal.

    Parameters
    ----------
    start, stop
        Range of rows, counted through all maps.
    frames
        Frames in double precision, dark level subtracted, with margins as wide as the window's radius,
        (T, Y + 2 R, X + 2 R); the margins hold NaN where a window has no samples.
    saturated
        Which samples are saturated, of the same shape, uint8; no frame where no level is known.
    step
        Frames from one map to the next.
    sums
        Is filled: S, D and the saturated samples.
    """
    rows, width = sums.s.shape[1], sums.s.shape[2]
    radius, edge = rule.radius, 2 * rule.radius + 1
    for row in range(start, stop):
        n, y = row // rows, row % rows
        first = n * step
        s, q, middle = sums.s[n, y], sums.q[n, y], frames[first, y + radius, radius : radius + width]
        for x in range(width):
            s[x] = q[x] = 0.0
            if sums.saturated.size > 0:
                sums.saturated[n, y, x] = 0
        for k in range(first, first + rule.depth):
            for dy in range(edge):
                for dx in range(edge):
                    _add_samples(frames[k, y + dy, dx : dx + width], middle, s, q)
                    if saturated.shape[0] > 0:
                        marks, found = saturated[k, y + dy, dx : dx + width], sums.saturated[n, y]
                        for x in range(width):
                            found[x] |= np.uint16(marks[x])
        high = min(y + radius, rows - 1) - max(y - radius, 0) + 1
        for x in range(width):
            wide = min(x + radius, width - 1) - max(x - radius, 0) + 1
            count = np.float64((high * wide if rule.edges == SHRINK else edge * edge) * rule.depth)
            q[x] = count * q[x] - s[x] * s[x]
            s[x] = s[x] + count * middle[x]


@leaf
def _add_samples(samples: Array, middle: Array, s: Array, q: Array) -> None:
    """Add a sample of every window of a row."""
    for x in range(s.size):
        difference = samples[x] - middle[x]
        known = difference if difference == difference else 0.0  # NaN: no sample
        s[x] += known
        q[x] += known * known
