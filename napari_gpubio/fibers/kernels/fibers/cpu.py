"""Tracing of fibers on all CPU cores: what its kinds share."""

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import BLOCKS_PER_THREAD, run_blocks
from napari_gpubio.fibers.kernels.fibers.problem import FiberProblem, Fibers, RayOutput, Rays
from napari_gpubio.fibers.kernels.fibers.tally import AT_SEED, PATH, STATS, Partial, arrivals, kept_fibers, left_over
from napari_gpubio.fibers.kernels.packing import pack

Array = npt.NDArray[Any]


class FiberRun(drivers.Run):
    """The tracing of one problem on the CPU; items are fibers.

    A subclass has its ``kernel``, how many arrays of coefficients a call of it works in, and how fibers are shared out.
    """

    kernel: ClassVar[Any]
    scratch: ClassVar[int] = 0
    least: ClassVar[int] = 1
    blocks_per_thread: ClassVar[int] = BLOCKS_PER_THREAD

    def __init__(self, problem: FiberProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._volumes, self._settings = self._prepared(problem), problem.scalars

    def _prepared(self, problem: Any) -> Any:
        """What all rays read."""
        return problem.volumes

    def launch(self, rays: Rays, output: RayOutput) -> None:
        """Trace rays, one row of the output for each."""
        shape = self.scratch, self._volumes[0].shape[3]

        def trace(start: int, stop: int) -> None:
            memory = tuple(np.empty(shape, self._problem.real))
            self.kernel(start, stop, self._volumes, self._settings, rays, memory, output)

        blocks = self.blocks_per_thread
        run_blocks(trace, len(output.written), least=self.least, blocks_per_thread=blocks)

    def bytes_per_item(self) -> int:
        """Bytes of the buffers that one fiber takes."""
        return 2 * self._problem.lengths.ray_points * 4 * np.dtype(self._problem.real).itemsize

    def allocate(self, rays: Rays) -> tuple[Rays, RayOutput]:
        """Return the rays, and memory for their points."""
        p, rows = self._problem, len(rays.seeds) * rays.per_fiber
        output = RayOutput(
            points=np.empty((rows, p.lengths.ray_points, 4), p.real),
            written=np.empty(rows, np.int32),
            reasons=np.empty(rows, np.uint8),
            stats=np.empty((rows, STATS), p.real),
        )
        return rays, output

    def trace(self, rays: Rays, output: RayOutput) -> Rays:
        """Trace fibers: each way up to its share of their length, then those to which the other way has left some.

        Returns the rays as they were launched last.
        """
        self.launch(rays, output)
        if rays.per_fiber == 2:
            limits = left_over(output.reasons, output.stats[:, PATH], self._problem.lengths.max_length_mm)
            if (limits >= 0).any():
                rays = rays._replace(limits=limits)
                self.launch(rays, output)
        return rays

    def advance(self, start: int, count: int) -> None:
        """Trace the fibers ``start`` to ``start + count - 1``."""
        rays, output = self.allocate(self._problem.rays(start, count))
        self.trace(rays, output)
        which = np.arange(count)
        if self._problem.only_target:
            which = arrivals(output.reasons, rays.per_fiber)
            rays, output = rays.of(which), output.of(which, rays.per_fiber)
        self._finished.append(self._packed(start, count, which, rays, output))

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:
        """The number of each fiber's seed, shape (F,)."""
        return np.ascontiguousarray(output.stats[:: rays.per_fiber, AT_SEED])

    def _packed(self, start: int, launched: int, which: Array, rays: Rays, output: RayOutput) -> Partial:
        p, count = self._problem, len(rays.seeds)
        per_ray = output.written.astype(np.int64).reshape(count, rays.per_fiber)
        stats = output.stats.reshape(*per_ray.shape, STATS)
        kept, offsets = kept_fibers(per_ray, stats, p.lengths.min_length_mm)
        fibers = Fibers(offsets, np.empty((offsets[-1], 3), np.float32), np.empty(offsets[-1], np.float32))
        run_blocks(
            pack, count, np.array(p.volume.affine), rays, self.seed_values(rays, output), output, fibers, least=64
        )
        return Partial(
            start=start,
            launched=launched,
            which=which[kept],
            points=fibers.points,
            values=fibers.values,
            offsets=np.concatenate([[0], offsets[1:][kept]]),
            reasons=output.reasons.reshape(per_ray.shape)[kept],
            stats=stats[kept],
        )
