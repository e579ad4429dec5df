"""Ray tracing in CUDA, the counterpart of ``cpu.py``; kernels: ``geodesic.cu`` and ``geodesic_texture.cu``."""

import dataclasses
import functools
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.chunks import items_within_memory
from napari_gpubio.core.device import Device, processor_count, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.tracts.kernels.rays.problem import CUBIC, EUDX, LINEAR, VANAART, RayOutput, RayProblem, Rays
from napari_gpubio.tracts.kernels.rays.tally import STATS, Partial, arrivals, joined, no_fibers
from napari_gpubio.tracts.kernels.tensors.gpu import compose, eigen_decompose

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("geodesic.cu")
TEXTURE_SOURCE = Path(__file__).with_name("geodesic_texture.cu")
_KERNELS = {CUBIC: "trace_cubic", LINEAR: "trace_linear", VANAART: "trace_vanaart", EUDX: "trace_eudx"}
_WARP = 32  # threads of a block at most; the launch bounds in geodesic.cu
# Of the cubic kernel, by the precision: lanes that trace a ray together, and components that each keeps in registers.
_LANES = {np.dtype(np.float32): (2, 2), np.dtype(np.float64): (6, 0)}
_SCHEDULERS = 4  # of a processor; each works on one warp at a time
_PACK_THREADS = 64


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``geodesic.cuh`` and ``geodesic_texture.cu``; the tuples are those of `problem`."""
    return {
        "RayVolumes": struct_layout(
            {"field": POINTER, "guide": POINTER, "mask": POINTER, "euclid": (real, 6), "shape": (np.int32, 3)}
        ),
        "RaySettings": struct_layout(
            dict.fromkeys(("stages", "measure", "max_steps", "every"), np.int32)
            | dict.fromkeys(("step_mm", "least_fa", "max_length_mm", "max_bend", "max_drift"), real)
            | dict.fromkeys(("least_cos", "above_fa", "least_weight"), real)
        ),
        "Rays": struct_layout({"seeds": POINTER, "directions": POINTER, "per_fiber": np.int32, "count": np.int32}),
        "RayOutput": struct_layout(
            {"points": POINTER, "written": POINTER, "reasons": POINTER, "stats": POINTER, "ray_points": np.int32}
        ),
        "Fibers": struct_layout(
            {"offsets": POINTER, "seed_fa": POINTER, "points": POINTER, "fa": POINTER, "affine": (np.float64, 12)}
        ),
        "Textures": struct_layout({"components": (np.uint64, 6)}),
    }


def defines_of(real: Any) -> tuple[str, ...]:
    """How the kernels are compiled for a precision."""
    lanes, kept = _LANES[np.dtype(real)]
    return f"REAL={'double' if real == np.float64 else 'float'}", f"LANES={lanes}", f"KEPT={kept}"


def rays_per_block(rays: int, processors: int, lanes: int = 1) -> int:
    """Number of rays of a block: a full warp, or fewer where schedulers would be left without work.

    A ray waits for memory most of the time, its warp for the slowest of its rays, and all warps of a processor for the
    one path to the memory; so a few thousand rays are done soonest when spread over all schedulers of all processors.
    """
    return max(1, min(_WARP // lanes, -(-rays // (_SCHEDULERS * processors))))


def prepare_field(problem: RayProblem) -> Any:
    """Compute the volume that the rays read, on the current device; see the CPU backend."""
    import cupy

    if problem.kind == EUDX:
        return cupy.zeros((1, 1, 1, 6), problem.real)
    where, real = cupy.cuda.Device().id, problem.real
    tensors = problem.prepared(
        f"tensors on {where} as {real}", lambda: cupy.asarray(problem.tensors().astype(real)), metric=False
    )
    values, vectors = eigen_decompose(tensors)
    dual = problem.dual_eigenvalues(values, cupy)
    field = compose(dual, vectors, problem.to_voxel[:3, :3])
    if problem.kind == VANAART:
        g = compose(1 / dual, vectors, problem.volume.affine[:3, :3].T)
        return cupy.ascontiguousarray(cupy.concatenate([field, *(cupy.gradient(g, axis=a) for a in range(3))], axis=-1))
    if problem.kind == CUBIC:
        return _spline_coefficients(field, interpolating=problem.settings.interpolation == "interpolating")
    return field


def _prepared_field(problem: RayProblem) -> Any:
    """Prepare the field and free the memory of the steps in between."""
    import cupy

    field = prepare_field(problem)
    cupy.get_default_memory_pool().free_all_blocks()
    return field


def _spline_coefficients(field: Any, *, interpolating: bool) -> Any:
    """Coefficients of the cubic B-spline, padded; the prefilter of the interpolating kind runs on the CPU."""
    import cupy

    from napari_gpubio.tracts.kernels.rays.problem import spline_coefficients

    if interpolating:
        coefficients = spline_coefficients(to_host(field), interpolating=True)
        return cupy.asarray(np.ascontiguousarray(coefficients, field.dtype))
    return cupy.ascontiguousarray(cupy.pad(field, ((1, 2), (1, 2), (1, 2), (0, 0)), mode="reflect"))


class Run:
    """The tracing of one problem on one GPU; items are fibers."""

    def __init__(self, problem: RayProblem, *, device: Device) -> None:
        import cupy

        self.device = device
        self._problem = problem
        self._parts: deque[Partial] = deque()  # taken from another thread than it is filled from
        self._layouts = layouts(np.dtype(problem.real))
        with cupy.cuda.Device(device.indices[0]):
            self._field = problem.prepared(f"field on {device}", lambda: _prepared_field(problem))
            self._guide = problem.prepared(f"guide on {device}", lambda: cupy.asarray(problem.guide), metric=False)
            self._mask = problem.volume.cache.get(("mask", problem.target, device), lambda: cupy.asarray(problem.mask))
            self._textures = _textures(self._field) if problem.uses_texture else None
        self._volumes = struct(
            self._layouts["RayVolumes"],
            field=self._field,
            guide=self._guide,
            mask=self._mask if problem.masked else None,
            euclid=problem.euclid,
            shape=problem.volume.shape,
        )
        self._chunk: tuple[Any, ...] = ()  # structs of the rays being traced and of their output
        scalars = problem.ray_settings._asdict()
        self._settings = struct(self._layouts["RaySettings"], **{n: v for n, v in scalars.items() if n != "kind"})

    def bytes_per_item(self) -> int:
        """Bytes of the buffers that one fiber takes: its rays' points, and the packed copy.

        Where only those that reach the target are kept, most fibers have no points; the others are traced in pieces.
        """
        return 256 if self._problem.only_target else self._bytes_with_points

    @property
    def _bytes_with_points(self) -> int:
        return int(2.5 * 2 * self._problem.settings.ray_points * 4 * np.dtype(self._problem.real).itemsize)

    def advance(self, start: int, count: int) -> None:
        """Trace the fibers ``start`` to ``start + count - 1``."""
        import cupy

        rays, which, most = self._problem.rays(start, count), np.arange(count), count
        with cupy.cuda.Device(self.device.indices[0]):
            if self._problem.only_target:
                which = self._arrivals(rays)
                most = items_within_memory(self.device, self._bytes_with_points)
            pieces = [which[first : first + most] for first in range(0, len(which), most)] or [which]
            self._parts.append(joined([self._traced(start, count, some, rays.of(some)) for some in pieces]))

    def take(self) -> list[Partial]:
        """Hand over the fibers finished so far, and forget them."""
        return [self._parts.popleft() for _ in range(len(self._parts))]

    def close(self) -> None:
        """Let the device arrays go; those that the tensor field keeps for the next run stay with it."""
        self._field = self._guide = self._mask = self._textures = None

    def allocate(self, rays: Rays) -> tuple[Rays, RayOutput]:
        """Copy rays to the device, and allocate memory for what they write there."""
        return self._allocate(rays, self._problem.settings.ray_points)

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
        return Rays(cupy.asarray(rays.seeds), cupy.asarray(rays.directions), rays.per_fiber), output

    def launch(self, rays: Rays, output: RayOutput) -> None:
        """Start the tracing kernel on device arrays, one row a ray; it returns at once."""
        count = len(output.written)
        self._chunk = (
            struct(self._layouts["Rays"], **rays._asdict(), count=count),
            struct(self._layouts["RayOutput"], **output._asdict(), ray_points=self._problem.settings.ray_points),
        )
        lanes = _LANES[np.dtype(self._problem.real)][0] if self._problem.kind == CUBIC else 1
        rays_a_block = rays_per_block(count, processor_count(self.device), lanes)
        arguments: tuple[Any, ...] = (self._volumes, self._settings, *self._chunk)
        if self._textures is not None:
            run = kernel(TEXTURE_SOURCE, "trace_vanaart_texture")
            addresses = [texture.ptr for texture in self._textures]
            arguments = (struct(self._layouts["Textures"], components=addresses), *arguments)
        else:
            run = self._kernel(_KERNELS[self._problem.kind])
        run((-(-count // rays_a_block),), (rays_a_block * lanes,), arguments)

    def _arrivals(self, host_rays: Rays) -> npt.NDArray[np.int64]:
        """Which fibers reach the target: they are traced without storing points."""
        rays, output = self._allocate(host_rays, 0)
        self.launch(rays, output)
        return arrivals(to_host(output.reasons), rays.per_fiber)

    def _traced(self, start: int, launched: int, which: npt.NDArray[np.int64], host_rays: Rays) -> Partial:
        """Trace the fibers of a launch that ``which`` tells and ``host_rays`` holds."""
        import cupy

        p, count = self._problem, len(which)
        if count == 0:
            return dataclasses.replace(no_fibers(p.rays_per_fiber == 2), start=start, launched=launched)
        rays, output = self.allocate(host_rays)
        self.launch(rays, output)
        seed_fa = cupy.asarray(p.fa_at(host_rays.seeds))  # alive until the kernel is done, as are the offsets
        per_ray = to_host(output.written).astype(np.int64).reshape(count, -1)
        offsets = np.concatenate([[0], np.cumsum(per_ray.sum(axis=1) + 1)])
        points, fa = cupy.empty((int(offsets[-1]), 3), np.float32), cupy.empty(int(offsets[-1]), np.float32)
        on_device = cupy.asarray(offsets)
        fibers = struct(
            self._layouts["Fibers"],
            offsets=on_device,
            seed_fa=seed_fa,
            points=points,
            fa=fa,
            affine=p.volume.affine[:3].ravel(),
        )
        self._kernel("pack")((count,), (_PACK_THREADS,), (*self._chunk, fibers))
        return Partial(
            start=start,
            launched=launched,
            which=which,
            points=to_host(points),
            fa=to_host(fa),
            offsets=offsets,
            reasons=to_host(output.reasons).reshape(per_ray.shape),
            stats=to_host(output.stats).reshape(*per_ray.shape, STATS),
        )

    def _kernel(self, name: str) -> Any:
        """Strict, since rays in a noisy metric part exponentially; so they are the CPU's to the last bits."""
        return kernel(SOURCE, name, defines=defines_of(self._problem.real), strict=True)


def _textures(field: Any) -> list[Any]:
    """Six 3-D textures of four components each with the hardware's linear filter; z is the fastest axis."""
    from cupy.cuda import runtime, texture

    kind = texture.ChannelFormatDescriptor(32, 32, 32, 32, runtime.cudaChannelFormatKindFloat)
    how = texture.TextureDescriptor(
        (runtime.cudaAddressModeClamp,) * 3, runtime.cudaFilterModeLinear, runtime.cudaReadModeElementType
    )
    nx, ny, nz = field.shape[:3]
    made = []
    for first in range(0, 24, 4):
        array = texture.CUDAarray(kind, nz, ny, nx)
        array.copy_from(field[..., first : first + 4].reshape(nx, ny, nz * 4))
        resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array)
        made.append(texture.TextureObject(resource, how))
    return made
