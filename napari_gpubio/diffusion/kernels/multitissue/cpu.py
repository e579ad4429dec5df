"""Least squares under linear inequalities on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.diffusion.kernels.multitissue.constrained import ConstrainedArrays, ConstrainedScratch, solve_rows
from napari_gpubio.diffusion.kernels.multitissue.problem import ConstrainedProblem

Array = npt.NDArray[Any]
_EACH = 16  # voxels worth a thread


class Run(drivers.Run):
    """The problem on the CPU; items are voxels.

    ``out``: (M, N) and ``took``: (M,), which runs of several devices may share.
    """

    def __init__(self, problem: ConstrainedProblem, *, device: Device = CPU, out: Array, took: Array) -> None:
        super().__init__(problem, device=device)
        self._out, self._took = out, took
        self._arrays = ConstrainedArrays(
            problem.signals,
            problem.white,
            problem.normals,
            np.ascontiguousarray(problem.normals.T),
            problem.back,
        )

    def advance(self, start: int, count: int) -> None:
        """Solve the voxels ``start`` to ``start + count - 1``."""
        rows, n = self._arrays.normals.shape

        def solve(first: int, stop: int) -> None:
            scratch = ConstrainedScratch(
                goal=np.empty(n),
                point=np.empty(n),
                amplitude=np.empty(rows),
                passive=np.empty(n + 1, np.int64),
                basis=np.empty((n + 1, n)),
                factor=np.empty((n + 1) * (n + 2) // 2),
                half=np.empty(n + 1),
                solved=np.empty(n + 1),
                multiplier=np.empty(n + 1),
                is_passive=np.empty(rows, np.bool_),
            )
            solve_rows(start + first, start + stop, self._arrays, scratch, self._out, self._took)

        run_blocks(solve, count, least=_EACH)
