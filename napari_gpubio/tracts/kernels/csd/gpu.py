"""Constrained spherical deconvolution in CUDA, the counterpart of ``cpu.py``; the kernel is in ``csd.cu``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, shared_memory_bytes, shared_memory_of_processor, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.tracts.kernels.csd.cpu import triangle
from napari_gpubio.tracts.kernels.csd.problem import CsdProblem

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("csd.cu")
CSD_ARRAYS = struct_layout(
    dict.fromkeys(("signals", "forward", "gram", "full", "penalty", "columns", "start", "out", "took"), POINTER)
    | dict.fromkeys(("directions", "coefficients", "rows", "low", "iterations", "memory"), np.int32)
)
_MOST_WARPS = 4  # of a block


def defines_of(real: Any) -> tuple[str, ...]:
    """How the kernel is compiled for a precision."""
    return (f"REAL={'double' if np.dtype(real) == np.float64 else 'float'}",)


def reals_per_warp(problem: CsdProblem) -> int:
    """Shared memory of a warp in reals: two triangles, two vectors, four rows of the penalty, and two lists."""
    n, rows = problem.coefficients, len(problem.penalty)
    words = (rows + 31) // 32 + rows
    return n * (n + 1) + 6 * n + -(-4 * words // problem.real.itemsize)


class Run:
    """The deconvolution of one problem on one GPU; items are voxels, whose signals are uploaded chunk by chunk."""

    def __init__(self, problem: CsdProblem, *, device: Device, out: Array, took: Array) -> None:
        import cupy

        self.device = device
        self._problem, self._out, self._took = problem, out, took
        with cupy.cuda.Device(device.indices[0]):
            self._shared = {
                "forward": cupy.asarray(problem.forward),
                "gram": cupy.asarray(triangle(problem.gram)),
                "full": cupy.asarray(triangle(problem.full)),
                "penalty": cupy.asarray(problem.penalty),
                "columns": cupy.asarray(np.ascontiguousarray(problem.penalty.T)),
                "start": cupy.asarray(problem.start),
            }
            self._kernel = kernel(SOURCE, "deconvolve_rows", defines=defines_of(problem.real), strict=True)
        bytes_per_warp = reals_per_warp(problem) * problem.real.itemsize
        self._warps = max(1, min(_MOST_WARPS, shared_memory_bytes(device) // bytes_per_warp))
        most = shared_memory_of_processor(device) // (bytes_per_warp + 1024 // self._warps)
        if most < 2 * self._warps:  # so that no part of a processor's memory lies idle
            self._warps = 1
        self._bytes = self._warps * bytes_per_warp
        self._kernel.max_dynamic_shared_size_bytes = self._bytes

    def bytes_per_item(self) -> int:
        """Bytes that one voxel takes on the device: its signals and its FOD."""
        return 4 * (len(self._problem.forward) + self._problem.coefficients) + 1

    def advance(self, start: int, count: int) -> None:
        """Deconvolve the voxels ``start`` to ``start + count - 1``."""
        import cupy

        p, rows = self._problem, slice(start, start + count)
        with cupy.cuda.Device(self.device.indices[0]):
            signals = cupy.asarray(p.signals[rows])
            out, took = cupy.empty((count, p.coefficients), np.float32), cupy.empty(count, np.uint8)
            arrays: Any = struct(
                CSD_ARRAYS,
                signals=signals,
                out=out,
                took=took,
                directions=len(p.forward),
                coefficients=p.coefficients,
                rows=len(p.penalty),
                low=len(p.start),
                iterations=p.iterations,
                memory=reals_per_warp(p),
                **self._shared,
            )
            grid, block = (-(-count // self._warps),), (32 * self._warps,)
            self._kernel(grid, block, (arrays, np.int32(count)), shared_mem=self._bytes)
            self._out[rows], self._took[rows] = to_host(out), to_host(took)

    def close(self) -> None:
        """Let the device arrays go."""
        self._shared = {}
