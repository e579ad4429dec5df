"""Constrained spherical deconvolution on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.diffusion.kernels.csd.deconvolution import CsdArrays, CsdScratch, deconvolve_rows
from napari_gpubio.diffusion.kernels.csd.problem import CsdProblem

Array = npt.NDArray[Any]
_EACH = 32  # voxels worth a thread


def triangle(matrix: Array) -> Array:
    """Packed upper triangle of a symmetric matrix, row by row."""
    return np.ascontiguousarray(matrix[np.triu_indices(len(matrix))])


class Run(drivers.Run):
    """The deconvolution of one problem on the CPU; items are voxels.

    ``out``: (M, N) and ``took``: (M,), which runs of several devices may share.
    """

    def __init__(self, problem: CsdProblem, *, device: Device = CPU, out: Array, took: Array) -> None:
        super().__init__(problem, device=device)
        self._out, self._took = out, took
        self._arrays = CsdArrays(
            signals=problem.signals,
            forward=problem.forward,
            gram=triangle(problem.gram),
            full=triangle(problem.full),
            penalty=problem.penalty,
            columns=np.ascontiguousarray(problem.penalty.T),
            start=problem.start,
            iterations=problem.iterations,
        )

    def advance(self, start: int, count: int) -> None:
        """Deconvolve the voxels ``start`` to ``start + count - 1``."""
        real, n, rows = self._problem.real, self._problem.coefficients, len(self._problem.penalty)

        def deconvolve(first: int, stop: int) -> None:
            scratch = CsdScratch(
                system=np.empty(n * (n + 1) // 2, real),
                factor=np.empty(n * (n + 1) // 2, real),
                right=np.empty(n, real),
                fod=np.empty(n, real),
                amplitude=np.empty(rows, real),
                negative=np.empty(rows, np.bool_),
                changed=np.empty(rows, np.int64),
            )
            deconvolve_rows(start + first, start + stop, self._arrays, scratch, self._out, self._took)

        run_blocks(deconvolve, count, least=_EACH)
