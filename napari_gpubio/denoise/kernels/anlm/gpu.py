"""Adaptive non-local means in CUDA, the counterpart of ``cpu.py``; the kernels are in ``anlm.cu``."""

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, host_room, shared_memory_bytes, to_host
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.denoise.kernels.anlm.problem import BRICK, NOTHING, Problem, brick_counts, planes_of
from napari_gpubio.denoise.kernels.anlm.tally import Arrays, Filtered, Operations, Partial, finish_slab, mixed_slabs

THREADS, ROWS, SIMD_WIDTH, RADIUS = 512, 16, 32, 2  # of a block; as in the kernel


class Build(NamedTuple):
    """How the kernels are built: voxels of a thread along x, and displacements between two barriers."""

    column: int
    together: int


BUILDS = (Build(2, 4), Build(2, 2), Build(2, 1), Build(1, 1))  # from the fastest to the least shared memory


def defines_of(problem: Problem, build: Build) -> tuple[str, ...]:
    """The specialization of the kernels that a problem needs."""
    settings, (a, b_with_c, anything) = problem.settings, problem.flags
    cubes = problem.windows.patches in (((1, 1, 1),), ((2, 2, 2),), ((1, 1, 1), (2, 2, 2)))
    return (
        f"PATCHES={len(problem.windows.patches)}",
        f"CUBES={int(cubes and problem.variance is None)}",
        f"LARGEST={int(settings.center == 'largest')}",
        f"SQUARES={int(settings.is_rician)}",
        f"A_SUFFICES={a}",
        f"B_WITH_C_SUFFICES={b_with_c}",
        f"ANYTHING={anything}",
        f"KNOWN={int(problem.variance is not None)}",
        f"COLUMN={build.column}",
        f"PITCH={SIMD_WIDTH + 2 * problem.windows.search[2]}",
        f"TOGETHER={build.together}",
    )


def blocks_of_a_brick(column: int) -> int:
    """Blocks of threads that filter a brick."""
    x, y, z = BRICK
    return x // column * (y // (ROWS - 2 * RADIUS)) * (z // (SIMD_WIDTH - 2 * RADIUS))


