"""Fluence denoising on all CPU cores (Numba), the counterpart of ``gpu.py`` and ``fluence.cu``.

The same names and the same order of operations as the kernels. Lines are copied into a small array with zeros around
them, where every voxel is summed alike and eight at once.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.intrinsics import SIMD_WIDTH, load, multiply_add, unpack
from napari_gpubio.core.jit import kernel, leaf, run_blocks, thread_count
from napari_gpubio.denoise.kernels.fluence.problem import FluenceProblem, Taps, Window
from napari_gpubio.denoise.kernels.fluence.scale_selection import KEEP, Comparison, Pass, ScaleSelection, Update

Array = npt.NDArray[Any]
_F = np.float32
_ZERO, _QUARTER, _HALF, _ONE = _F(0.0), _F(0.25), _F(0.5), _F(1.0)
_LARGEST = _F(1e30)  # of differences of errors
_FAINT = _F(1e-28)  # of volumes near 1: less counts as nothing, since a GPU has no denormal numbers and a CPU has
_STRIP = 128  # voxels side by side that are smoothed across at once
_LEAN = 2  # voxels that a window may reach farther to one side than to the other
_ANYWHERE = np.zeros((2, 1, 1, 1), np.uint8)  # segments that are not read
_VOXELS_PER_THREAD = 32768
_CACHED_VOXELS = 1 << 16  # smoothed along the second and then the third axis while they are in a core's cache


class Run(ScaleSelection):
    """The denoising of one volume on the CPU; items are candidates."""

    def __init__(self, problem: FluenceProblem, *, device: Device = CPU) -> None:
        self.device = device
        self._threads = max(1, min(thread_count(), problem.halves[0].size // _VOXELS_PER_THREAD))
        super().__init__(problem)

    def _upload(self, array: Any) -> Any:
        return array.copy()

    def _download(self, array: Any) -> Any:
        return array.copy()

    def _empty(self, *volumes: int) -> Any:
        return np.empty((*volumes, *self._problem.shape), np.float32)

    def _smooth(self, source: Any, window: Window, rooms: tuple[Any, Any], *, is_cut: bool, end: Pass = KEEP) -> Any:
        shape = self._problem.shape
        segments = self._segments if is_cut and self._segments is not None else None
        volumes = zip(*(array.reshape(-1, *shape) for array in (source, rooms[0])), strict=True)
        for volume, out in volumes:
            self._smooth_volume(volume, window, segments, out)
        if end is not KEEP:
            self._do(end.name, rooms[0], *end.arguments)
        return rooms[0]

    def _smooth_volume(self, volume: Array, window: Window, segments: Array | None, out: Array) -> None:
        """Smooth along all axes; ``out`` may be the volume, except if it is only copied."""
        first, middle, last = window
        x, y, z = (_ANYWHERE,) * 3 if segments is None else segments
        is_cut = segments is not None
        if first is not None:
            shape = 1, len(volume), -1
            below, above = (side.reshape(shape) if is_cut else side for side in x)
            strips = -(-volume[0].size // _STRIP)
            run_blocks(
                _smooth_strips, strips, volume.reshape(shape), Weights(*first), Segments(below, above, is_cut),
                out.reshape(shape), threads=self._threads,
            )  # fmt: skip
            volume = out
        if middle is None and last is None:
            if volume is not out:
                out[...] = volume
            return
        run_blocks(_smooth_planes, len(volume), volume, (middle, last), (y, z), is_cut, out, threads=self._threads)

    def _do(self, name: str, *arguments: Any) -> None:
        rows = [_rows(argument) for argument in arguments]
        run_blocks(PASSES[name], rows[0].shape[-2], *rows, threads=self._threads)


def _rows(argument: Any) -> Any:
    """A volume as (rows, n), both halves as (2, rows, n), also within a named tuple; other arguments as they are."""
    if isinstance(argument, Comparison | Update):
        return type(argument)(*map(_rows, argument))
    is_volume = isinstance(argument, np.ndarray)
    return argument.reshape(*argument.shape[:-3], -1, argument.shape[-1]) if is_volume else argument


# -- smoothing, as in smoothing.cuh -----------------------------------------------------------------------------------


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


def _smooth_strips(start: int, stop: int, source: Array, taps: Weights, segments: Segments, out: Array) -> None:
    """Smooth strips along the middle axis of (before, line, behind)."""
    n, reach = source.shape[1], len(taps.weights) - 1
    room, sums = np.zeros((n + 2 * reach) * _STRIP, np.float32), np.empty((2, _STRIP), np.float32)
    smooth_across(start, stop, source, taps, segments, out, room, sums)


def _smooth_planes(
    start: int,
    stop: int,
    source: Array,
    taps: tuple[Taps | None, Taps | None],
    segments: tuple[Array, Array],
    is_cut: bool,
    out: Array,
) -> None:
    """Smooth planes along the second and then the third axis of (X, Y, Z); ``out`` may be the source."""
    across, along = taps
    ny, nz = source.shape[1:]
    strips, step = -(-nz // _STRIP), max(1, _CACHED_VOXELS // (ny * nz))
    for first in range(start, stop, step):
        planes = slice(first, min(first + step, stop))
        here, there = source[planes], out[planes]
        y, z = (sides[:, planes] if is_cut else sides for sides in segments)
        if across is not None:
            _smooth_strips(0, len(here) * strips, here, Weights(*across), Segments(y[0], y[1], is_cut), there)
            here = there
        if along is not None:
            room = np.zeros(nz + 2 * len(along.weights) + SIMD_WIDTH, np.float32)
            totals = np.empty(-(-nz // SIMD_WIDTH) * SIMD_WIDTH, np.float32)
            lines = (-1, 1, nz)
            below, above = (side.reshape(lines) if is_cut else side for side in z)
            smooth_along(
                0, len(here) * ny, here.reshape(lines), Weights(*along), Segments(below, above, is_cut),
                there.reshape(lines), room, totals,
            )  # fmt: skip


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
    """Smooth strips along the middle axis of (before, line, behind); ``out`` may be the source.

    Parameters
    ----------
    start, stop
        Strips, of the first plane, then of the second, and so on.
    room, sums
        To work in; the room is zero, and stays so around the middle.
    """
    n, behind = source.shape[1], source.shape[2]
    strips, reach = (behind + _STRIP - 1) // _STRIP, len(taps.weights) - 1
    for item in range(start, stop):
        plane, first = item // strips, item % strips * _STRIP
        width = min(_STRIP, behind - first)
        for i in range(n):
            line = source[plane, i, first : first + width]
            copied = room[(i + reach) * _STRIP : (i + reach + 1) * _STRIP]
            for k in range(len(line)):
                copied[k] = line[k]
        wide = (width + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH
        totals, moments = sums[0, :wide], sums[1, :wide]
        for i in range(n):
            center = (i + reach) * _STRIP
            a, b = _reach(reach, i, n - 1 - i), _reach(reach, n - 1 - i, i)
            gain, slope, terms = taps.gains[a, b], taps.slopes[a, b], max(a, b) + 1
            _sum(room, center, _STRIP, taps.weights, terms, totals)
            row = out[plane, i, first : first + width]
            if slope != _ZERO:
                _sum_moments(room, center, _STRIP, taps.weights, terms, moments)
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
                        row[k] = _cut_sum(room, center + k, _STRIP, taps, below, above)


@kernel
def smooth_along(
    start: int, stop: int, source: Array, taps: Weights, segments: Segments, out: Array, room: Array, totals: Array
) -> None:
    """Smooth lines of (lines, 1, n) that lie in one piece; ``out`` may be the source.

    Parameters
    ----------
    start, stop
        Lines.
    room, totals
        To work in; the room is zero, with space for eight more, and stays so around the middle.
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


