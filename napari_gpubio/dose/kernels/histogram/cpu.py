"""Counting on the CPU cores, the counterpart of ``gpu.py``; the compiled functions are in ``counting.py``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers, jit
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.dose.kernels.histogram import counting
from napari_gpubio.dose.kernels.histogram.problem import Problem
from napari_gpubio.dose.kernels.histogram.sampling import DoseVoxels
from napari_gpubio.dose.kernels.histogram.slices import find_segments
from napari_gpubio.dose.kernels.histogram.tally import Tally
from napari_gpubio.dose.kernels.histogram.work import Box, ContourWork, LabelWork

Array = npt.NDArray[Any]
_FEW_VOXELS = 1 << 18  # one thread has counted them before others are awake
_FEW_TASKS = 8
_NO_EXTREMES = np.array([np.inf, 0.0, 0.0], np.float32)


class Run(drivers.Run):
    """One calculation on the CPU; items are the tasks of its works."""

    def __init__(self, problem: Problem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._rows = {n: _rows(work) for n, work in enumerate(problem.works) if isinstance(work, ContourWork)}
        self.renew(problem)

    def renew(self, problem: Problem) -> None:
        """Begin anew, with the same structures and another dose on the same grid."""
        self._problem = problem
        self._values = problem.grid.values()
        self.restart()

    def restart(self) -> None:
        """Forget what has been counted."""
        threads, organs = jit.thread_count(), len(self._problem.organs)
        self._counts = np.zeros((threads, organs, int(self._problem.bins.rule.bins) + 3), np.int64)  # see `counting`
        self._extremes = _no_extremes(threads, organs)
        self.strip_extremes = _no_extremes(self._problem.extreme_rows - 1, organs)

    def advance(self, start: int, count: int) -> None:
        """Count the tasks ``start`` to ``start + count - 1``."""
        for number, first, tasks in self._problem.pieces(start, count):
            work, few = self._problem.works[number], tasks < _FEW_TASKS
            if isinstance(work, ContourWork):
                self._tally(counting.tally_rows, self._rows[number], (first, first + tasks), few=few)
            elif isinstance(work, LabelWork):
                self._tally_box(work, work.box, np.arange(first, first + tasks), 1)
            else:
                points = counting.Points(work.points, work.tasks)
                self._tally(counting.tally_points, points, (first, first + tasks), few=few)

    def _tally(self, kernel: Any, work: Any, part: Any, *, few: bool, extremes: Array | None = None) -> None:
        """Count part of a work into copies of the counts, or only into the first copy where there is little to do."""
        copies = 1 if few else len(self._counts)
        extremes = self._extremes[:copies] if extremes is None else extremes
        nx, ny, nz = self._values.shape
        volume = DoseVoxels(self._values.reshape(-1), nx, ny, nz, np.int32(self._problem.grid.whole))
        jit.run_blocks(kernel, copies, volume, self._problem.bins.rule, work, part, self._counts[:copies], extremes)

    def tally_box(self, number: int, box: Box, sign: int) -> None:
        """Count the voxels of a box of label volume ``number`` of the works (1), or take them off (-1)."""
        work = self._label_work(number)
        self._tally_box(work, box, np.arange(work.strips_in(box)), sign)

    def renew_extremes(self, number: int, box: Box) -> None:
        """Nothing yet: `snapshot` finds lost extremes, because most of them do not matter."""

    def _tally_box(self, work: LabelWork, box: Box, strips: Array, sign: int) -> None:
        voxels = counting.Voxels(jit.read_only(work.labels), work.organs, work.divisions, work.frame)
        part = counting.Strips(work.strip_table(box, strips), box[4], box[5], sign)
        few = len(strips) * work.strip_rows * (box[5] - box[4]) <= _FEW_VOXELS
        extremes = self.strip_extremes if work.extremes else None
        self._tally(counting.tally_voxels, voxels, part, few=few, extremes=extremes)

    def _label_work(self, number: int) -> LabelWork:
        work = self._problem.works[number]
        assert isinstance(work, LabelWork)
        return work

    def paint(self, number: int, box: Box, labels: Array) -> None:
        """Put other labels into a box of a label volume."""
        work = self._label_work(number)
        work.labels[box[0] : box[1], box[2] : box[3], box[4] : box[5]] = labels

    def snapshot(self) -> Tally:
        """What has been counted until now."""
        counts = self._counts.sum(axis=0)
        painted = [work for work in self._problem.works if isinstance(work, LabelWork) and work.extremes]
        low, high = _ends(np.concatenate([self._extremes, *map(self._rows_of_ends, painted)]))
        sums, rests, outside = counts[:, -3:].T
        return Tally(counts[:, :-3], sums, rests, outside, low[None], high[None])

    def _rows_of_ends(self, work: LabelWork) -> Array:
        """Rows of extremes among which are the least and the largest of all strips.

        Where a strip has lost one, the old ones are its bounds: its voxels are searched again only if they are beyond
        those of all others.
        """
        own = self.strip_extremes[work.extremes - 1 :][: work.items]
        unsure = np.flatnonzero(own[..., counting.LOST].any(axis=1))
        bounds, kept = own[unsure], own.copy() if len(unsure) else own
        lost = bounds[..., counting.LOST] > 0
        kept[unsure] = np.where(lost[..., None], _NO_EXTREMES, bounds)
        slices = kept.reshape(len(work.labels), -1)  # which NumPy does fastest one by one
        sure = np.concatenate([end.reshape(-1, *own.shape[1:]) for end in (slices.min(axis=0), slices.max(axis=0))])
        low, high = _ends(sure)
        beyond = (bounds[..., counting.LEAST] < low) | (bounds[..., counting.LARGEST] > high)
        needed = unsure[(lost & beyond).any(axis=1)]
        if not len(needed):
            return sure
        marked = own[needed]
        marked[marked[..., counting.LOST] > 0] = (np.inf, 0.0, 1.0)
        own[needed] = marked
        self._tally_box(work, work.box, needed, 0)
        own[needed, :, counting.LOST] = 0.0
        return np.concatenate([sure, own[needed]])


def _no_extremes(rows: int, organs: int) -> Array:
    return np.tile(_NO_EXTREMES, (rows, organs, 1))


def _ends(extremes: Array) -> tuple[Array, Array]:
    """The least and the largest value of each organ."""
    return extremes[..., counting.LEAST].min(axis=0), extremes[..., counting.LARGEST].max(axis=0)


def _rows(work: ContourWork) -> counting.Rows:
    segments = find_segments(work.slices)
    return counting.Rows(work.slices.table, work.owner, segments.starts, segments.x, work.frames, work.tasks)
