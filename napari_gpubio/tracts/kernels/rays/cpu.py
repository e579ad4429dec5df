"""Ray tracing on all CPU cores (Numba), the counterpart of ``gpu.py``; the numerics are in ``geodesic.py``."""

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.intrinsics import SIMD_WIDTH
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.tracts.kernels.rays.geodesic import pack, trace
from napari_gpubio.tracts.kernels.rays.problem import (
    CUBIC,
    EUDX,
    VANAART,
    Fibers,
    RayGrid,
    RayOutput,
    RayProblem,
    Rays,
    RayVolumes,
    spline_coefficients,
)
from napari_gpubio.tracts.kernels.rays.tally import STATS, Partial, arrivals
from napari_gpubio.tracts.kernels.tensors.cpu import compose, eigen_decompose

Array = npt.NDArray[Any]


def prepare_field(problem: RayProblem) -> Array:
    """Compute the volume that the rays read, in the problem's precision.

    Shape (X + 3, Y + 3, Z + 3, 6) of spline coefficients of W, (X, Y, Z, 6) of W, (X, Y, Z, 24) of W and three
    differences of g, or one voxel where the method reads the guide only.
    """
    if problem.kind == EUDX:
        return np.zeros((1, 1, 1, 6), problem.real)
    values, vectors = eigen_decompose(problem.tensors().astype(problem.real, copy=False))
    dual = problem.dual_eigenvalues(values)
    to_voxel = problem.to_voxel[:3, :3]
    field = compose(dual, vectors, to_voxel)
    if problem.kind == VANAART:
        g = compose(1.0 / dual, vectors, problem.volume.affine[:3, :3].T)
        field = np.concatenate([field, *(np.gradient(g, axis=a) for a in range(3))], axis=-1)
    elif problem.kind == CUBIC:
        field = spline_coefficients(field, interpolating=problem.settings.interpolation == "interpolating")
    return with_spare(field, problem.real)


def with_spare(field: Array, real: type[np.floating[Any]]) -> Array:
    """Return a contiguous copy with some readable memory behind its end: the tracer reads eight numbers at a time."""
    memory = np.zeros(field.size + SIMD_WIDTH, real)
    copy = memory[: field.size].reshape(field.shape)
    copy[...] = field
    return copy


class Run:
    """The tracing of one problem on the CPU; items are fibers."""

    def __init__(self, problem: RayProblem, *, device: Device = CPU) -> None:
        self.device = device
        self._problem = problem
        self._field = problem.prepared("field", lambda: prepare_field(problem))
        euclid = tuple(problem.real(m) for m in problem.euclid)
        self._volumes = RayVolumes(self._field, problem.guide, problem.mask, RayGrid(euclid, problem.volume.shape))
        self._parts: deque[Partial] = deque()  # taken from another thread than it is filled from

    def bytes_per_item(self) -> int:
        """Bytes of the buffers that one fiber takes."""
        return 2 * self._problem.settings.ray_points * 4 * np.dtype(self._problem.real).itemsize

    def allocate(self, rays: Rays) -> tuple[Rays, RayOutput]:
        """Return the rays, and memory for their points."""
        p, rows = self._problem, len(rays.seeds) * rays.per_fiber
        output = RayOutput(
            points=np.empty((rows, p.settings.ray_points, 4), p.real),
            written=np.empty(rows, np.int32),
            reasons=np.empty(rows, np.uint8),
            stats=np.empty((rows, STATS), p.real),
        )
        return rays, output

    def launch(self, rays: Rays, output: RayOutput) -> None:
        """Trace rays, one row of the output for each."""
        run_blocks(trace, len(output.written), self._volumes, self._problem.ray_settings, rays, output, least=4)

    def advance(self, start: int, count: int) -> None:
        """Trace the fibers ``start`` to ``start + count - 1``."""
        rays, output = self.allocate(self._problem.rays(start, count))
        self.launch(rays, output)
        which = np.arange(count)
        if self._problem.only_target:
            which = arrivals(output.reasons, rays.per_fiber)
            rays, output = rays.of(which), output.of(which, rays.per_fiber)
        self._parts.append(self._packed(start, count, which, rays, output))

    def take(self) -> list[Partial]:
        """Hand over the fibers finished so far, and forget them."""
        return [self._parts.popleft() for _ in range(len(self._parts))]

    def close(self) -> None:
        """Nothing to free on the CPU."""

    def _packed(self, start: int, launched: int, which: Array, rays: Rays, output: RayOutput) -> Partial:
        p, count = self._problem, len(rays.seeds)
        per_ray = output.written.astype(np.int64).reshape(count, rays.per_fiber)
        offsets = np.concatenate([[0], np.cumsum(per_ray.sum(axis=1) + 1)])
        fibers = Fibers(offsets, np.empty((offsets[-1], 3), np.float32), np.empty(offsets[-1], np.float32))
        run_blocks(pack, count, np.array(p.volume.affine), rays, p.fa_at(rays.seeds), output, fibers, least=64)
        return Partial(
            start=start,
            launched=launched,
            which=which,
            points=fibers.points,
            fa=fibers.fa,
            offsets=offsets,
            reasons=output.reasons.reshape(per_ray.shape),
            stats=output.stats.reshape(*per_ray.shape, STATS),
        )