# -- passes over all voxels, as in fluence.cu -------------------------------------------------------------------------
# Volumes are of shape (rows, n), both halves of shape (2, rows, n).


@leaf
def _corrected(p: np.float32, q: np.float32) -> np.float32:
    """p^2 / q, or p where that is not safe, or 0 where it is faint."""
    is_safe = (p > _ZERO) & (q > _QUARTER * p)
    ratio = p / q if is_safe else _ONE
    estimate = p * ratio
    return estimate if estimate > _FAINT else _ZERO


@leaf
def _error(
    f: np.float32, g: np.float32, a: np.float32, b: np.float32, inverse: np.float32, noise: np.float32
) -> np.float32:
    """Relative squared error of f and g: weighted variance, and the product of the bias by both halves, a and b."""
    spread = (f - g) * inverse
    bias = ((f - a) * inverse) * ((g - b) * inverse)
    return noise * (spread * spread) + bias


@kernel
def evaluate(start: int, stop: int, again: Array, c: Comparison) -> None:
    """Make estimates of both halves, and compare the candidate's error with that of the current best.

    ``again``, the pilot smoothed once more, shape (2, rows, n), becomes the estimates.
    """
    for row in range(start, stop):
        for k in range(c.reference.shape[1]):
            relative_to = c.reference[row, k]
            inverse = _ONE / relative_to
            a, b = c.halves[0, row, k], c.halves[1, row, k]
            f, g = _corrected(c.pilot[0, row, k], again[0, row, k]), _corrected(c.pilot[1, row, k], again[1, row, k])
            again[0, row, k], again[1, row, k] = f, g
            now = _error(f, g, a, b, inverse, c.noise)
            before = _error(c.best[0, row, k], c.best[1, row, k], a, b, inverse, c.noise)
            # bounded, so that it can be smoothed: where the reference is next to nothing, errors may be infinite
            difference = (now - before) * np.sqrt(relative_to)
            difference = difference if difference <= _LARGEST else _LARGEST
            c.difference[row, k] = -_LARGEST if difference < -_LARGEST else difference


