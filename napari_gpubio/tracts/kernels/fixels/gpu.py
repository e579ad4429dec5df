"""Geodesics in fields of fixels in CUDA, the counterpart of ``cpu.py``; the kernel is in ``fixels.cu``."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.tracts.kernels.fibers.gpu import FiberRun
from napari_gpubio.tracts.kernels.fibers.problem import RayOutput, Rays
from napari_gpubio.tracts.kernels.fibers.tally import AT_SEED
from napari_gpubio.tracts.kernels.fixels.problem import FixelProblem, FixelSettings

SOURCE = Path(__file__).with_name("fixels.cu")
_THREADS = 64  # of a block; the launch bound in fixels.cu


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``fixels.cu``; the tuples are those of `problem`."""
    whole = ("max_steps", "every")
    return {
        "FixelVolumes": struct_layout(
            dict.fromkeys(("fixels", "mask"), POINTER)
            | {"to_voxel": (real, 9), "to_world": (real, 9), "shape": (np.int32, 3), "most": np.int32}
        ),
        "FixelSettings": struct_layout({name: np.int32 if name in whole else real for name in FixelSettings._fields}),
    }


def defines_of(real: Any) -> tuple[str, ...]:
    """How the kernels are compiled for a precision."""
    return (f"REAL={'double' if np.dtype(real) == np.float64 else 'float'}",)


class Run(FiberRun):
    """The tracing of one problem on one GPU; items are fibers."""

    def __init__(self, problem: FixelProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        cache = problem.field.cache
        with cupy.cuda.Device(device.indices[0]):
            self._fixels = cache.get((*problem.key, device), lambda: cupy.asarray(problem.fixels))
            self._mask = cache.get(("mask", problem.target, device), lambda: cupy.asarray(problem.mask))
        shapes = layouts(np.dtype(problem.real))
        self._volumes = struct(
            shapes["FixelVolumes"],
            fixels=self._fixels,
            mask=self._mask,
            to_voxel=problem.to_voxel[:3, :3].ravel(),
            to_world=problem.volume.affine[:3, :3].ravel(),
            shape=problem.volume.shape,
            most=self._fixels.shape[3],
        )
        self._settings = struct(shapes["FixelSettings"], **problem.scalars._asdict())

    def close(self) -> None:
        """Let the device arrays go; those that the field keeps for the next run stay with it."""
        self._fixels = self._mask = None

    def start(self, rays: Any, output: Any, count: int) -> None:
        """Start the tracing kernel on the structs of some rays."""
        self._kernel("trace")((-(-count // _THREADS),), (_THREADS,), (self._volumes, self._settings, rays, output))

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:
        """Amplitude of the fixels that each fiber follows at its seed, on the device."""
        import cupy

        return cupy.ascontiguousarray(output.stats[:: rays.per_fiber, AT_SEED])

    def _kernel(self, name: str) -> Any:
        return kernel(SOURCE, name, defines=defines_of(self._problem.real), strict=True)
