"""Maxima of FODs in CUDA, the counterpart of ``cpu.py``; the kernel is in ``peaks.cu``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.diffusion.fods.harmonics import paired
from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("peaks.cu")
PEAK_ARRAYS = struct_layout(
    dict.fromkeys(("pairs", "directions", "neighbors", "columns", "table", "out", "counts"), POINTER)
    | dict.fromkeys(("least_fraction", "least_amplitude", "least_cosine"), np.float64)
    | dict.fromkeys(("coefficients", "rows", "most"), np.int32)
)
_WARPS = 4  # of a block


def defines_of(lmax: int) -> tuple[str, ...]:
    """How the kernel is compiled for an order."""
    return (f"LMAX={lmax}",)


class Run(drivers.Run):
    """The search on one GPU; items are voxels, whose FODs are uploaded chunk by chunk."""

    def __init__(self, problem: PeakProblem, *, device: Device, out: Array, counts: Array) -> None:
        import cupy

        super().__init__(problem, device=device)
        self._out, self._counts = out, counts
        with device.current():
            self._shared = {
                "directions": cupy.asarray(problem.directions),
                "neighbors": cupy.asarray(problem.neighbors),
                "columns": cupy.asarray(problem.columns),
                "table": cupy.asarray(problem.table),
            }
            self._kernel = kernel(SOURCE, "find_rows", defines=defines_of(problem.lmax), strict=True)
        self._bytes = bytes_per_warp(problem) * _WARPS
        self._kernel.max_dynamic_shared_size_bytes = self._bytes

    def advance(self, start: int, count: int) -> None:
        """Search the voxels ``start`` to ``start + count - 1``."""
        import cupy

        p, rows, settings = self._problem, slice(start, start + count), self._problem.settings
        with self.device.current():
            pairs = cupy.asarray(paired(p.coefficients[rows].astype(np.float64)))
            out, counts = cupy.zeros((count, settings.most, 4)), cupy.empty(count, np.uint8)
            arrays: Any = struct(
                PEAK_ARRAYS,
                pairs=pairs,
                out=out,
                counts=counts,
                least_fraction=settings.least_fraction,
                least_amplitude=settings.least_amplitude,
                least_cosine=p.least_cosine,
                coefficients=len(p.columns),
                rows=len(p.directions),
                most=settings.most,
                **self._shared,
            )
            self._kernel((-(-count // _WARPS),), (32 * _WARPS,), (arrays, np.int32(count)), shared_mem=self._bytes)
            self._out[rows], self._counts[rows] = to_host(out), to_host(counts)


def bytes_per_warp(problem: PeakProblem) -> int:
    """Shared memory of a warp: amplitudes, what up to a quarter as many maxima led to, and a list of maxima."""
    rows = len(problem.directions)
    return 8 * (rows + 4 * (rows // 4) + (rows + 1) // 2)
