"""Tracing of fibers on one GPU: what its kinds share. The structs are those of ``packing.cuh``."""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.chunks import items_within_memory
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import POINTER, is_pointer, kernel, struct, struct_layout
from napari_gpubio.fibers.kernels.fibers.problem import FiberProblem, RayOutput, Rays
from napari_gpubio.fibers.kernels.fibers.tally import (
    AT_SEED,
    PATH,
    STATS,
    Partial,
    arrivals,
    joined,
    kept_fibers,
    left_over,
    no_fibers,
)

Array = npt.NDArray[Any]
LAYOUTS = {
    "Rays": struct_layout(
        dict.fromkeys(("seeds", "directions", "numbers", "limits"), POINTER)
        | {"per_fiber": np.int32, "count": np.int32}
    ),
    "RayOutput": struct_layout(
        dict.fromkeys(("points", "written", "reasons", "stats"), POINTER) | {"ray_points": np.int32}
    ),
    "Fibers": struct_layout(
        dict.fromkeys(("offsets", "seed_values", "points", "values"), POINTER) | {"affine": (np.float64, 12)}
    ),
}
_PACK_THREADS = 64


class FiberRun(drivers.Run):
    """The tracing of one problem on one GPU; items are fibers.

    A subclass has the ``source`` of its kernels and how they are compiled, and sets ``_volumes`` and ``_settings``, the
    structs that a kernel takes first. It may choose the kernel's name, threads of a block, and lanes of a ray.
    """

    source: ClassVar[Path]

    def __init__(self, problem: FiberProblem, *, device: Device, defines: tuple[str, ...]) -> None:
        super().__init__(problem, device=device)
        self._defines = defines
        self._chunk: tuple[Any, ...] = ()  # structs of the rays being traced and of their output
        self._arrays: list[Any] = []  # that structs point to
        self._volumes: Any = None
        self._settings: Any = None
        self._name, self._threads, self._lanes = "trace", 64, 1

    def _uploaded(self, layout: np.dtype[Any], **values: Any) -> np.void:
        """Fill a struct with copies on the device of the arrays among some values; others than it has are left out.

        The field keeps those that `FiberProblem.keys` names for the next run.
        """
        import cupy

        fields = {name: values[name] for name in layout.names or ()}
        with cupy.cuda.Device(self.device.indices[0]):
            for name, value in fields.items():
                if is_pointer(layout[name]):
                    fields[name] = self._copy(name, value)
                    self._arrays.append(fields[name])
        return struct(layout, **fields)

    def _copy(self, name: str, array: Array) -> Any:
        import cupy

        key = self._problem.keys.get(name)
        if key is None:
            return cupy.asarray(array)
        return self._problem.field.cache.get((*key, self.device), lambda: cupy.asarray(array))

    def start(self, rays: Any, output: Any, count: int) -> None:
        """Start the tracing kernel on the structs of some rays."""
        blocks = -(-count * self._lanes // self._threads)
        self._kernel(self._name)((blocks,), (self._threads,), (self._volumes, self._settings, rays, output))

    def _kernel(self, name: str) -> Any:
        """Strict, since rays in a noisy metric part exponentially; so they are the CPU's to the last bits."""
        return kernel(self.source, name, defines=self._defines, strict=True)

    def bytes_per_item(self) -> int:
        """Bytes of the buffers that one fiber takes: its rays' points, and the packed copy.

        Where only those that reach the target are kept, most fibers have no points; the others are traced in pieces.
        """
        return 256 if self._problem.only_target else self._bytes_with_points

    @property
    def _bytes_with_points(self) -> int:
        return int(2.5 * 2 * self._problem.lengths.ray_points * 4 * np.dtype(self._problem.real).itemsize)

    def advance(self, start: int, count: int) -> None:
        """Trace the fibers ``start`` to ``start + count - 1``."""
        import cupy

        rays, which, most = self._problem.rays(start, count), np.arange(count), count
        with cupy.cuda.Device(self.device.indices[0]):
            if self._problem.only_target:
                which = self._arrivals(rays)
                most = items_within_memory(self.device, self._bytes_with_points)
            pieces = [which[first : first + most] for first in range(0, len(which), most)] or [which]
            self._finished.append(joined([self._traced(start, count, some, rays.of(some)) for some in pieces]))

    def allocate(self, rays: Rays) -> tuple[Rays, RayOutput]:
        """Copy rays to the device, and allocate memory for what they write there."""
        return self._allocate(rays, self._problem.lengths.ray_points)

    def _allocate(self, rays: Rays, ray_points: int) -> tuple[Rays, RayOutput]:
        """Allocate, perhaps for no points, which are then not written."""
        import cupy

        p, rows = self._problem, len(rays.seeds) * rays.per_fiber
        output = RayOutput(
            points=cupy.empty((rows, ray_points, 4), p.real) if ray_points else None,
            written=cupy.empty(rows, np.int32),
            reasons=cupy.empty(rows, np.uint8),
            stats=cupy.empty((rows, STATS), p.real),
        )
        arrays = (cupy.asarray(values) for values in (rays.seeds, rays.directions, rays.numbers, rays.limits))
        seeds, directions, numbers, limits = arrays
        return Rays(seeds, directions, rays.per_fiber, numbers, limits), output

    def launch(self, rays: Rays, output: RayOutput) -> None:
        """Start the tracing kernel on device arrays, one row a ray; it returns at once."""
        count = len(output.written)
        self._chunk = (
            struct(LAYOUTS["Rays"], **rays._asdict(), count=count),
            struct(LAYOUTS["RayOutput"], **output._asdict(), ray_points=self._problem.lengths.ray_points),
        )
        self.start(*self._chunk, count)

    def trace(self, rays: Rays, output: RayOutput) -> Rays:
        """Trace fibers: each way up to its share of their length, then those to which the other way has left some.

        Returns the rays as they were launched last, which must stay until the kernel is done.
        """
        import cupy

        self.launch(rays, output)
        if rays.per_fiber == 2:
            lengths = to_host(output.stats[:, PATH])
            limits = left_over(to_host(output.reasons), lengths, self._problem.lengths.max_length_mm)
            if (limits >= 0).any():
                rays = rays._replace(limits=cupy.asarray(limits))
                self.launch(rays, output)
        return rays

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:
        """The number of each fiber's seed, shape (F,), on the device."""
        import cupy

        return cupy.ascontiguousarray(output.stats[:: rays.per_fiber, AT_SEED])

    def _arrivals(self, host_rays: Rays) -> npt.NDArray[np.int64]:
        """Which fibers reach the target: they are traced without storing points."""
        rays, output = self._allocate(host_rays, 0)
        rays = self.trace(rays, output)
        return arrivals(to_host(output.reasons), rays.per_fiber)

    def _traced(self, start: int, launched: int, which: npt.NDArray[np.int64], host_rays: Rays) -> Partial:
        """Trace the fibers of a launch that ``which`` tells and ``host_rays`` holds."""
        import cupy

        p, count = self._problem, len(which)
        if count == 0:
            return dataclasses.replace(no_fibers(p.rays_per_fiber == 2), start=start, launched=launched)
        rays, output = self.allocate(host_rays)
        rays = self.trace(rays, output)
        seed_values = self.seed_values(host_rays, output)  # alive until the kernel is done, as are the offsets
        per_ray = to_host(output.written).astype(np.int64).reshape(count, -1)
        stats = to_host(output.stats).reshape(*per_ray.shape, STATS)
        kept, offsets = kept_fibers(per_ray, stats, p.lengths.min_length_mm)
        points, values = cupy.empty((int(offsets[-1]), 3), np.float32), cupy.empty(int(offsets[-1]), np.float32)
        on_device = cupy.asarray(offsets)
        fibers = struct(
            LAYOUTS["Fibers"],
            offsets=on_device,
            seed_values=seed_values,
            points=points,
            values=values,
            affine=p.volume.affine[:3].ravel(),
        )
        self._kernel("pack")((count,), (_PACK_THREADS,), (*self._chunk, fibers))
        return Partial(
            start=start,
            launched=launched,
            which=which[kept],
            points=to_host(points),
            values=to_host(values),
            offsets=np.concatenate([[0], offsets[1:][kept]]),
            reasons=to_host(output.reasons).reshape(per_ray.shape)[kept],
            stats=stats[kept],
        )
