"""Adaptive non-local means in CUDA, the twin of ``cpu.py``; the kernels are in ``anlm.cu``."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, shared_memory_bytes, to_host
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.kernels import kernel
from napari_gpubio.denoise.partial import Arrays, Filtered, Partial, finish
from napari_gpubio.denoise.problem import NOTHING, Problem
from napari_gpubio.denoise.windows import BRICK, reach_weights

_SOURCE = Path(__file__).with_name("anlm.cu")
_THREADS, _ROWS, _LANES, _RADIUS, _PITCH = 512, 16, 32, 2, 64  # of a block; as in the kernel
MOST_VOXELS = 2**31 - 1  # since their numbers have 32 bits
_CHOSEN_BYTES = 128 << 20  # for the candidates of the bricks that are filtered together
COLUMN = 2  # voxels of a thread along x


def defines_of(problem: Problem, together: int) -> tuple[str, ...]:
    """The specialisation of the kernels that a problem needs, with so many displacements between two barriers."""
    settings, (a, b_with_c, anything) = problem.settings, problem.flags
    cubes = int(problem.windows.patches in (((1, 1, 1),), ((2, 2, 2),), ((1, 1, 1), (2, 2, 2))))
    return (
        f"PATCHES={len(problem.windows.patches)}",
        f"CUBES={cubes}",
        f"LARGEST={int(settings.centre == 'largest')}",
        f"SQUARES={int(settings.is_rician)}",
        f"A_SUFFICES={a}",
        f"B_WITH_C_SUFFICES={b_with_c}",
        f"ANYTHING={anything}",
        f"REMEMBERED={int(problem.variance is None)}",
        f"COLUMN={COLUMN}",
        f"TOGETHER={together}",
    )


class Run:
    """The filtering of one volume on one GPU; items are bricks."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        import cupy

        self.device = device
        self._problem = problem
        self._done: list[tuple[int, int]] = []
        self._kernels: dict[str, Any] = {}
        is_known = problem.variance is not None
        self._together = together_of(problem, shared_memory_bytes(device))
        with cupy.cuda.Device(device.indices[0]):
            self._values, self._usable = cupy.asarray(problem.values), cupy.asarray(problem.usable)
            self._sums, self._estimates = self._blank()
            self._moments = cupy.empty((*problem.shape, 2), np.float32)
            self._slab = max(1, min(problem.bricks, _CHOSEN_BYTES // (4 * _chosen_words(problem))))
            self._chosen = None if is_known else cupy.empty(_chosen_words(problem) * self._slab, np.uint32)
            self._weights = cupy.asarray(reach_weights(problem.windows))
            self._measure()

    def _blank(self) -> tuple[Any, Any]:
        """Sums and estimates before any brick is done, as those of `Partial.empty`."""
        import cupy

        p, patches = self._problem, len(self._problem.windows.patches)
        known = p.known_sums()
        sums = cupy.full((patches, *p.shape), np.float32(NOTHING)) if known is None else cupy.asarray(known)
        values = cupy.square(self._values) if p.settings.is_rician else self._values
        return sums, cupy.stack([values] * patches)

    def _measure(self) -> None:
        """Local mean and variance, and -1 for the variance of voxels that are not usable."""
        i = np.int32
        box = [i(radius) for radius in self._problem.windows.box]
        arguments = (self._values, self._usable, *map(i, self._problem.shape), *box, self._moments)
        blocks = -(-self._values.size // 256)
        self._kernel("local_moments")((blocks,), (256,), arguments)

    def _kernel(self, name: str) -> Any:
        if name not in self._kernels:
            defines = defines_of(self._problem, self._together)
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
                self._filter(first, min(self._slab, start + count - first))
            here.synchronize()
        self._done.append((start, count))

    def _filter(self, first: int, bricks: int) -> None:
        """Both passes over a slab of bricks; the candidates that the first chooses are kept for the second."""
        p, f, i = self._problem, np.float32, np.int32
        common = (
            self._values, self._moments, *map(i, p.shape), *map(i, p.windows.search), self._weights,
            f(p.maximum), i(first), self._chosen, self._sums,
        )  # fmt: skip
        if p.variance is None:
            self._launch("find_least", bricks, common)
        self._launch("average", bricks, (*common, f(p.floor), f(p.cutoff), self._estimates))

    def _launch(self, name: str, bricks: int, arguments: tuple[Any, ...]) -> None:
        launched = self._kernel(name)
        shared = shared_bytes(self._problem, self._together)
        if shared > launched.max_dynamic_shared_size_bytes:  # a kernel must ask for more than it gets
            launched.max_dynamic_shared_size_bytes = shared
        launched((_blocks_of_a_brick() * bricks,), (_THREADS,), arguments, shared_mem=shared)

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
        self._weights = self._moments = self._chosen = None


def _blocks_of_a_brick() -> int:
    x, y, z = BRICK
    return x // COLUMN * (y // (_ROWS - 2 * _RADIUS)) * (z // (_LANES - 2 * _RADIUS))


def _chosen_words(problem: Problem) -> int:
    """Words that say which candidates the voxels of a brick have: a bit for each displacement, by displacement in x."""
    x, y, z = (2 * radius + 1 for radius in problem.windows.search)
    inner = (_ROWS - 2 * _RADIUS) * (_LANES - 2 * _RADIUS)
    return _blocks_of_a_brick() * x * -(-y * z // 32) * COLUMN * inner


def shared_bytes(problem: Problem, together: int) -> int:
    """Shared memory of a block: displaced values, sums along x, and sums along x and y."""
    tile = (COLUMN + 2 * _RADIUS) * (_ROWS + 2 * problem.windows.search[1]) * _PITCH
    sums = len(problem.windows.patches) * COLUMN * (_THREADS + (_ROWS - 2 * _RADIUS) * _LANES)
    return 4 * (tile + together * sums)


def together_of(problem: Problem, limit_bytes: int) -> int:
    """Displacements between two barriers: the more the faster, as far as the shared memory goes."""
    for together in (4, 2, 1):
        if shared_bytes(problem, together) <= limit_bytes:
            return together
    raise InvalidInput(
        f"the search window needs {shared_bytes(problem, 1) // 1024} kB of a GPU's shared memory, and this one has "
        f"{limit_bytes // 1024} kB; take a smaller search radius, or device='cpu'"
    )
