"""Smoothing along one axis (Numba), the counterpart of ``smoothing.cuh``: same order of operations.

Lines are copied into a small array with zeros around them, where every voxel is summed alike and eight at once.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import SIMD_WIDTH, load, multiply_add, unpack
from napari_gpubio.core.jit import kernel, leaf

Array = npt.NDArray[Any]
_F = np.float32
_ZERO = _F(0.0)
STRIP = 128  # voxels side by side that are smoothed across at once
_LEAN = 2  # voxels that a window may reach farther to one side than to the other


class Weights(NamedTuple):
    """`Taps` as compiled functions take them."""

    weights: Array
    gains: Array
    slopes: Array
    is_sloped: bool


class Segments(NamedTuple):
    """Voxels of the same label below and above, shape (before, line, behind), and whether that is looked at at all."""

    below: Array
    above: Array
    is_cut: bool


@leaf
def _sum(values: Array, center: int, stride: int, weights: Array, terms: int, totals: Array) -> None:
    """Weighted sums of voxels that lie side by side, eight at a time, over neighbors ``stride`` apart."""
    for k in range(0, len(totals) - SIMD_WIDTH + 1, SIMD_WIDTH):
        here = center + k
        total = load(values, here) * weights[0]
        for d in range(1, terms):
            pair = load(values, here + d * stride) + load(values, here - d * stride)
            total = multiply_add(pair, weights[d], total)
        _put(unpack(total), totals, k)


@leaf
def _sum_moments(values: Array, center: int, stride: int, weights: Array, terms: int, moments: Array) -> None:
    """First moments of the same."""
    for k in range(0, len(moments) - SIMD_WIDTH + 1, SIMD_WIDTH):
        here = center + k
        moment = load(values, here) * _ZERO
        for d in range(1, terms):
            pair = load(values, here + d * stride) - load(values, here - d * stride)
            moment = multiply_add(pair, weights[d] * _F(d), moment)
        _put(unpack(moment), moments, k)


@leaf
def _put(lanes: tuple[np.float32, ...], out: Array, k: int) -> None:
    (out[k], out[k + 1], out[k + 2], out[k + 3], out[k + 4], out[k + 5], out[k + 6], out[k + 7]) = lanes


@leaf
def _reach(reach: int, end: int, other: int) -> int:
    """How far a window goes to one side where its segment ends so many voxels away on this side and on the other.

    A window that reaches farther to one side than to the other bends what is not straight, such as fluence at a face:
    so it reaches but `_LEAN` voxels farther there.
    """
    return min(min(end, reach), other + _LEAN)


@leaf
def _cut_sum(values: Array, center: int, stride: int, taps: Weights, below: Any, above: Any) -> np.float32:
    """Smooth one voxel whose segment ends so many voxels below and above."""
    reach = len(taps.weights) - 1
    a, b = _reach(reach, below, above), _reach(reach, above, below)
    total, moment = taps.weights[0] * values[center], _ZERO
    for d in range(1, max(a, b) + 1):
        up = values[center + d * stride] if d <= b else _ZERO
        down = values[center - d * stride] if d <= a else _ZERO
        total = multiply_add(taps.weights[d], up + down, total)
        moment = multiply_add(taps.weights[d] * _F(d), up - down, moment)
    smoothed = taps.gains[a, b] * total
    return smoothed + taps.slopes[a, b] * moment if taps.is_sloped else smoothed


@kernel
def smooth_across(
    start: int, stop: int, source: Array, taps: Weights, segments: Segments, out: Array, room: Array, sums: Array
) -> None:
    """Smooth strips along the middle axis of (before, line, behind), plane by plane; ``out`` may be the source.

    ``room`` and ``sums`` are to work in; the room is zero, and stays so around the middle.
    """
    n, behind = source.shape[1], source.shape[2]
    strips, reach = (behind + STRIP - 1) // STRIP, len(taps.weights) - 1
    for item in range(start, stop):
        plane, first = item // strips, item % strips * STRIP
        width = min(STRIP, behind - first)
        for i in range(n):
            line = source[plane, i, first : first + width]
            copied = room[(i + reach) * STRIP : (i + reach + 1) * STRIP]
            for k in range(len(line)):
                copied[k] = line[k]
        wide = (width + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH
        totals, moments = sums[0, :wide], sums[1, :wide]
        for i in range(n):
            center = (i + reach) * STRIP
            a, b = _reach(reach, i, n - 1 - i), _reach(reach, n - 1 - i, i)
            gain, slope, terms = taps.gains[a, b], taps.slopes[a, b], max(a, b) + 1
            _sum(room, center, STRIP, taps.weights, terms, totals)
            row = out[plane, i, first : first + width]
            if slope != _ZERO:
                _sum_moments(room, center, STRIP, taps.weights, terms, moments)
                for k in range(len(row)):
                    row[k] = gain * totals[k] + slope * moments[k]
            else:
                for k in range(len(row)):
                    row[k] = gain * totals[k]
            if segments.is_cut:
                for k in range(len(row)):
                    below = np.int64(segments.below[plane, i, first + k])
                    above = np.int64(segments.above[plane, i, first + k])
                    if below < min(i, reach) or above < min(n - 1 - i, reach):
                        row[k] = _cut_sum(room, center + k, STRIP, taps, below, above)


@kernel
def smooth_along(
    start: int, stop: int, source: Array, taps: Weights, segments: Segments, out: Array, room: Array, totals: Array
) -> None:
    """Smooth lines of (lines, 1, n) that lie in one piece; ``out`` may be the source.

    ``room`` and ``totals`` are to work in; the room is zero, with space for eight more, and stays so around the middle.
    """
    n, reach = source.shape[2], len(taps.weights) - 1
    gain = taps.gains[reach, reach]
    for item in range(start, stop):
        line, smoothed, copied = source[item, 0], out[item, 0], room[reach : reach + n]
        for i in range(n):
            copied[i] = line[i]
        _sum(room, reach, 1, taps.weights, reach + 1, totals)
        for i in range(n):
            smoothed[i] = gain * totals[i]
        for i in range(n):
            below: Any = i
            above: Any = n - 1 - i
            is_near_end = below < reach or above < reach
            if segments.is_cut:
                below, above = np.int64(segments.below[item, 0, i]), np.int64(segments.above[item, 0, i])
                is_near_end = is_near_end or below < reach or above < reach
            if is_near_end:
                smoothed[i] = _cut_sum(room, reach + i, 1, taps, below, above)
