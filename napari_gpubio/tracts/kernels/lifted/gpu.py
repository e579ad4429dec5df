"""Geodesics of positions and directions in CUDA, the counterpart of ``cpu.py``; the kernel is in ``lifted.cu``."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.tracts.kernels.fibers.gpu import FiberRun
from napari_gpubio.tracts.kernels.fibers.problem import RayOutput, Rays
from napari_gpubio.tracts.kernels.fibers.tally import AT_SEED
from napari_gpubio.tracts.kernels.lifted.problem import LiftedProblem, LiftedSettings

SOURCE = Path(__file__).with_name("lifted.cu")
_THREADS = 64  # of a block; the launch bound in lifted.cu


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``lifted.cu``; the tuples are those of `problem`."""
    whole = ("max_steps", "every", "power", "guiding")
    return {
        "LiftedVolumes": struct_layout(
            dict.fromkeys(("fods", "table", "mask"), POINTER)
            | {"to_voxel": (real, 9), "to_world": (real, 9), "shape": (np.int32, 3)}
        ),
        "LiftedSettings": struct_layout({name: np.int32 if name in whole else real for name in LiftedSettings._fields}),
    }


def defines_of(lmax: int, real: Any) -> tuple[str, ...]:
    """How the kernels are compiled for an order and a precision."""
    return f"REAL={'double' if np.dtype(real) == np.float64 else 'float'}", f"LMAX={lmax}"


class Run(FiberRun):
    """The tracing of one problem on one GPU; items are fibers."""

    def __init__(self, problem: LiftedProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        self._defines = defines_of(problem.lmax, problem.real)
        cache, precision = problem.field.cache, problem.settings.precision
        with cupy.cuda.Device(device.indices[0]):
            self._fods = cache.get(("lifted", precision, problem.lmax, device), lambda: cupy.asarray(problem.pairs))
            self._mask = cache.get(("mask", problem.target, device), lambda: cupy.asarray(problem.mask))
            self._table = cupy.asarray(problem.table)
        shapes = layouts(np.dtype(problem.real))
        self._volumes = struct(
            shapes["LiftedVolumes"],
            fods=self._fods,
            table=self._table,
            mask=self._mask,
            to_voxel=problem.to_voxel[:3, :3].ravel(),
            to_world=problem.field.affine[:3, :3].ravel(),
            shape=problem.field.shape,
        )
        self._settings = struct(shapes["LiftedSettings"], **problem.scalars._asdict())

    def close(self) -> None:
        """Let the device arrays go; those that the field keeps for the next run stay with it."""
        self._fods = self._mask = self._table = None

    def start(self, rays: Any, output: Any, count: int) -> None:
        """Start the tracing kernel on the structs of some rays."""
        self._kernel("trace")((-(-count // _THREADS),), (_THREADS,), (self._volumes, self._settings, rays, output))

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:
        """Amplitude along each fiber at its seed, on the device."""
        import cupy

        return cupy.ascontiguousarray(output.stats[:: rays.per_fiber, AT_SEED])

    def _kernel(self, name: str) -> Any:
        return kernel(SOURCE, name, defines=self._defines, strict=True)
