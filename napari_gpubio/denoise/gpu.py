"""Adaptive non-local means in CUDA, the twin of ``cpu.py``; the kernels are in ``anlm.cu``."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import kernel
from napari_gpubio.denoise.partial import Arrays, Filtered, Partial, finish
from napari_gpubio.denoise.problem import Problem
from napari_gpubio.denoise.windows import reach_weights

_SOURCE = Path(__file__).with_name("anlm.cu")
_THREADS, _ROWS, _LANES, _RADIUS, _PITCH = 896, 28, 32, 2, 64  # of a block; as in the kernel
COLUMN = 2  # voxels of a thread along x
TOGETHER = 4  # displacements between two barriers
_BRICK_X, _BRICK_Z = 8, 56


def defines_of(problem: Problem) -> tuple[str, ...]:
    """The specialisation of the kernels that a problem needs."""
    largest = int(problem.settings.centre == "largest")
    cubes = int(problem.windows.patches in (((1, 1, 1),), ((2, 2, 2),), ((1, 1, 1), (2, 2, 2))))
    sizes = f"COLUMN={COLUMN}", f"TOGETHER={TOGETHER}"
    return (f"PATCHES={len(problem.windows.patches)}", f"CUBES={cubes}", f"LARGEST={largest}", *sizes, "FAST_MATH=1")


class Run:
    """The filtering of one volume on one GPU; items are bricks."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        import cupy

        self.device = device
        self._problem = problem
        self._done: list[tuple[int, int]] = []
        with cupy.cuda.Device(device.indices[0]):
            blank = Partial.empty(problem)
            self._values, self._usable = cupy.asarray(problem.values), cupy.asarray(problem.usable)
            self._sums, self._estimates = cupy.asarray(blank.sums), cupy.asarray(blank.estimates)
            self._moments = cupy.empty((*problem.shape, 2), np.float32)
            self._weights = cupy.asarray(reach_weights(problem.windows))
            self._measure()

    def _measure(self) -> None:
        """Local mean and variance, and -1 for the variance of voxels that are not usable."""
        i = np.int32
        box = [i(radius) for radius in self._problem.windows.box]
        arguments = (self._values, self._usable, *map(i, self._problem.shape), *box, self._moments)
        blocks = -(-self._values.size // 256)
        self._kernel("local_moments")((blocks,), (256,), arguments)

    def _kernel(self, name: str) -> Any:
        return kernel(_SOURCE, name, defines=defines_of(self._problem))

    def bytes_per_item(self) -> int:
        """Nothing beyond what is resident."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Filter the bricks ``start`` to ``start + count - 1``."""
        import cupy

        p, f, i = self._problem, np.float32, np.int32
        common = (
            self._values, self._moments, *map(i, p.shape), *map(i, p.windows.search), self._weights,
            *map(i, p.flags), f(p.maximum), i(start), self._sums,
        )  # fmt: skip
        with cupy.cuda.Device(self.device.indices[0]) as here:
            if p.variance is None:
                self._launch("find_least", count, common)
            last = f(p.floor), f(p.cutoff), i(p.settings.is_rician), self._estimates
            self._launch("average", count, (*common, *last))
            here.synchronize()
        self._done.append((start, count))

    def _launch(self, name: str, bricks: int, arguments: tuple[Any, ...]) -> None:
        launched = self._kernel(name)
        shared = shared_bytes(self._problem)
        if shared > launched.max_dynamic_shared_size_bytes:  # a kernel must ask for more than it gets
            launched.max_dynamic_shared_size_bytes = shared
        parts = _BRICK_X // COLUMN * (_BRICK_Z // (_LANES - 2 * _RADIUS))
        launched((parts * bricks,), (_THREADS,), arguments, shared_mem=shared)

    def snapshot(self) -> Partial:
        """Sums and estimates of the bricks that are done, as NumPy."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            return Partial(to_host(self._sums), to_host(self._estimates), list(self._done))

    def merge(self, other: Partial) -> None:
        """Take over bricks that another run has done."""
        import cupy

        whole = self.snapshot()
        whole.merge(other, self._problem)
        with cupy.cuda.Device(self.device.indices[0]):
            self._sums, self._estimates = cupy.asarray(whole.sums), cupy.asarray(whole.estimates)
        self._done = whole.done

    def finish(self) -> Filtered:
        """Correct for Rician bias and mix the patches, in all of the volume."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            arrays = Arrays(self._values, self._usable, self._sums, self._estimates)
            values, variance = finish(self._problem, arrays, self._filter_axis, cupy)
            return Filtered(to_host(values), to_host(variance))

    def _filter_axis(self, array: Any, axis: int, taps: Any) -> Any:
        """Filter along lines of an axis; ``taps`` has a row for even, one for odd positions, beyond the ends is 0."""
        import cupy

        array, out, i = cupy.ascontiguousarray(array), cupy.empty(array.shape, np.float32), np.int32
        lines = i(math.prod(array.shape[:axis])), i(array.shape[axis]), i(math.prod(array.shape[axis + 1 :]))
        arguments = (array, *lines, cupy.asarray(taps), i(taps.shape[1] // 2), out)
        self._kernel("filter_lines")((-(-array.size // 256),), (256,), arguments)
        return out

    def close(self) -> None:
        """Let the device arrays go."""
        self._values = self._usable = self._sums = self._estimates = None
        self._weights = self._moments = None


def shared_bytes(problem: Problem) -> int:
    """Shared memory of a block: displaced values, sums along x, and sums along x and y."""
    tile = (COLUMN + 2 * _RADIUS) * (_ROWS + 2 * problem.windows.search[1]) * _PITCH
    sums = len(problem.windows.patches) * COLUMN * (_THREADS + (_ROWS - 2 * _RADIUS) * _LANES)
    return 4 * (tile + TOGETHER * sums)
