"""Maxima of FODs on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.diffusion.fods.harmonics import paired
from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem
from napari_gpubio.diffusion.kernels.peaks.search import PeakArrays, find_rows

Array = npt.NDArray[Any]
_EACH = 32  # voxels worth a thread


class Run(drivers.Run):
    """The search on the CPU; items are voxels.

    ``out``: (M, most, 4) and ``counts``: (M,), which runs of several devices may share.
    """

    def __init__(self, problem: PeakProblem, *, device: Device = CPU, out: Array, counts: Array) -> None:
        super().__init__(problem, device=device)
        self._out, self._counts = out, counts
        settings = problem.settings
        self._arrays = PeakArrays(
            pairs=paired(problem.coefficients.astype(np.float64)),
            directions=problem.directions,
            neighbors=problem.neighbors,
            columns=problem.columns,
            table=problem.table,
            lmax=problem.lmax,
            least_fraction=settings.least_fraction,
            least_amplitude=settings.least_amplitude,
            least_cosine=problem.least_cosine,
        )

    def advance(self, start: int, count: int) -> None:
        """Search the voxels ``start`` to ``start + count - 1``."""

        def find(first: int, stop: int) -> None:
            rows = len(self._arrays.directions)
            memory = np.empty(rows), np.empty((rows, 4))
            find_rows(start + first, start + stop, self._arrays, memory, self._out, self._counts)

        run_blocks(find, count, least=_EACH)
