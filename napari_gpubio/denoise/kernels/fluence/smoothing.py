"""Smoothing along the three axes (Numba), the counterpart of ``smoothing.cuh``: same order of operations.

Lines are copied into a small array with zeros around them, where every voxel is summed alike and eight at once. The
first axis is done in strips; the other two in one go for each plane, which stays in a core's cache.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import load, multiply_add, unpack

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
_F = np.float32
_ZERO = _F(0.0)
_STRIP = 128  # voxels side by side that are smoothed across at once
_LANES = 8
LEAN = 2  # voxels that a window may reach farther to one side than to the other


class Weights(NamedTuple):
    """Taps as Numba takes them: one number or one row for each distance; no weights where an axis is left alone."""

    weights: Array
    gains: Array
    slopes: Array
    is_sloped: bool


class Segments(NamedTuple):
    """Voxels of the same label below and above, shape (X, Y, Z), and whether that is looked at at all."""

    below: Array
    above: Array
    is_cut: bool


@_jit
def _sum(values: Array, center: int, stride: int, weights: Array, totals: Array) -> None:
    """Weighted sums of voxels that lie side by side, eight at a time, over neighbors ``stride`` apart."""
    for k in range(0, len(totals) - _LANES + 1, _LANES):
        here = center + k
        total = load(values, here) * weights[0]
        for d in range(1, len(weights)):
            pair = load(values, here + d * stride) + load(values, here - d * stride)
            total = multiply_add(pair, weights[d], total)
        _put(unpack(total), totals, k)


@_jit
def _sum_moments(values: Array, center: int, stride: int, weights: Array, moments: Array) -> None:
    """First moments of the same."""
    for k in range(0, len(moments) - _LANES + 1, _LANES):
        here = center + k
        moment = load(values, here) * _ZERO
        for d in range(1, len(weights)):
            pair = load(values, here + d * stride) - load(values, here - d * stride)
            moment = multiply_add(pair, weights[d] * _F(d), moment)
        _put(unpack(moment), moments, k)


@nb.njit(inline="always")
def _put(lanes: tuple[np.float32, ...], out: Array, k: int) -> None:
    (out[k], out[k + 1], out[k + 2], out[k + 3], out[k + 4], out[k + 5], out[k + 6], out[k + 7]) = lanes


@_jit
def _reach(reach: int, below: int, above: int) -> tuple[int, int]:
    """How far a window goes down and up where its segment ends so many voxels below and above.

    A window that reaches farther to one side than to the other bends what is not straight, such as fluence at a face:
    so it reaches but `LEAN` voxels farther there.
    """
    return min(min(below, reach), above + LEAN), min(min(above, reach), below + LEAN)


@_jit
def _cut_sum(values: Array, center: int, stride: int, taps: Weights, below: int, above: int) -> np.float32:
    """Smooth one voxel whose segment ends so many voxels below and above."""
    a, b = _reach(len(taps.weights) - 1, below, above)
    total, moment = taps.weights[0] * values[center], _ZERO
    for d in range(1, max(a, b) + 1):
        up = values[center + d * stride] if d <= b else _ZERO
        down = values[center - d * stride] if d <= a else _ZERO
        total = multiply_add(taps.weights[d], up + down, total)
        moment = multiply_add(taps.weights[d] * _F(d), up - down, moment)
    smoothed = taps.gains[a, b] * total
    return smoothed + taps.slopes[a, b] * moment if taps.is_sloped else smoothed


@_jit
def _across(source: Array, taps: Weights, segments: Segments, first: int, out: Array) -> None:
    """Smooth a strip of (line, side by side) across, from column ``first`` on."""
    n, reach = len(source), len(taps.weights) - 1
    width = min(_STRIP, source.shape[1] - first)
    room = np.zeros((n + 2 * reach) * _STRIP, np.float32)
    for i in range(n):
        room[(i + reach) * _STRIP : (i + reach) * _STRIP + width] = source[i, first : first + width]
    wide = (width + _LANES - 1) // _LANES * _LANES
    totals, moments = np.empty(wide, np.float32), np.zeros(wide, np.float32)
    for i in range(n):
        center = (i + reach) * _STRIP
        a, b = _reach(reach, i, n - 1 - i)
        gain, slope, weights = taps.gains[a, b], taps.slopes[a, b], taps.weights[: max(a, b) + 1]
        _sum(room, center, _STRIP, weights, totals)
        row = out[i, first : first + width]
        if slope != _ZERO:
            _sum_moments(room, center, _STRIP, weights, moments)
            for k in range(width):
                row[k] = gain * totals[k] + slope * moments[k]
        else:
            for k in range(width):
                row[k] = gain * totals[k]
        if segments.is_cut:
            lower, upper = segments.below[i, first : first + width], segments.above[i, first : first + width]
            for k in range(width):
                if lower[k] < min(i, reach) or upper[k] < min(n - 1 - i, reach):
                    row[k] = _cut_sum(room, center + k, _STRIP, taps, lower[k], upper[k])


@_jit
def _along(line: Array, taps: Weights, segments: Segments, room: Array, out: Array) -> None:
    """Smooth one line; ``room`` is zero around the middle, with space for eight more."""
    n, reach = len(line), len(taps.weights) - 1
    room[reach : reach + n] = line
    wide = (n + _LANES - 1) // _LANES * _LANES
    totals = np.empty(wide, np.float32)
    _sum(room, reach, 1, taps.weights, totals)
    gain = taps.gains[reach, reach]
    for i in range(n):
        out[i] = gain * totals[i]
    for i in range(n):
        if i == reach and n > 2 * reach:
            break
        for end in (i, n - 1 - i):
            out[end] = _cut_sum(room, reach + end, 1, taps, end, n - 1 - end)
    if segments.is_cut:
        below, above = segments.below, segments.above
        for i in range(n):
            if below[i] < min(i, reach) or above[i] < min(n - 1 - i, reach):  # else a segment ends where lines do
                out[i] = _cut_sum(room, reach + i, 1, taps, below[i], above[i])


@_jit_parallel
def smooth_first_axis(source: Array, taps: Weights, segments: Segments, out: Array) -> None:
    """Smooth along the first axis of (X, Y * Z)."""
    strips = (source.shape[1] + _STRIP - 1) // _STRIP
    for strip in nb.prange(strips):
        _across(source, taps, segments, strip * _STRIP, out)


@_jit_parallel
def smooth_planes(source: Array, across: Weights, along: Weights, middle: Segments, last: Segments, out: Array) -> None:
    """Smooth along the second and then the third axis of (X, Y, Z); ``out`` may be the source."""
    for x in nb.prange(len(source)):
        _smooth_plane(x, source, across, along, middle, last, out)


@_jit
def _smooth_plane(
    x: int, source: Array, across: Weights, along: Weights, middle: Segments, last: Segments, out: Array
) -> None:
    ny, nz = source[x].shape
    between = source[x].copy()
    i = np.intp(x) if middle.is_cut else np.intp(0)  # an unsigned and a signed number would make a float
    cuts = Segments(middle.below[i], middle.above[i], middle.is_cut)
    if len(across.weights) > 0:
        for first in range(0, nz, _STRIP):
            _across(source[x], across, cuts, first, between)
    if len(along.weights) > 0:
        room = np.zeros(nz + 2 * len(along.weights) + _LANES, np.float32)
        for y in range(ny):
            k = y if last.is_cut else 0
            _along(between[y], along, Segments(last.below[i, k], last.above[i, k], last.is_cut), room, out[x, y])
    else:
        out[x] = between
