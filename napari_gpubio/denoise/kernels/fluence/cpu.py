"""Fluence denoising on all CPU cores (Numba), the counterpart of ``gpu.py`` and ``fluence.cu``.

The same names and the same order of operations as the kernels.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.intrinsics import SIMD_WIDTH
from napari_gpubio.core.jit import kernel, leaf, run_blocks, thread_count
from napari_gpubio.denoise.kernels.fluence.problem import FluenceProblem, Regions, Taps, Window
from napari_gpubio.denoise.kernels.fluence.scale_selection import KEEP, Comparison, Pass, ScaleSelection, Update
from napari_gpubio.denoise.kernels.fluence.smoothing import STRIP, Segments, Weights, smooth_across, smooth_along

Array = npt.NDArray[Any]
_F = np.float32
_ZERO, _QUARTER, _HALF, _ONE = _F(0.0), _F(0.25), _F(0.5), _F(1.0)
_LARGEST_DIFFERENCE = _F(1e30)
_FAINT = _F(1e-28)  # of volumes near 1: less counts as nothing, since a GPU has no denormal numbers and a CPU has
_MIN_SHARE = _F(0.02)  # of a guide, which it is smoothed to at least where it can be compared
_ANYWHERE = np.zeros((2, 1, 1, 1), np.uint8)  # segments that are not read
_VOXELS_PER_THREAD = 32768
_CACHED_VOXELS = 1 << 16  # smoothed along the second and then the third axis while they are in a core's cache


class Run(ScaleSelection):
    """The denoising of one volume on the CPU; items are candidates."""

    def __init__(self, problem: FluenceProblem, *, device: Device = CPU) -> None:
        self._threads = max(1, min(thread_count(), problem.halves[0].size // _VOXELS_PER_THREAD))
        super().__init__(problem, device=device)

    def _upload(self, array: Any) -> Any:
        return array.copy()

    def _download(self, array: Any) -> Any:
        return array.copy()

    def _segments_of(self, regions: Regions) -> Any:
        return regions.segments

    def empty(self, *volumes: int) -> Any:
        """A volume of this device, or several behind one another, float32."""
        return np.empty((*volumes, *self.problem.shape), np.float32)

    def smooth(self, source: Any, window: Window, rooms: tuple[Any, Any], segments: Any, end: Pass = KEEP) -> Any:
        """Smooth one volume or both halves along x, y, z, and do the pass at the end."""
        shape = self.problem.shape
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
            strips = -(-volume[0].size // STRIP)
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


def _smooth_strips(start: int, stop: int, source: Array, taps: Weights, segments: Segments, out: Array) -> None:
    """Smooth strips along the middle axis of (before, line, behind)."""
    n, reach = source.shape[1], len(taps.weights) - 1
    room, sums = np.zeros((n + 2 * reach) * STRIP, np.float32), np.empty((2, STRIP), np.float32)
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
    strips, step = -(-nz // STRIP), max(1, _CACHED_VOXELS // (ny * nz))
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
            gain = c.gain[row, k] if c.is_guided else _ONE
            f = _corrected(c.pilot[0, row, k], gain * again[0, row, k])
            g = _corrected(c.pilot[1, row, k], gain * again[1, row, k])
            again[0, row, k], again[1, row, k] = f, g
            now = _error(f, g, a, b, inverse, c.noise)
            before = _error(c.best[0, row, k], c.best[1, row, k], a, b, inverse, c.noise)
            # bounded, so that it can be smoothed: where the reference is next to nothing, errors may be infinite
            difference = (now - before) * np.sqrt(relative_to)
            difference = difference if difference <= _LARGEST_DIFFERENCE else _LARGEST_DIFFERENCE
            c.difference[row, k] = -_LARGEST_DIFFERENCE if difference < -_LARGEST_DIFFERENCE else difference


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
    """0 where hardly anything is: a choice may depend on it."""
    some = values[start:stop]
    some[~(np.abs(some) > _FAINT)] = _ZERO


def average(start: int, stop: int, first: Array, second: Array, out: Array) -> None:
    """Mean of both halves."""
    np.multiply(_HALF, first[start:stop] + second[start:stop], out=out[start:stop])


def raise_to(start: int, stop: int, values: Array, floor: Array, share: np.float32, least: np.float32) -> None:
    """Raise values to a share of the floor, and to ``least``."""
    some = values[start:stop]
    np.maximum(np.maximum(some, share * floor[start:stop]), least, out=some)


def compare_to(start: int, stop: int, smoothed: Array, guide: Array, out: Array) -> None:
    """The guide over the smoothed guide; 1 where that is next to nothing."""
    g, below = guide[start:stop], smoothed[start:stop]
    out[start:stop] = np.divide(g, below, out=np.ones_like(g), where=below > _MIN_SHARE * g)


def scale_by(start: int, stop: int, values: Array, factors: Array) -> None:
    """Multiply values by factors."""
    values[start:stop] *= factors[start:stop]


def dispersion(start: int, stop: int, first: Array, second: Array, reference: Array, out: Array) -> None:
    """Variance of the mean of both halves, from their difference, over the reference: nearly even in shot noise."""
    spread = _HALF * (first[start:stop] - second[start:stop])
    found = spread * (spread / reference[start:stop])
    out[start:stop] = np.where(np.abs(spread) > _FAINT, found, _ZERO)


def squared_bias(
    start: int, stop: int, first: Array, second: Array, half: Array, other: Array, reference: Array, out: Array
) -> None:
    """Product of what was changed in both halves, over the reference."""
    changed = first[start:stop] - half[start:stop], second[start:stop] - other[start:stop]
    found = changed[0] * (changed[1] / reference[start:stop])
    out[start:stop] = np.where(np.abs(found) > _FAINT, found, _ZERO)


def add_positive(start: int, stop: int, values: Array, more: Array) -> None:
    """Add what is positive."""
    values[start:stop] += np.maximum(more[start:stop], _ZERO)


def standard_error(start: int, stop: int, dispersion: Array, reference: Array) -> None:
    """Turn a dispersion into a standard error."""
    dispersion[start:stop] = np.sqrt(dispersion[start:stop]) * np.sqrt(reference[start:stop])


PASSES = {
    function.__name__: function
    for function in (
        evaluate, update_best, correct, decide, clear_faint, average, raise_to, compare_to, scale_by, dispersion,
        squared_bias, add_positive, standard_error,
    )
}  # fmt: skip
