"""Photons through layers on all CPU cores (Numba), the counterpart of ``gpu.py``; the physics is in ``packet.py``."""

import numpy as np

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks, thread_count
from napari_gpubio.layered.kernels.layers.packet import trace_range
from napari_gpubio.layered.kernels.layers.problem import SCALE, LayeredProblem, Scene, per_mm
from napari_gpubio.layered.kernels.layers.tally import BatchTally, LayerTally


class Run(drivers.Run):
    """The simulation of one problem on the CPU; items are photons, and a chunk lies within one batch."""

    def __init__(self, problem: LayeredProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self.span = problem.batch_size
        self._scene = scene_of(problem)
        self._done = LayerTally.empty(problem)
        self._tallies = np.zeros((problem.tallies(thread_count()), problem.tally_size), np.uint64)

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``, all of one batch."""
        p = self._problem
        run_blocks(trace_range, len(self._tallies), np.uint64(start), count, self._scene, self._tallies)
        fresh = LayerTally.empty(p)
        numbers = self._tallies.sum(axis=0, dtype=np.uint64)
        fresh.batches[start // self.span] = BatchTally([(start, start + count)], numbers)
        self._done.merge(fresh, p)
        self._tallies[:] = 0

    def snapshot(self) -> LayerTally:
        """Tallies so far; the run goes on."""
        return self._done.copy()


def scene_of(problem: LayeredProblem) -> Scene:
    """Everything that photons meet, as the kernels take it."""
    p, s = problem, problem.settings
    return Scene(
        layers=p.layers,
        n_above=np.float32(p.medium.n_above),
        n_below=np.float32(p.medium.n_below),
        first_layer=p.first_layer,
        weight=np.float32(1.0 - p.specular),
        threshold=p.threshold,
        radial=s.radial_bins,
        depth=s.depth_bins,
        radial_per_mm=per_mm(s.dr_mm),
        depth_per_mm=per_mm(s.dz_mm),
        cosines=p.cosines,
        collect=s.absorption != "drop",
        absorption=s.has_map,
        scale=np.float32(SCALE),
        seed=np.uint64(s.seed),
    )
