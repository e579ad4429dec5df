"""Ray tracing in CUDA, the counterpart of ``cpu.py``; kernels: ``geodesic.cu`` and ``geodesic_texture.cu``."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, processor_count, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.diffusion.kernels.tensors.gpu import compose, eigen_decompose
from napari_gpubio.fibers.kernels.fibers.gpu import FiberRun
from napari_gpubio.fibers.kernels.fibers.problem import RayOutput, Rays
from napari_gpubio.fibers.kernels.rays.problem import CUBIC, EUDX, LINEAR, VANAART, RayProblem

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("geodesic.cu")
TEXTURE_SOURCE = Path(__file__).with_name("geodesic_texture.cu")
_KERNELS = {CUBIC: "trace_cubic", LINEAR: "trace_linear", VANAART: "trace_vanaart", EUDX: "trace_eudx"}
_WARP = 32  # threads of a block at most; the launch bounds in geodesic.cu
# Of the cubic kernel, by the precision: lanes that trace a ray together, and components that each keeps in registers.
_LANES = {np.dtype(np.float32): (2, 2), np.dtype(np.float64): (6, 0)}
_SCHEDULERS = 4  # of a processor; each works on one warp at a time


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``geodesic.cuh`` and ``geodesic_texture.cu``; the tuples are those of `problem`."""
    return {
        "RayVolumes": struct_layout(
            {"field": POINTER, "guide": POINTER, "mask": POINTER, "euclid": (real, 6), "shape": (np.int32, 3)}
        ),
        "RaySettings": struct_layout(
            dict.fromkeys(("stages", "measure", "max_steps", "every"), np.int32)
            | dict.fromkeys(("step_mm", "least_fa", "max_bend", "max_drift"), real)
            | dict.fromkeys(("least_cos", "above_fa", "least_weight"), real)
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
        return _spline_coefficients(field, interpolating=problem.is_interpolating)
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

    from napari_gpubio.fibers.kernels.rays.problem import spline_coefficients

    if interpolating:
        coefficients = spline_coefficients(to_host(field), interpolating=True)
        return cupy.asarray(np.ascontiguousarray(coefficients, field.dtype))
    return cupy.ascontiguousarray(cupy.pad(field, ((1, 2), (1, 2), (1, 2), (0, 0)), mode="reflect"))


class Run(FiberRun):
    """The tracing of one problem on one GPU; items are fibers."""

    source = SOURCE
    _problem: RayProblem

    def __init__(self, problem: RayProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device, defines=defines_of(problem.real))
        self._kind, self._real = problem.kind, problem.real
        self._layouts = layouts(np.dtype(problem.real))
        with cupy.cuda.Device(device.indices[0]):
            field = problem.prepared(f"field on {device}", lambda: _prepared_field(problem))
            guide = problem.prepared(f"guide on {device}", lambda: cupy.asarray(problem.guide), metric=False)
            mask = problem.volume.cache.get(("mask", problem.target, device), lambda: cupy.asarray(problem.mask))
            self._textures = _textures(field) if problem.uses_texture else None
        self._arrays += [field, guide, mask]
        self._volumes = struct(
            self._layouts["RayVolumes"],
            field=field,
            guide=guide,
            mask=mask if problem.masked else None,
            euclid=problem.euclid,
            shape=problem.volume.shape,
        )
        self._settings = self._uploaded(self._layouts["RaySettings"], **problem.scalars._asdict())

    def close(self) -> None:
        """Let the device arrays go; those that the tensor field keeps for the next run stay with it."""
        super().close()
        self._textures = None

    def start(self, rays: Any, output: Any, count: int) -> None:
        """Start the tracing kernel on the structs of some rays."""
        lanes = _LANES[np.dtype(self._real)][0] if self._kind == CUBIC else 1
        rays_a_block = rays_per_block(count, processor_count(self.device), lanes)
        arguments: tuple[Any, ...] = (self._volumes, self._settings, rays, output)
        if self._textures is not None:
            run = kernel(TEXTURE_SOURCE, "trace_vanaart_texture")
            addresses = [texture.ptr for texture in self._textures]
            arguments = (struct(self._layouts["Textures"], components=addresses), *arguments)
        else:
            run = self._kernel(_KERNELS[self._kind])
        run((-(-count // rays_a_block),), (rays_a_block * lanes,), arguments)

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:  # noqa: ARG002 - others have written it
        """FA at each fiber's seed, on the device."""
        import cupy

        return cupy.asarray(self._problem.values_at(rays.seeds))


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