@kernel
def update_best(start: int, stop: int, weights: Array, u: Update) -> None:
    """Move the current best toward the candidate by the weights; not where the candidate's scale is beyond a limit."""
    for row in range(start, stop):
        for k in range(weights.shape[1]):
            is_forbidden = u.is_limited != 0 and not u.scale <= u.limit[row, k]
            weight = _ZERO if is_forbidden else weights[row, k]
            for half in range(2):
                held = u.best[half, row, k]
                held += weight * (u.candidate[half, row, k] - held)
                u.best[half, row, k] = held if abs(held) > _FAINT else _ZERO
            u.scales[row, k] += weight * (u.scale - u.scales[row, k])


def correct(start: int, stop: int, again: Array, pilot: Array) -> None:
    """Turn the pilot smoothed once more into the estimate pilot^2 / again."""
    p, q = pilot[start:stop], again[start:stop]
    is_safe = (p > _ZERO) & (q > _QUARTER * p)
    estimate = p * np.divide(p, q, out=np.ones_like(p), where=is_safe)
    again[start:stop] = np.where(estimate > _FAINT, estimate, _ZERO)


def decide(start: int, stop: int, difference: Array) -> None:
    """1 where the candidate's error is the lower one, else 0."""
    difference[start:stop] = difference[start:stop] < -_FAINT


def clear_faint(start: int, stop: int, values: Array) -> None:
    """0 where hardly anything is: a choice in the dark may depend on it."""
    some = values[start:stop]
    some[~(np.abs(some) > _FAINT)] = _ZERO


def average(start: int, stop: int, first: Array, second: Array, out: Array) -> None:
    """Mean of both halves."""
    np.multiply(_HALF, first[start:stop] + second[start:stop], out=out[start:stop])


def raise_to(start: int, stop: int, values: Array, floor: Array, share: np.float32, least: np.float32) -> None:
    """Raise values to a share of the floor, and to ``least``."""
    some = values[start:stop]
    np.maximum(np.maximum(some, share * floor[start:stop]), least, out=some)


def dispersion(start: int, stop: int, first: Array, second: Array, reference: Array, out: Array) -> None:
    """Variance of the mean of both halves, from their difference, over the reference: nearly even in shot noise."""
    spread = _HALF * (first[start:stop] - second[start:stop])
    found = spread * (spread / reference[start:stop])
    out[start:stop] = np.where(np.abs(spread) > _FAINT, found, _ZERO)


def standard_error(start: int, stop: int, dispersion: Array, reference: Array) -> None:
    """Turn a dispersion into a standard error."""
    dispersion[start:stop] = np.sqrt(dispersion[start:stop]) * np.sqrt(reference[start:stop])


PASSES = {
    function.__name__: function
    for function in (
        evaluate, update_best, correct, decide, clear_faint, average, raise_to, dispersion, standard_error
    )
}  # fmt: skip
