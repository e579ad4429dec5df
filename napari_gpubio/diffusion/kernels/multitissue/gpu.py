"""Least squares under linear inequalities in CUDA, the counterpart of ``cpu.py``; the kernel: ``constrained.cu``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, check_shared_memory, shared_memory_bytes
from napari_gpubio.core.kernels import POINTER, kernel, struct_layout
from napari_gpubio.diffusion.kernels.deconvolutions import RunOnGpu
from napari_gpubio.diffusion.kernels.multitissue.problem import ConstrainedProblem

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("constrained.cu")
CONSTRAINED_ARRAYS = struct_layout(
    dict.fromkeys(("signals", "white", "normals", "columns", "back", "out", "took"), POINTER)
    | dict.fromkeys(("volumes", "coefficients", "rows", "memory"), np.int32)
)
_MAX_WARPS = 2  # of a block


def doubles_per_warp(problem: ConstrainedProblem) -> int:
    """Shared memory of a warp in doubles: Q, R, five vectors, the passive constraints as a list and as bits."""
    n, rows = problem.coefficients, len(problem.normals)
    words = n + 1 + (rows + 31) // 32
    return (n + 1) * n + (n + 1) * (n + 2) // 2 + 2 * n + 3 * (n + 1) + (words + 1) // 2


class Run(RunOnGpu):
    """The problem on one GPU."""

    layout = CONSTRAINED_ARRAYS

    def __init__(self, problem: ConstrainedProblem, *, device: Device, out: Array, took: Array) -> None:
        import cupy

        super().__init__(problem, device=device, out=out, took=took)
        bytes_per_warp = 8 * doubles_per_warp(problem)
        what = f"a deconvolution of several tissues with {problem.coefficients} coefficients"
        check_shared_memory(device, bytes_per_warp, what, "a smaller lmax, or device='cpu'")
        with device.current():
            self._shared = {
                "white": cupy.asarray(problem.white),
                "normals": cupy.asarray(problem.normals),
                "columns": cupy.asarray(np.ascontiguousarray(problem.normals.T)),
                "back": cupy.asarray(problem.back),
                "volumes": len(problem.white),
                "coefficients": problem.coefficients,
                "rows": len(problem.normals),
                "memory": doubles_per_warp(problem),
            }
            self._kernel = kernel(SOURCE, "solve_rows", strict=True)
        self._warps = min(_MAX_WARPS, shared_memory_bytes(device) // bytes_per_warp)
        self._bytes = self._warps * bytes_per_warp
        self._kernel.max_dynamic_shared_size_bytes = self._bytes

    def launch(self, arrays: Any, count: int) -> None:
        """Solve voxels."""
        grid, block = (-(-count // self._warps),), (32 * self._warps,)
        self._kernel(grid, block, (arrays, np.int32(count)), shared_mem=self._bytes)
