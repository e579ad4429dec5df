"""Adaptive non-local means on all CPU cores (Numba), the counterpart of ``gpu.py`` and ``anlm.cu``."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import kernel, run_blocks
from napari_gpubio.denoise.kernels.anlm.candidates import Layout, Rule, Scratch, Tiles, visit_candidates
from napari_gpubio.denoise.kernels.anlm.problem import (
    NOTHING,
    TINY,
    Box,
    Float,
    Problem,
    Triple,
    planes_of,
    range_boxes,
)
from napari_gpubio.denoise.kernels.anlm.tally import (
    HALO,
    Arrays,
    Filtered,
    Operations,
    Partial,
    finish_slab,
    mixed_slabs,
)

Array = npt.NDArray[Any]
_F = np.float32
_NOTHING, _TINY, _ZERO, _ONE = _F(NOTHING), _F(TINY), _F(0.0), _F(1.0)
_BLOCK_VOXELS = 1 << 15  # worth a block of their own where a pass is a few operations a voxel


class Run(drivers.Run):
    """The filtering of one volume on the CPU; items are bricks."""

    def __init__(self, problem: Problem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._free_slab()
        self._weights = problem.patch_weights
        self._partial: Any = Partial.empty(problem)
        self._begun = np.zeros(problem.shape[0], bool)  # planes of it

    def advance(self, start: int, count: int) -> None:
        """Filter the bricks ``start`` to ``start + count - 1``."""
        planes = planes_of(self._problem.shape, start, count)
        self._begin(*planes)
        self._lay_out(*planes)
        run_blocks(self._filter_bricks, count, start)
        self._partial.done.append((start, count))

    @property
    def done(self) -> list[tuple[int, int]]:
        """Ranges (start, count) of bricks that are done."""
        return self._partial.done

    def snapshot(self) -> Partial:
        """Sums and estimates of the bricks that are done."""
        self._begin(0, len(self._begun))
        return self._partial

    def merge(self, other: Partial) -> None:
        """Take over bricks that another run has done."""
        self._begin(0, len(self._begun))
        self._partial.merge(other, self._problem)

    def finish(self) -> Filtered:
        """Correct for Rician bias and mix the patches, in all of the volume."""
        found = self.room()
        for slab in mixed_slabs(self._problem.shape):
            self.finish_slab(slab, found)
        return found

    def room(self) -> Filtered:
        """Memory for the finished volume."""
        return Filtered(*(np.empty(self._problem.shape, np.float32) for _ in Filtered._fields))

    def finish_slab(self, slab: slice, out: Filtered) -> None:
        """As `finish`, some planes of the volume."""
        self._free_slab()
        self._begin(max(slab.start - HALO, 0), slab.stop + HALO)
        p, partial = self._problem, self._partial
        arrays = Arrays(p.values, p.usable, partial.sums, partial.estimates)
        for array, there in zip(finish_slab(p, arrays, slab, Operations(filter_axis, interpolate)), out, strict=True):
            there[slab] = array

    def _begin(self, begin: int, end: int) -> None:
        """Write what planes hold before a brick is done, unless that is there: pages of new memory take their time."""
        for plane in begin + np.flatnonzero(~self._begun[begin:end]):
            self._partial.begin(self._problem, plane)
        self._begun[begin:end] = True

    def _free_slab(self) -> None:
        """Free what is laid out for some planes; it is made again when needed."""
        self._planes = 0, 0
        self._slab: tuple[Float, ...] = ()

    def _lay_out(self, begin: int, end: int) -> None:
        """Values, local means and variances of some planes, with a halo; variance -1 beyond the volume."""
        if self._planes[0] <= begin and end <= self._planes[1]:
            return
        p, halo = self._problem, _halo_of(self._problem)
        first = max(begin - halo[0], 0)
        mean, variance = measure_moments(p, slice(first, end + halo[0]))
        inner = slice(begin - first, end - first)
        values, mean = mirrored(p.values, halo, slice(begin, end)), mirrored(mean, halo, inner)
        self._slab = values, mean, mirrored(variance, halo, inner, mode="constant", constant_values=-1.0)
        self._planes = begin, end

    def _filter_bricks(self, start: int, stop: int, first: int) -> None:
        for brick in range(first + start, first + stop):
            (box,) = range_boxes(self._problem.shape, brick, 1)
            self._filter_brick(box)

    def _filter_brick(self, box: Box) -> None:
        """Both passes over the candidates of one brick."""
        p, weights = self._problem, self._weights
        layout = _layout_of(p, box)
        values, mean, variance = (_tile(volume, box, layout, self._planes[0]) for volume in self._slab)
        averaged = values * values if p.settings.is_rician else values
        tiles, rule, scratch = Tiles(values, averaged, mean, variance), _rule_of(p), _scratch_of(layout)
        length = layout.size[1] * layout.pitch
        least = np.full((len(weights), layout.size[0], length), _NOTHING)
        totals = np.zeros((len(weights), layout.size[0], 3, length), np.float32)
        found, sums = _inner(least, layout), self._partial.sums[(slice(None), *box)]
        if p.variance is None:
            visit_candidates(values - mean, tiles, layout, weights, rule, scratch, (least, totals[:0]))
            sums[...] = found
        else:
            found[...] = sums
        # 1 / 3e38 is denormal, hence slow
        inverse = np.where(least < _NOTHING, _ONE / np.maximum(least, _TINY), _ZERO)
        visit_candidates(values, tiles, layout, weights, rule, scratch, (inverse, totals))
        gathered = np.moveaxis(totals, 2, 0).reshape(3 * len(weights), layout.size[0], length)
        differences, weights, largest = _inner(gathered, layout).reshape(3, len(weights), *layout.size)
        self._partial.estimates[(slice(None), *box)] = _estimates(p, box, differences, weights, largest)


def _estimates(p: Problem, box: Box, differences: Float, weights: Float, largest: Float) -> Float:
    """Weighted mean of the candidates and the voxel itself (or of squares); 0 where nothing counts."""
    values = p.values[box]
    own_weights = np.where(largest > _ZERO, largest, _ONE)
    own_weights[:, ~(values > p.floor)] = _ZERO
    weights = weights + own_weights
    own = values * values if p.settings.is_rician else values
    shifts = np.divide(differences, weights, out=np.zeros_like(weights), where=weights > _ZERO)
    estimates = np.where(weights > _ZERO, own + shifts, _ZERO)
    return np.where(p.usable[box] != 0, estimates, own)


def measure_moments(p: Problem, planes: slice = slice(None)) -> tuple[Float, Float]:
    """Local mean and variance of each voxel of some planes."""
    usable = p.usable[planes]
    mean, variance = (np.empty(usable.shape, np.float32) for _ in range(2))
    least = max(1, _BLOCK_VOXELS // usable[0].size)
    padded = mirrored(p.values, p.windows.box, planes)
    run_blocks(local_moments, len(usable), padded, usable, mean, variance, least=least)
    return mean, variance


def filter_axis(array: Float, axis: int, taps: Float) -> Float:
    """Filter along lines of an axis; ``taps`` has a row for even and one for odd positions, beyond the ends is 0."""
    array = np.ascontiguousarray(array)
    out = np.empty_like(array)
    lines = math.prod(array.shape[:axis]), array.shape[axis], math.prod(array.shape[axis + 1 :])
    items = lines[0] if lines[2] == 1 else lines[0] * lines[1]
    least = max(1, _BLOCK_VOXELS * items // array.size)
    run_blocks(filter_lines, items, array.reshape(lines), taps, out.reshape(lines), least=least)
    return out


def interpolate(places: Float, known: Array, values: Array) -> Float:
    """Values of a table at places, between its entries along straight lines; NumPy does it on one core only."""
    out = np.empty_like(places)
    run_blocks(look_up, len(places), places, known, values, out, least=_BLOCK_VOXELS)
    return out


# -- a brick and its halo ---------------------------------------------------------------------------------------------


def _halo_of(problem: Problem) -> Triple:
    """Search radii + patch radii."""
    x, y, z = np.add(problem.windows.search, problem.windows.largest_patch).tolist()
    return x, y, z


def mirrored(values: Float, halo: Triple, planes: slice = slice(None), **beyond: Any) -> Float:
    """Some planes of a volume with a halo, mirrored at its borders unless something else is ``beyond``, as `np.pad`."""
    begin, end, _ = planes.indices(len(values))
    read = slice(max(begin - halo[0], 0), end + halo[0])
    missing = halo[0] - (begin - read.start), max(end + halo[0] - len(values), 0)
    return np.pad(values[read], [missing, *((n, n) for n in halo[1:])], **(beyond or {"mode": "symmetric"}))


def _layout_of(problem: Problem, box: Box) -> Layout:
    x, y, z = (len(range(*axis.indices(n))) for axis, n in zip(box, problem.shape, strict=True))
    search, halo = problem.windows.search, _halo_of(problem)
    return Layout((x, y, z), search, problem.windows.largest_patch, halo, search[2], z + 2 * halo[2])


def _scratch_of(layout: Layout) -> Scratch:
    width = (layout.size[1] + 2 * layout.reach[1]) * layout.pitch
    squares = np.empty((layout.size[0] + 2 * layout.reach[0], width), np.float32)
    return Scratch(squares, np.zeros((3, width + 4), np.float32), np.empty(layout.size[1] * layout.pitch, np.float32))


def _rule_of(p: Problem) -> Rule:
    a, b_with_c, anything = map(bool, p.flags)
    return Rule(a, b_with_c, anything, p.settings.center == "largest", p.maximum, p.floor, p.cutoff, p.offsets)


def _tile(volume: Float, box: Box, layout: Layout, first: int) -> Float:
    """A brick of a volume that has a halo and begins with the plane ``first``, in flat planes."""
    x, y, z = (axis.start or 0 for axis in box)
    x -= first
    planes, rows, pitch = (size + 2 * halo for size, halo in zip(layout.size, layout.halo, strict=True))
    tile = np.zeros((planes, 2 * layout.margin + rows * pitch), np.float32)
    inner = tile[:, layout.margin : layout.margin + rows * pitch].reshape(planes, rows, pitch)
    inner[...] = volume[x : x + planes, y : y + rows, z : z + pitch]
    return tile


def _inner(planes: Float, layout: Layout) -> Float:
    """A view of the brick's own voxels in flat planes without halo along x and y: shape (..., X, Y, Z)."""
    whole = planes.reshape(-1, *layout.size[:2], layout.pitch)
    return whole[..., layout.halo[2] : layout.halo[2] + layout.size[2]]


