"""Streamlines in FODs in CUDA, the counterpart of ``cpu.py``; the kernels are in ``streamlines.cu``."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.tracts.kernels.fibers.gpu import FiberRun
from napari_gpubio.tracts.kernels.fibers.problem import RayOutput, Rays
from napari_gpubio.tracts.kernels.fibers.tally import AT_SEED
from napari_gpubio.tracts.kernels.streamlines.problem import IFOD1, IFOD2, SD_STREAM, StreamlineProblem

SOURCE = Path(__file__).with_name("streamlines.cu")
_KERNELS = {SD_STREAM: "trace_peaks", IFOD1: "trace_first_order", IFOD2: "trace_second_order"}
_THREADS = {SD_STREAM: 64, IFOD1: 128, IFOD2: 128}  # of a block; the launch bounds in streamlines.cu
_LANES = {SD_STREAM: 1, IFOD1: 32, IFOD2: 32}  # of a ray


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``streamlines.cu``; the tuples are those of `problem`."""
    return {
        "FodVolumes": struct_layout(
            dict.fromkeys(("fods", "table", "mask"), POINTER) | {"to_voxel": (real, 9), "shape": (np.int32, 3)}
        ),
        "StreamlineSettings": struct_layout(
            {"seed": np.uint64, "grid": POINTER}
            | dict.fromkeys(("turns", "max_steps", "every", "trials"), np.int32)
            | dict.fromkeys(("step_mm", "cutoff", "least_cos", "headroom"), real)
        ),
    }


def defines_of(lmax: int, real: Any) -> tuple[str, ...]:
    """How the kernels are compiled for an order and a precision."""
    return f"REAL={'double' if np.dtype(real) == np.float64 else 'float'}", f"LMAX={lmax}"


class Run(FiberRun):
    """The tracing of one problem on one GPU; items are fibers."""

    def __init__(self, problem: StreamlineProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        self._defines = defines_of(problem.field.lmax, problem.real)
        self._kind, cache = problem.scalars.kind, problem.field.cache
        precision = problem.settings.precision
        with cupy.cuda.Device(device.indices[0]):
            self._fods = cache.get(("pairs", precision, device), lambda: cupy.asarray(problem.pairs))
            self._mask = cache.get(("mask", problem.target, device), lambda: cupy.asarray(problem.mask))
            self._table = cupy.asarray(problem.table)
            self._grid = cupy.asarray(problem.scalars.grid)
        shapes = layouts(np.dtype(problem.real))
        self._volumes = struct(
            shapes["FodVolumes"],
            fods=self._fods,
            table=self._table,
            mask=self._mask,
            to_voxel=problem.to_voxel[:3, :3].ravel(),
            shape=problem.field.shape,
        )
        scalars = {name: value for name, value in problem.scalars._asdict().items() if name not in ("kind", "grid")}
        self._settings = struct(
            shapes["StreamlineSettings"], grid=self._grid, turns=len(problem.scalars.grid), **scalars
        )

    def close(self) -> None:
        """Let the device arrays go; those that the field keeps for the next run stay with it."""
        self._fods = self._mask = self._table = self._grid = None

    def start(self, rays: Any, output: Any, count: int) -> None:
        """Start the tracing kernel on the structs of some rays."""
        threads = _THREADS[self._kind]
        blocks = -(-count * _LANES[self._kind] // threads)
        self._kernel(_KERNELS[self._kind])((blocks,), (threads,), (self._volumes, self._settings, rays, output))

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:
        """Amplitude along each fiber at its seed, on the device."""
        import cupy

        return cupy.ascontiguousarray(output.stats[:: rays.per_fiber, AT_SEED])

    def _kernel(self, name: str) -> Any:
        return kernel(SOURCE, name, defines=self._defines, strict=True)
