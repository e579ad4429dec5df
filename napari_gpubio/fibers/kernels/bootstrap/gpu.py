"""Tensors of bootstrap repeats on one GPU, the counterpart of ``cpu.py``; the kernel is in ``bootstrap.cu``.

`prepare` has no counterpart: on the CPU a repeat is prepared as any other field.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.diffusion.kernels.tensors.gpu import eigen_decompose
from napari_gpubio.fibers.kernels.bootstrap.problem import DrawProblem
from napari_gpubio.fibers.kernels.rays.gpu import prepare_field
from napari_gpubio.fibers.kernels.rays.problem import RayProblem

SOURCE = Path(__file__).with_name("bootstrap.cu")
DRAW_ARRAYS = struct_layout(
    dict.fromkeys(("tensors", "shifts", "voxels", "out"), POINTER)
    | {"seed": np.uint64, "count": np.int32, "volumes": np.int32}
)
_THREADS = 128


class Run(drivers.Run):
    """The repeats of one problem on one GPU; several threads may draw at once."""

    def __init__(self, problem: DrawProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        with device.current():
            self._tensors = cupy.ascontiguousarray(cupy.asarray(problem.tensors).T)
            self._shifts = cupy.ascontiguousarray(cupy.asarray(problem.shifts).transpose(1, 2, 0))
            self._voxels = cupy.asarray(problem.voxels)
        self._seed, self._volumes = problem.seed, problem.shifts.shape[1]

    def draw(self, repeat: int) -> npt.NDArray[np.float64]:
        """Return the tensors of a repeat, shape (M, 6), mm^2/s; they depend on its number and the seed only."""
        import cupy

        count: int = self._tensors.shape[1]
        with self.device.current():
            out = cupy.empty((count, 6))
            arrays: Any = struct(
                DRAW_ARRAYS,
                tensors=self._tensors,
                shifts=self._shifts,
                voxels=self._voxels,
                out=out,
                seed=self._seed,
                count=count,
                volumes=self._volumes,
            )
            draw = kernel(SOURCE, "draw_rows", strict=True)
            draw((-(-count // _THREADS),), (_THREADS,), (arrays, np.int32(repeat)))
            return to_host(out)


def prepare(problem: RayProblem, device: Device) -> None:
    """Make what rays read of a field that is tracked in once: the guide, too, which takes the host longer.

    A field that stays is prepared by `napari_gpubio.fibers.kernels.rays.gpu.Run` itself, with a guide from the host.
    """
    with device.current():
        problem.prepared(f"field on {device}", lambda: prepare_field(problem))
        guide = problem.prepared(f"guide on {device}", lambda: _guide(problem), metric=False)
        problem.prepared("guide", lambda: to_host(guide), metric=False)


def _guide(problem: RayProblem) -> Any:
    """As `RayProblem.guide`, on the current device."""
    import cupy

    tensors = cupy.asarray(problem.volume.tensors)
    values, vectors = eigen_decompose(tensors)
    mean, size = values.mean(axis=-1), (values**2).sum(axis=-1)
    spread = ((values - mean[..., None]) ** 2).sum(axis=-1)
    guide = cupy.zeros((*problem.volume.shape, 4), np.float32)
    for axis in range(3):
        x, y, z = (float(factor) for factor in problem.to_voxel[axis, :3])
        guide[..., axis] = x * vectors[..., 0, 0] + y * vectors[..., 0, 1] + z * vectors[..., 0, 2]
    guide[..., 3] = cupy.sqrt(1.5 * spread / cupy.maximum(size, 1e-30)).clip(0, 1)
    guide[~cupy.asarray(problem.volume.mask)] = 0
    return guide
