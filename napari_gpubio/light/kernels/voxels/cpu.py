"""Photons through voxels on all CPU cores (Numba), the counterpart of ``gpu.py``; the physics is in ``photon.py``."""

import numba
import numpy as np

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.light.kernels.voxels.fold import fold_batch
from napari_gpubio.light.kernels.voxels.photon import DETECTED_NUMBERS, LEDGER
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import CaughtPhotons, OpenBatch, Partial
from napari_gpubio.light.kernels.voxels.trace import trace_range
from napari_gpubio.light.scheduling import joined

_BLOCKS_PER_THREAD = 4


class Run:
    """The simulation of one problem on the CPU; items are photons, and a chunk lies within one batch."""

    def __init__(self, problem: VoxelProblem, *, device: Device = CPU) -> None:
        self.device = device
        self.span = problem.batch_size
        self._problem = problem
        self._whole = Partial.empty(problem)
        self._tally = np.zeros(problem.tally_size, np.uint64)
        self._ledger = np.zeros(LEDGER, np.uint64)
        self._done: list[tuple[int, int]] = []

    def bytes_per_item(self) -> int:
        """Bytes of the list of detected photons that one photon may take."""
        return self._problem.detected_bytes if self._problem.detectors else 1

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``, all of one batch."""
        batch = start // self.span
        if self._done and self._done[0][0] // self.span != batch:
            self._whole.merge_open(self._done[0][0] // self.span, self._open_batch())
            self._clear()
        self._trace(start, count)
        self._done = joined([*self._done, (start, start + count)])
        if sum(b - a for a, b in self._done) == self.span:
            self._close(batch)

    def snapshot(self) -> Partial:
        """Tallies so far, copied; the run goes on."""
        copy = self._whole.copy()
        if self._done:
            copy.merge_open(self._done[0][0] // self.span, self._open_batch())
        return copy

    def close(self) -> None:
        """Nothing to free on the CPU."""

    def _trace(self, start: int, count: int) -> None:
        p, settings = self._problem, self._problem.settings
        capacity = count if p.detectors else 0
        caught = np.zeros(1, np.int64)
        photons = np.empty(capacity, np.uint64)
        numbers = np.empty((capacity, DETECTED_NUMBERS + p.media_rows), np.float32)
        with cpu_threads():
            trace_range(
                np.uint64(start), count, min(count, numba.get_num_threads() * _BLOCKS_PER_THREAD),
                np.uint64(settings.seed), (*p.size, *p.edges_mm), p.rows, p.media, p.mua, p.mus, p.faces,
                settings.refraction, p.specular, np.float32(settings.roulette_threshold), p.gate_edges, p.kind,
                p.source_numbers, p.pattern, p.pattern_columns, self._tally, p.gates * p.cells if p.halves > 1 else 0,
                p.cells, np.float32(p.scale), self._ledger, np.float32(p.ledger_scale), self._whole.exits,
                p.detector_numbers, caught, photons, numbers,
            )  # fmt: skip
        if found := int(caught[0]):
            self._whole.caught.add(CaughtPhotons(photons[:found], numbers[:found]), settings.max_detected)

    def _close(self, batch: int) -> None:
        p = self._problem
        energy = np.zeros(p.media_rows, np.uint64)
        with cpu_threads():
            fold_batch(
                self._tally, p.cells, p.gates, p.halves, self._whole.sums, self._whole.squares, p.rows, p.media, p.mua,
                p.energy_scale, energy,
            )  # fmt: skip
        self._whole.batches[batch] = np.concatenate([self._ledger, energy])
        self._clear()

    def _open_batch(self) -> OpenBatch:
        return OpenBatch(list(self._done), self._tally.copy(), self._ledger.copy())

    def _clear(self) -> None:
        self._tally[:] = 0
        self._ledger[:] = 0
        self._done = []
