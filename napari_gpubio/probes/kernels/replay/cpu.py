"""Photons of a list traced again on all CPU cores (Numba), the counterpart of ``gpu.py``."""

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.light.kernels.voxels.cpu import scene_of
from napari_gpubio.light.kernels.voxels.fold import writable
from napari_gpubio.light.kernels.voxels.photon import Scene
from napari_gpubio.light.kernels.voxels.problem import ENERGY_PARTS, VoxelProblem
from napari_gpubio.light.kernels.voxels.record import Scores, Trails
from napari_gpubio.light.kernels.voxels.tally import DetectedList
from napari_gpubio.light.kernels.voxels.trace import Tallies, trace_photons
from napari_gpubio.optics.batches import Words
from napari_gpubio.probes.kernels.replay.fold import SUMS, Finish, Fold, finish_cells, fold_groups
from napari_gpubio.probes.kernels.replay.measurements import GROUPS
from napari_gpubio.probes.kernels.replay.problem import DetectorPart, ReplayProblem, Span, empty_list
from napari_gpubio.probes.kernels.replay.trails import VERTEX_NUMBERS, TrailProblem

_BLOCKS_PER_THREAD = 16
_MIN_CELLS = 65536


class Run(drivers.Run):
    """Derivatives of one problem on the CPU; items are lines of the list of photons."""

    def __init__(self, problem: ReplayProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        p = problem
        self._scene, self._scratch = scene_of(p.voxels), np.zeros(p.voxels.cells, np.uint64)
        self._tally = np.zeros(p.slots * p.tally_size, np.uint64)
        self._sums = np.zeros(SUMS * p.tally_size)
        self._labels = np.zeros((GROUPS, p.volumes, p.voxels.media_rows), np.uint64)

    def advance(self, start: int, count: int) -> None:
        """Trace the photons of the lines ``start`` to ``start + count - 1``, all of one detector."""
        p = self._problem
        for span in p.spans(start, count):
            self._trace(span)
            if p.is_last(span):
                self._fold(span)
            if span.stop == p.arrivals.of(span.detector).stop:
                self._finished.append((span.detector, self._finish(span.detector)))

    def _trace(self, span: Span) -> None:
        p, lines = self._problem, slice(span.start, span.stop)
        scores = Scores(
            factors=writable(p.factors[lines]),
            slots=p.arrivals.group[lines] - span.first_group,
            by_mua=p.by_mua,
            by_mus=p.by_mus,
            cells=p.voxels.cells,
            tally=self._tally,
        )
        found = trace_again(p.voxels, self._scene, self._scratch, p.arrivals.photon[lines], scores=scores)
        p.check_arrivals(span, found)

    def _fold(self, span: Span) -> None:
        p = self._problem
        groups = slice(span.first_group, span.first_group + span.groups)
        fold = Fold(
            tally=self._tally,
            groups=span.groups,
            volumes=p.volumes,
            cells=p.voxels.cells,
            units=p.units(span.detector),
            shares=np.ascontiguousarray(p.shares(span.detector)[:, :, groups].transpose(2, 0, 1)),
            sums=self._sums,
            rows=writable(p.voxels.rows),
            media_rows=p.voxels.media_rows,
            labels=self._labels[groups].reshape(-1),
        )
        run_blocks(fold_groups, p.voxels.cells, fold, least=_MIN_CELLS)

    def _finish(self, detector: int) -> DetectorPart:
        p = self._problem
        values, errors = (np.empty(p.tally_size, np.float32) for _ in range(2))
        finish = Finish(
            sums=self._sums,
            volumes=p.volumes,
            cells=p.voxels.cells,
            partners=p.partners,
            products=p.products(detector),
            freedom=GROUPS / (GROUPS - 1.0),
            values=values,
            errors=errors,
        )
        run_blocks(finish_cells, p.voxels.cells, finish, least=_MIN_CELLS)
        labels = self._labels.astype(np.int64) * p.units(detector)[:, None]
        self._sums[:] = 0.0
        self._labels[:] = 0
        return DetectorPart(p.cropped(values), p.cropped(errors), labels)


class TrailRun(drivers.Run):
    """Trajectories of one problem on the CPU; items are lines of the list of photons."""

    def __init__(self, problem: TrailProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._scene, self._scratch = scene_of(problem.voxels), np.zeros(problem.voxels.cells, np.uint64)

    def advance(self, start: int, count: int) -> None:
        """Trace the photons of the lines ``start`` to ``start + count - 1``."""
        p = self._problem
        trails = Trails(
            counts=np.zeros(count, np.int64),
            crossings=p.crossings,
            kinds=np.zeros((count, p.room), np.uint8),
            numbers=np.zeros((count, p.room, VERTEX_NUMBERS), np.float32),
        )
        items = p.chosen[start : start + count]
        found = trace_again(p.voxels, self._scene, self._scratch, items, trails=trails)
        self._finished.append((start, p.packed(start, trails.counts, trails.kinds, trails.numbers, found)))


def trace_again(
    problem: VoxelProblem,
    scene: Scene,
    scratch: Words,
    items: npt.NDArray[np.uint64],
    *,
    scores: Scores | None = None,
    trails: Trails | None = None,
) -> DetectedList:
    """Trace photons of a list once more and return those that are detected; their energy goes nowhere."""
    p = problem
    detected, photons, numbers = empty_list(p, len(items) if p.detectors else 0)
    tallies = Tallies(
        path=scratch,
        half_stride=0,
        gate_stride=0,
        scale=np.float32(p.scale),
        energy=np.zeros(ENERGY_PARTS, np.uint64),
        energy_scale=np.float32(p.energy_scale),
        exits=np.zeros(0, np.uint64),
        detected=detected,
        photons=photons,
        numbers=numbers,
        items=writable(items),
        scores=scores,
        trails=trails,
    )
    run_blocks(trace_photons, len(items), np.uint64(0), scene, tallies, blocks_per_thread=_BLOCKS_PER_THREAD)
    found = int(detected[0])
    return DetectedList(photons[:found], numbers[:found])
