"""Photons through layers on all CPU cores (Numba), the counterpart of ``gpu.py``; the physics is in ``packet.py``."""

import numba
import numpy as np

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.light.kernels.layers.packet import trace_range
from napari_gpubio.light.kernels.layers.problem import SCALE, LayeredProblem, per_mm
from napari_gpubio.light.kernels.layers.tally import BatchTally, LayeredPartial

_MOST_TALLY_BYTES = 512 << 20  # each thread has a tally of its own


class Run:
    """The simulation of one problem on the CPU; items are photons, and a chunk lies within one batch."""

    def __init__(self, problem: LayeredProblem, *, device: Device = CPU) -> None:
        self.device = device
        self.span = problem.batch_size
        self._problem = problem
        self._done = LayeredPartial.empty(problem)
        self._tallies = np.zeros((_threads(problem), problem.tally_size), np.uint64)

    def bytes_per_item(self) -> int:
        """Nothing is kept for a single photon."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``, all of one batch."""
        p, s = self._problem, self._problem.settings
        with cpu_threads():
            trace_range(
                np.uint64(start), count, np.uint64(s.seed), p.layers, np.float32(p.medium.n_above),
                np.float32(p.medium.n_below), p.first_layer, np.float32(1.0 - p.specular),
                p.threshold, s.radial_bins, s.depth_bins, per_mm(s.dr_mm), per_mm(s.dz_mm),
                p.cosines, s.edge == "collect", s.absorption, self._tallies, np.float32(SCALE),
            )  # fmt: skip
        fresh = LayeredPartial(p.batch_size, p.key)
        numbers = self._tallies.sum(axis=0, dtype=np.uint64)
        fresh.batches[start // self.span] = BatchTally([(start, start + count)], numbers)
        self._done.add(fresh, p)
        self._tallies[:] = 0

    def snapshot(self) -> LayeredPartial:
        """Tallies so far; the run goes on."""
        return self._done.copy()

    def close(self) -> None:
        """Nothing to free on the CPU."""


def tally_bytes(problem: LayeredProblem) -> int:
    """Bytes that the threads' tallies take."""
    return 8 * problem.tally_size * _threads(problem)


def _threads(problem: LayeredProblem) -> int:
    return int(min(numba.get_num_threads(), max(1, _MOST_TALLY_BYTES // (8 * problem.tally_size))))
