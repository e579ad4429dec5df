"""Adaptive non-local means in CUDA, the counterpart of ``cpu.py``; the kernels are in ``anlm.cu``.

Values, sums and estimates of the whole volume stay on the GPU; local moments, candidates and what mixing needs are
there for a slab at a time.
"""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, host_room, shared_memory_bytes, to_host
from napari_gpubio.core.kernels import kernel
from napari_gpubio.denoise.kernels.anlm import build
from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, Problem
from napari_gpubio.denoise.kernels.anlm.tally import HALO, Arrays, Filtered, Partial, finish
from napari_gpubio.denoise.kernels.anlm.windows import brick_counts, planes_of, reach_weights

_SOURCE = Path(__file__).with_name("anlm.cu")
MOST_VOXELS = 2**31 - 1  # since their numbers have 32 bits
_CHOSEN_BYTES = 128 << 20  # for the candidates of the bricks that are filtered together
_MIXED_VOXELS = 4 << 20  # that are mixed together


class Run:
    """The filtering of one volume on one GPU; items are bricks."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        import cupy

        self.device = device
        self._problem = problem
        self._done: list[tuple[int, int]] = []
        self._kernels: dict[str, Any] = {}
        self._taps: dict[int, tuple[Any, Any]] = {}
        self._build = build.build_of(problem, shared_memory_bytes(device))
        self._slab = _slab_of(problem, self._build.column)
        self._moments = self._chosen = None
        self._measured = 0, 0  # planes that the moments are those of
        with cupy.cuda.Device(device.indices[0]):
            self._values, self._usable = cupy.asarray(problem.values), cupy.asarray(problem.usable)
            self._sums, self._estimates = self._blank()
            self._weights = cupy.asarray(reach_weights(problem.windows))

    def _blank(self) -> tuple[Any, Any]:
        """Sums and estimates before any brick is done, as those of `Partial.empty`."""
        import cupy

        p, patches = self._problem, len(self._problem.windows.patches)
        known = p.known_sums()
        sums = cupy.full((patches, *p.shape), np.float32(NOTHING)) if known is None else cupy.asarray(known)
        values = cupy.square(self._values) if p.settings.is_rician else self._values
        return sums, cupy.stack([values] * patches)

    def _kernel(self, name: str) -> Any:
        if name not in self._kernels:
            defines = build.defines_of(self._problem, self._build)
            self._kernels[name] = kernel(_SOURCE, name, defines=defines, fast=True)
        return self._kernels[name]

    def bytes_per_item(self) -> int:
        """Nothing beyond what is resident."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Filter the bricks ``start`` to ``start + count - 1``."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]) as here:
            for first in range(start, start + count, self._slab):
                bricks = min(self._slab, start + count - first)
                self._measure(*self._planes_read(first, bricks))
                self._filter(first, bricks)
            here.synchronize()
        self._done.append((start, count))

    def _planes_read(self, first: int, bricks: int) -> tuple[int, int]:
        """Planes that the candidates of so many bricks and their patches touch."""
        begin, end = planes_of(self._problem.shape, first, bricks)
        reach = self._problem.windows.search[0] + build.RADIUS
        return max(begin - reach, 0), min(end + reach, self._problem.shape[0])

    def _measure(self, begin: int, end: int) -> None:
        """Local mean and variance of these planes, and -1 for the variance of voxels that are not usable."""
        import cupy

        p, i = self._problem, np.int32
        if self._measured[0] <= begin and end <= self._measured[1]:
            return
        if self._moments is None or len(self._moments) < end - begin:
            self._moments = cupy.empty((end - begin, *p.shape[1:], 2), np.float32)
        box = [i(radius) for radius in p.windows.box]
        arguments = (self._values, self._usable, *map(i, p.shape), *box, i(begin), i(end - begin), self._moments)
        blocks = -(-(end - begin) * math.prod(p.shape[1:]) // 256)
        self._kernel("local_moments")((blocks,), (256,), arguments)
        self._measured = begin, end

    def _filter(self, first: int, bricks: int) -> None:
        """Both passes over a slab of bricks; the candidates that the first chooses are kept for the second."""
        import cupy

        p, f, i = self._problem, np.float32, np.int32
        if self._chosen is None:
            self._chosen = cupy.empty(build.chosen_words(p, self._build.column) * self._slab, np.uint32)
        common = (
            self._values, self._moments, i(self._measured[0]), *map(i, p.shape), *map(i, p.windows.search),
            self._weights, f(p.maximum), i(first), self._chosen, self._sums,
        )  # fmt: skip
        self._launch("find_least", bricks, common)
        self._launch("average", bricks, (*common, f(p.floor), f(p.cutoff), self._estimates))

    def _launch(self, name: str, bricks: int, arguments: tuple[Any, ...]) -> None:
        launched = self._kernel(name)
        shared = build.shared_bytes(self._problem, self._build)
        if shared > launched.max_dynamic_shared_size_bytes:  # a kernel must ask for more than it gets
            launched.max_dynamic_shared_size_bytes = shared
        blocks = build.blocks_of_a_brick(self._build.column) * bricks
        launched((blocks,), (build.THREADS,), arguments, shared_mem=shared)

    @property
    def done(self) -> list[tuple[int, int]]:
        """Ranges (start, count) of bricks that are done."""
        return self._done

    def part(self) -> Partial:
        """Sums and estimates of the planes where bricks are done, on the GPU; another run may take them from there."""
        import cupy

        ends = [planes_of(self._problem.shape, start, count) for start, count in self._done] or [(0, 0)]
        begin, end = min(first for first, _ in ends), max(last for _, last in ends)
        with cupy.cuda.Device(self.device.indices[0]) as here:
            sums, estimates = (cupy.ascontiguousarray(array[:, begin:end]) for array in (self._sums, self._estimates))
            here.synchronize()  # since another GPU does not wait for what is still to be done here
        return Partial(sums, estimates, list(self._done), begin)

    def snapshot(self) -> Partial:
        """Sums and estimates of the planes where bricks are done, as NumPy."""
        import cupy

        part = self.part()
        with cupy.cuda.Device(self.device.indices[0]):
            return dataclasses.replace(part, sums=to_host(part.sums), estimates=to_host(part.estimates))

    def merge(self, other: Partial) -> None:
        """Take over bricks that another run has done, on the host or on any GPU."""
        import cupy

        self._let_slabs_go()
        with cupy.cuda.Device(self.device.indices[0]):
            for mine, theirs in ((self._sums, other.sums), (self._estimates, other.estimates)):
                found = cupy.array(theirs)  # from GPU to GPU directly
                for here, there in other.boxes(self._problem):
                    mine[here] = found[there]
                del found
        self._done.extend(other.done)

    def finish(self) -> Filtered:
        """Correct for Rician bias and mix the patches, in all of the volume."""
        import cupy

        self._let_slabs_go()
        with cupy.cuda.Device(self.device.indices[0]):
            found = Filtered(*(host_room(self._problem.shape, np.float32) for _ in Filtered._fields))
            for begin, end in self._mixed_slabs():
                self._finish_planes(begin, end, Filtered(*(array[begin:end] for array in found)))
        return found

    def _mixed_slabs(self) -> Iterator[tuple[int, int]]:
        """Planes that are mixed together, from an even one on, since even and odd ones have taps of their own."""
        nx, ny, nz = self._problem.shape
        planes = max(2 * HALO, _MIXED_VOXELS // (ny * nz) // 2 * 2)
        for begin in range(0, nx, planes):
            yield begin, min(begin + planes, nx)

    def _finish_planes(self, begin: int, end: int, out: Filtered) -> None:
        """Some planes, made with as many beside them as reach into them."""
        import cupy

        first = max(begin - HALO, 0)
        read = slice(first, end + HALO)
        known = None if self._problem.variance is None else cupy.asarray(self._problem.variance[read])
        arrays = Arrays(self._values[read], self._usable[read], self._sums[:, read], self._estimates[:, read], known)
        inner = slice(begin - first, end - first)
        for array, there in zip(finish(self._problem, arrays, self._filter_axis, cupy), out, strict=True):
            to_host(array[inner], there)

    def _filter_axis(self, array: Any, axis: int, taps: Any) -> Any:
        """Filter along lines of an axis; ``taps`` has a row for even, one for odd positions, beyond the ends is 0."""
        import cupy

        if id(taps) not in self._taps:  # uploaded once, and kept with its array so that the number stays that of these
            self._taps[id(taps)] = taps, cupy.asarray(taps)
        array, out, i = cupy.ascontiguousarray(array), cupy.empty(array.shape, np.float32), np.int32
        lines = i(math.prod(array.shape[:axis])), i(array.shape[axis]), i(math.prod(array.shape[axis + 1 :]))
        arguments = (array, *lines, self._taps[id(taps)][1], i(taps.shape[1] // 2), out)
        self._kernel("filter_lines")((-(-array.size // 256),), (256,), arguments)
        return out

    def close(self) -> None:
        """Let the device arrays go."""
        self._let_slabs_go()
        self._taps.clear()
        self._values = self._usable = self._sums = self._estimates = self._weights = None

    def _let_slabs_go(self) -> None:
        """Give the room of what belongs to a slab to others; it comes back when it is needed."""
        self._moments = self._chosen = None
        self._measured = 0, 0


def _slab_of(problem: Problem, column: int) -> int:
    """Bricks that are filtered together: whole layers, where there is room for the candidates of one."""
    fit = max(1, _CHOSEN_BYTES // (4 * build.chosen_words(problem, column)))
    layer = math.prod(brick_counts(problem.shape)[1:])
    return min(fit // layer * layer or fit, problem.bricks)