def chosen_words(problem: Problem, column: int) -> int:
    """Words that mark the candidates of the voxels of a brick: a bit for each displacement, by displacement in x."""
    x, y, z = (2 * radius + 1 for radius in problem.windows.search)
    inner = (ROWS - 2 * RADIUS) * (SIMD_WIDTH - 2 * RADIUS)
    return blocks_of_a_brick(column) * x * -(-y * z // 32) * column * inner


def shared_bytes(problem: Problem, build: Build) -> int:
    """Shared memory of a block: sums along x, along x and y, displaced values with their moments, displacements."""
    (_, y, z), column = problem.windows.search, build.column
    sums = len(problem.windows.patches) * column * (THREADS + (ROWS - 2 * RADIUS) * SIMD_WIDTH)
    lines = (column + 2 * RADIUS) + 2 * column  # of values and of their moments
    tile = lines * (ROWS + 2 * y) * (SIMD_WIDTH + 2 * z)
    return 4 * (build.together * sums + tile + (2 * y + 1) * (2 * z + 1))


def build_of(problem: Problem, limit_bytes: int) -> Build:
    """The fastest build that the shared memory has room for."""
    for build in BUILDS:
        if shared_bytes(problem, build) <= limit_bytes:
            return build
    raise InvalidInput(
        f"the search window needs {shared_bytes(problem, BUILDS[-1]) // 1024} kB of a GPU's shared memory, and this "
        f"one has {limit_bytes // 1024} kB; take a smaller search radius, or device='cpu'"
    )


SOURCE = Path(__file__).with_name("anlm.cu")
MAX_VOXELS = 2**31 - 1  # since their numbers have 32 bits
CHOSEN_BYTES = 128 << 20  # for the candidates of the bricks that are filtered together

SLAB = struct_layout(
    dict.fromkeys(("values", "usable", "moments", "weights", "chosen", "sums", "estimates"), POINTER)
    | dict.fromkeys(("shape", "box", "search"), (np.int32, 3))
    | dict.fromkeys(("first_plane", "planes", "first_brick"), np.int32)
    | dict.fromkeys(("maximum", "floor", "cutoff"), np.float32)
    | {"offsets": (np.float32, 2)}
)  # as struct Slab in anlm.cu


class Run(drivers.Run):
    """The filtering of one volume on one GPU; items are bricks."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        if problem.values.size > MAX_VOXELS:
            raise InvalidInput(
                f"the volume has {problem.values.size:,} voxels and a GPU takes {MAX_VOXELS:,} at most; denoise it in "
                "parts, or with device='cpu'"
            )
        self._done: list[tuple[int, int]] = []
        self._kernels: dict[str, Any] = {}
        self._taps: dict[int, tuple[Any, Any]] = {}
        self._build = build_of(problem, shared_memory_bytes(device))
        self._slab = slab_of(problem, self._build.column)
        self._moments = self._chosen = None
        self._measured = 0, 0  # planes that the moments are those of
        with device.current():
            self._values, self._usable = cupy.asarray(problem.values), cupy.asarray(problem.usable)
            self._sums, self._estimates = self._blank()
            self._weights = cupy.asarray(problem.patch_weights)

    def _blank(self) -> tuple[Any, Any]:
        """Sums and estimates before any brick is done, as those of `Partial.empty`."""
        import cupy

        p, patches = self._problem, len(self._problem.windows.patches)
        sums = p.known_sums(xp=cupy)
        if sums is None:
            sums = cupy.full((patches, *p.shape), np.float32(NOTHING))
        values = cupy.square(self._values) if p.settings.is_rician else self._values
        return sums, cupy.stack([values] * patches)

    def _kernel(self, name: str) -> Any:
        if name not in self._kernels:
            defines = defines_of(self._problem, self._build)
            self._kernels[name] = kernel(SOURCE, name, defines=defines, fast=True)
        return self._kernels[name]

    def advance(self, start: int, count: int) -> None:
        """Filter the bricks ``start`` to ``start + count - 1``."""
        with self.device.current() as here:
            for first in range(start, start + count, self._slab):
                bricks = min(self._slab, start + count - first)
                self._measure(*planes_read(self._problem, first, bricks))
                self._filter(first, bricks)
            here.synchronize()
        self._done.append((start, count))

    def _measure(self, begin: int, end: int) -> None:
        """Local mean and variance of these planes, and -1 for the variance of voxels that are not usable."""
        import cupy

        if self._measured[0] <= begin and end <= self._measured[1]:
            return
        shape = self._problem.shape
        if self._moments is None or len(self._moments) < end - begin:
            self._moments = cupy.empty((end - begin, *shape[1:], 2), np.float32)
        self._measured = begin, end
        blocks = -(-(end - begin) * math.prod(shape[1:]) // 256)
        self._kernel("local_moments")((blocks,), (256,), (self._slab_struct(0),))

    def _filter(self, first: int, bricks: int) -> None:
        """Both passes over a slab of bricks; the candidates that the first chooses are kept for the second.

        Where the noise is known, there is no first one.
        """
        import cupy

        is_known = self._problem.variance is not None
        if self._chosen is None and not is_known:
            self._chosen = cupy.empty(chosen_words(self._problem, self._build.column) * self._slab, np.uint32)
        slab = self._slab_struct(first)
        if not is_known:
            self._launch("find_least", bricks, slab)
        self._launch("average", bricks, slab)

    def _slab_struct(self, first_brick: int) -> np.void:
        """The kernels' argument: the volume, the planes whose moments are known, and the first brick to filter."""
        p, (begin, end) = self._problem, self._measured
        return struct(
            SLAB,
            values=self._values,
            usable=self._usable,
            moments=self._moments,
            weights=self._weights,
            chosen=self._chosen,
            sums=self._sums,
            estimates=self._estimates,
            shape=p.shape,
            box=p.windows.box,
            search=p.windows.search,
            first_plane=begin,
            planes=end - begin,
            first_brick=first_brick,
            maximum=p.maximum,
            floor=p.floor,
            cutoff=p.cutoff,
            offsets=np.resize(p.offsets, 2),
        )

    def _launch(self, name: str, bricks: int, slab: np.void) -> None:
        launched = self._kernel(name)
        shared = shared_bytes(self._problem, self._build)
        if shared > launched.max_dynamic_shared_size_bytes:  # more than the default must be requested
            launched.max_dynamic_shared_size_bytes = shared
        blocks = blocks_of_a_brick(self._build.column) * bricks
        launched((blocks,), (THREADS,), (slab,), shared_mem=shared)

    @property
    def done(self) -> list[tuple[int, int]]:
        """Ranges (start, count) of bricks that are done."""
        return self._done

    def part(self) -> Partial:
        """Sums and estimates of the planes where bricks are done, on the GPU; another run may take them from there."""
        import cupy

        ends = [planes_of(self._problem.shape, start, count) for start, count in self._done] or [(0, 0)]
        begin, end = min(first for first, _ in ends), max(last for _, last in ends)
        with self.device.current() as here:
            sums, estimates = (cupy.ascontiguousarray(array[:, begin:end]) for array in (self._sums, self._estimates))
            here.synchronize()  # since another GPU does not wait for what is still to be done here
        return Partial(sums, estimates, list(self._done), begin)

    def snapshot(self) -> Partial:
        """Sums and estimates of the planes where bricks are done, as NumPy."""
        part = self.part()
        with self.device.current():
            return dataclasses.replace(part, sums=to_host(part.sums), estimates=to_host(part.estimates))

    def merge(self, other: Partial) -> None:
        """Take over bricks that another run has done, on the host or on any GPU."""
        import cupy

        self._free_slabs()
        with self.device.current():
            for mine, theirs in ((self._sums, other.sums), (self._estimates, other.estimates)):
                found = cupy.array(theirs)  # from GPU to GPU directly
                for here, there in other.boxes(self._problem):
                    mine[here] = found[there]
                del found
        self._done.extend(other.done)

    def finish(self) -> Filtered:
        """Correct for Rician bias and mix the patches, in all of the volume."""
        with self.device.current():
            found = self.room()
            for slab in mixed_slabs(self._problem.shape):
                self.finish_slab(slab, found)
        return found

    def room(self) -> Filtered:
        """Memory for the finished volume."""
        return Filtered(*(host_room(self._problem.shape, np.float32) for _ in Filtered._fields))

    def finish_slab(self, slab: slice, out: Filtered) -> None:
        """As `finish`, some planes of the volume."""
        import cupy

        self._free_slabs()
        with self.device.current():
            arrays = Arrays(self._values, self._usable, self._sums, self._estimates)
            operations = Operations(self.filter_axis, _interpolate, cupy)
            for array, there in zip(finish_slab(self._problem, arrays, slab, operations), out, strict=True):
                to_host(array, there[slab])

    def filter_axis(self, array: Any, axis: int, taps: Any) -> Any:
        """Filter along lines of an axis; ``taps`` has a row for even, one for odd positions, beyond the ends is 0."""
        import cupy

        if id(taps) not in self._taps:  # uploaded once, and kept with its array so that the number stays that of these
            self._taps[id(taps)] = taps, cupy.asarray(taps)
        array, out, i = cupy.ascontiguousarray(array), cupy.empty(array.shape, np.float32), np.int32
        lines = i(math.prod(array.shape[:axis])), i(array.shape[axis]), i(math.prod(array.shape[axis + 1 :]))
        arguments = (array, *lines, self._taps[id(taps)][1], i(taps.shape[1] // 2), out)
        self._kernel("filter_lines")((-(-array.size // 256),), (256,), arguments)
        return out

    def _free_slabs(self) -> None:
        """Free the arrays of a slab; they are allocated again when needed."""
        self._moments = self._chosen = None
        self._measured = 0, 0


def _interpolate(places: Any, known: Any, values: Any) -> Any:
    import cupy

    return cupy.interp(places, known, values).astype(np.float32)


def planes_read(problem: Problem, first: int, bricks: int) -> tuple[int, int]:
    """Planes that the candidates of so many bricks and their patches touch."""
    begin, end = planes_of(problem.shape, first, bricks)
    reach = problem.windows.search[0] + RADIUS
    return max(begin - reach, 0), min(end + reach, problem.shape[0])


def slab_of(problem: Problem, column: int) -> int:
    """Bricks that are filtered together: whole layers, where there is room for the candidates of one."""
    fit = max(1, CHOSEN_BYTES // (4 * chosen_words(problem, column)))
    layer = math.prod(brick_counts(problem.shape)[1:])
    return min(fit // layer * layer or fit, problem.items)
