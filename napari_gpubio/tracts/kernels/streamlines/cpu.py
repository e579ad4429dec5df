"""Streamlines in FODs on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.tracts.kernels.fibers.cpu import FiberRun
from napari_gpubio.tracts.kernels.fibers.problem import RayOutput, Rays
from napari_gpubio.tracts.kernels.fibers.tally import AT_SEED
from napari_gpubio.tracts.kernels.streamlines.problem import FodVolumes, StreamlineProblem
from napari_gpubio.tracts.kernels.streamlines.streamlines import trace

Array = npt.NDArray[Any]
_BLOCKS_PER_THREAD = 16  # since some fibers are much longer than others


class Run(FiberRun):
    """The tracing of one problem on the CPU; items are fibers."""

    def __init__(self, problem: StreamlineProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._settings = problem.scalars
        self._volumes = FodVolumes(
            fods=problem.pairs,
            table=problem.table,
            mask=problem.mask,
            to_voxel=tuple(problem.real(m) for m in problem.to_voxel[:3, :3].ravel()),
            shape=problem.field.shape,
            lmax=problem.field.lmax,
        )

    def launch(self, rays: Rays, output: RayOutput) -> None:
        """Trace rays, one row of the output for each."""
        fods = self._volumes.fods

        def trace_some(start: int, stop: int) -> None:
            memory = np.empty(fods.shape[3], fods.dtype), np.empty(fods.shape[3], fods.dtype)
            trace(start, stop, self._volumes, self._settings, rays, memory, output)

        run_blocks(trace_some, len(output.written), least=1, blocks_per_thread=_BLOCKS_PER_THREAD)

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:
        """Amplitude along each fiber at its seed."""
        return np.ascontiguousarray(output.stats[:: rays.per_fiber, AT_SEED])