# -- compiled ---------------------------------------------------------------------------------------------------------


@kernel
def local_moments(start: int, stop: int, padded: Array, usable: Array, mean: Array, variance: Array) -> None:
    """Mean and unbiased variance in a box around each voxel; variance -1 where not usable.

    Parameters
    ----------
    start, stop
        Planes.
    padded
        The volume and around it, mirrored, as much as the box reaches.
    usable
        Shape (X, Y, Z).
    mean, variance
        Where they go, of the same shape.
    """
    nx, ny, nz = usable.shape
    bx, by, bz = padded.shape[0] - nx + 1, padded.shape[1] - ny + 1, padded.shape[2] - nz + 1
    count = bx * by * bz
    for x in range(start, stop):
        for y in range(ny):
            middle, squares = mean[x, y], variance[x, y]
            for z in range(nz):
                middle[z], squares[z] = _ZERO, _ZERO
            for d in range(count):
                shifted = padded[x + d // (by * bz), y + d // bz % by][d % bz :]
                for z in range(nz):
                    middle[z] += shifted[z]
            for z in range(nz):
                middle[z] /= _F(count)
            for d in range(count):
                shifted = padded[x + d // (by * bz), y + d // bz % by][d % bz :]
                for z in range(nz):
                    deviation = shifted[z] - middle[z]
                    squares[z] += deviation * deviation
            for z in range(nz):
                squares[z] = squares[z] / _F(count - 1) if usable[x, y, z] else -_ONE


@kernel
def filter_lines(start: int, stop: int, source: Array, taps: Array, out: Array) -> None:
    """Filter along the middle axis of (before, line, behind), zero beyond the ends.

    Items are lines in one piece where nothing is behind, else places on lines, of (before, line) one after another.
    Taps of even and odd positions have the shape (2, distances).
    """
    n, behind = source.shape[1], source.shape[2]
    reach = taps.shape[1] // 2
    for item in range(start, stop):
        if behind == 1:  # side by side are voxels, not lines
            line, values = out[item, :, 0], source[item, :, 0]
            for i in range(n):
                line[i] = _ZERO
            for d in range(-min(reach, n - 1), min(reach, n - 1) + 1):
                first = max(0, -d)
                to, other = line[first : min(n, n - d)], values[first + d :]
                even, odd = taps[first % 2, d + reach], taps[1 - first % 2, d + reach]
                for k in range(len(to)):
                    to[k] += (odd if k & 1 else even) * other[k]
        else:
            plane, i = item // n, item % n
            line = out[plane, i, :]
            for k in range(behind):
                line[k] = _ZERO
            for d in range(max(-reach, -i), min(reach, n - 1 - i) + 1):
                tap, other = taps[i % 2, d + reach], source[plane, i + d]
                for k in range(behind):
                    line[k] += tap * other[k]


@kernel
def look_up(start: int, stop: int, places: Array, known: Array, values: Array, out: Array) -> None:
    """Values of a table at places, between its entries along straight lines; at its ends where they are beyond."""
    last = len(known) - 1
    for i in range(start, stop):
        x = np.float64(places[i])
        below, above = 0, last
        while above - below > 1:
            middle = (below + above) // 2
            if known[middle] <= x:
                below = middle
            else:
                above = middle
        share = (x - known[below]) / (known[below + 1] - known[below])
        share = share if share > 0.0 else 0.0
        share = share if share < 1.0 else 1.0
        out[i] = values[below] + share * (values[below + 1] - values[below])
