"""Constrained spherical deconvolution in CUDA, the counterpart of ``cpu.py``; the kernel is in ``csd.cu``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, check_shared_memory
from napari_gpubio.core.kernels import POINTER, kernel, struct_layout
from napari_gpubio.diffusion.kernels.csd.problem import CsdProblem
from napari_gpubio.diffusion.kernels.deconvolutions import RunOnGpu

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("csd.cu")
CSD_ARRAYS = struct_layout(
    dict.fromkeys(("signals", "forward", "gram", "full", "penalty", "columns", "start", "out", "took"), POINTER)
    | dict.fromkeys(("directions", "rows", "low", "iterations"), np.int32)
)
# Threads of a voxel down and across its matrix, by the most coefficients: few numbers stay in the registers of each.
_GRIDS = {45: (4, 8), 66: (8, 8), 91: (8, 16), 153: (16, 32)}
_TOGETHER, _MAX_WORDS = 4, 32  # constants of csd.cu


def grid_of(coefficients: int) -> tuple[int, int]:
    """Threads of a voxel, down and across its matrix."""
    return next(grid for most, grid in _GRIDS.items() if coefficients <= most)


def defines_of(coefficients: int, real: Any) -> tuple[str, ...]:
    """How the kernel is compiled for a number of coefficients and a precision."""
    down, across = grid_of(coefficients)
    name = "double" if np.dtype(real) == np.float64 else "float"
    return f"REAL={name}", f"COEFFICIENTS={coefficients}", f"DOWN={down}", f"ACROSS={across}"


def shared_bytes(coefficients: int, real: np.dtype[Any]) -> int:
    """Shared memory of a voxel: the struct ``Shared`` of csd.cu, rounded up."""
    n, (down, across) = coefficients, grid_of(coefficients)
    tiles = -(-n // down) * -(-n // across) * down * across
    reals = (4 + _TOGETHER) * n + n * (n + 1) // 2 + tiles
    return -(-(reals * real.itemsize + _MAX_WORDS * (2 * 4 + 32 * 2)) // 16) * 16


class Run(RunOnGpu):
    """The deconvolution of one problem on one GPU."""

    layout = CSD_ARRAYS

    def __init__(self, problem: CsdProblem, *, device: Device, out: Array, took: Array) -> None:
        import cupy

        super().__init__(problem, device=device, out=out, took=took)
        needed = shared_bytes(problem.coefficients, problem.real)
        precision = "double" if problem.real == np.float64 else "single"
        what = f"a deconvolution with {problem.coefficients} coefficients in {precision} precision"
        check_shared_memory(device, needed, what, "a smaller lmax, precision='single', or device='cpu'")
        with device.current():
            self._shared = {
                "forward": cupy.asarray(problem.forward),
                "gram": cupy.asarray(problem.gram),
                "full": cupy.asarray(problem.full),
                "penalty": cupy.asarray(problem.penalty),
                "columns": cupy.asarray(np.ascontiguousarray(problem.penalty.T)),
                "start": cupy.asarray(problem.start),
                "directions": len(problem.forward),
                "rows": len(problem.penalty),
                "low": len(problem.start),
                "iterations": problem.iterations,
            }
            defines = defines_of(problem.coefficients, problem.real)
            self._kernel = kernel(SOURCE, "deconvolve_rows", defines=defines, strict=True)
        self._kernel.max_dynamic_shared_size_bytes = needed

    def launch(self, arrays: Any, count: int) -> None:
        """Deconvolve voxels."""
        p = self._problem
        down, across = grid_of(p.coefficients)
        self._kernel((count,), (down * across,), (arrays,), shared_mem=shared_bytes(p.coefficients, p.real))
