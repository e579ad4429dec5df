"""Geodesics in fields of fixels on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from typing import Any

import numpy as np

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.tracts.kernels.fibers.cpu import FiberRun
from napari_gpubio.tracts.kernels.fibers.problem import RayOutput, Rays
from napari_gpubio.tracts.kernels.fibers.tally import AT_SEED
from napari_gpubio.tracts.kernels.fixels.geodesics import trace
from napari_gpubio.tracts.kernels.fixels.problem import FixelProblem, FixelVolumes


class Run(FiberRun):
    """The tracing of one problem on the CPU; items are fibers."""

    def __init__(self, problem: FixelProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._settings = problem.scalars
        self._volumes = FixelVolumes(
            fixels=problem.fixels,
            mask=problem.mask,
            to_voxel=tuple(problem.real(m) for m in problem.to_voxel[:3, :3].ravel()),
            to_world=tuple(problem.real(m) for m in problem.volume.affine[:3, :3].ravel()),
            shape=problem.volume.shape,
        )

    def launch(self, rays: Rays, output: RayOutput) -> None:
        """Trace rays, one row of the output for each."""
        run_blocks(trace, len(output.written), self._volumes, self._settings, rays, (), output, least=1)

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:
        """Amplitude of the fixels that each fiber follows at its seed."""
        return np.ascontiguousarray(output.stats[:: rays.per_fiber, AT_SEED])
