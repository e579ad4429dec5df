"""Counting in CUDA, the twin of ``cpu.py``; the kernels are in ``dvh.cu``.

The dose, the chords and the labels stay on the GPU as long as the run is open.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import kernel
from napari_gpubio.dose.histogram.problem import Problem
from napari_gpubio.dose.histogram.tally import Tally
from napari_gpubio.dose.histogram.work import STRIP_ROWS, ContourWork, LabelWork, PointWork

Box = tuple[int, int, int, int, int, int]
_SOURCE = Path(__file__).with_name("dvh.cu")
_THREADS = 256
_SHARED_BYTES = 48 * 1024  # that every GPU gives a block
_MOST_COPIES = 2  # of the bins of a task; a warp counts into one of them
_MOST_SLOTS = 8  # organs that have bins in a strip of voxels
_INFINITY = np.float32(np.inf).view(np.uint32)
LABEL_TYPES = {1: "unsigned char", 2: "unsigned short"}
_I = np.int32


class Run:
    """One calculation on one GPU; items are the tasks of its works."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        import cupy

        self.device = device
        self._problem = problem
        with cupy.cuda.Device(device.indices[0]):
            self._values = cupy.asarray(problem.grid.values)
            blank = Tally.empty(len(problem.organs), int(problem.bins.rule.bins), problem.extreme_rows)
            self._sums = [cupy.asarray(part) for part in (blank.counts, blank.sums, blank.outside)]
            self._extremes = [cupy.asarray(part.view(np.uint32)) for part in (blank.low, blank.high)]
            self._works = [_upload(work) for work in problem.works]

    def bytes_per_item(self) -> int:
        """Nothing beyond what is resident."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Count the tasks ``start`` to ``start + count - 1``."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]) as here:
            for number, first, tasks in self._problem.pieces(start, count):
                work = self._problem.works[number]
                if isinstance(work, LabelWork):
                    self._tally_box(number, work.box, (first, tasks), 1)
                else:
                    self._tally_tasks(number, first, tasks)
            here.synchronize()

    def _tally_tasks(self, number: int, first: int, tasks: int) -> None:
        name = "tally_rows" if isinstance(self._problem.works[number], ContourWork) else "tally_points"
        bins = 4 * int(self._problem.bins.rule.bins)
        copies = min(_MOST_COPIES, _SHARED_BYTES // bins)
        arguments = (*self._dose, *self._works[number], _I(first), _I(copies), *self._sums, *self._extremes)
        _kernel(name)((tasks,), (_THREADS,), arguments, shared_mem=copies * bins)

    def tally_box(self, number: int, box: Box, sign: int) -> None:
        """Count the voxels of a box of a label volume (1), take them off (-1), or see their extremes only (0).

        Parameters
        ----------
        number
            Of the work.
        box
            First and end along i, j, k.
        """
        import cupy

        strips = (box[1] - box[0]) * -(-(box[3] - box[2]) // STRIP_ROWS)
        with cupy.cuda.Device(self.device.indices[0]):
            self._tally_box(number, box, (0, strips), sign)

    def _tally_box(self, number: int, box: Box, strips: tuple[int, int], sign: int) -> None:
        work = self._problem.works[number]
        assert isinstance(work, LabelWork)
        labels, organs, divisions, frame = self._works[number]
        bins = 4 * int(self._problem.bins.rule.bins)
        slots = min(_MOST_SLOTS, (_SHARED_BYTES - 4 * _MOST_SLOTS) // bins)
        where = (box[0], *box[2:], STRIP_ROWS, work.extremes, len(self._problem.organs), strips[0], sign, slots)
        arguments = (*self._dose, labels, *map(_I, work.labels.shape[1:]), organs, divisions, frame, *map(_I, where))
        launched = _kernel("tally_voxels", label_define(work.labels))
        launched((strips[1],), (_THREADS,), (*arguments, *self._sums, *self._extremes), shared_mem=slots * (4 + bins))

    @property
    def _dose(self) -> tuple[Any, ...]:
        return self._values, *map(_I, self._values.shape), *self._problem.bins.rule

    def paint(self, number: int, box: Box, labels: npt.NDArray[Any]) -> None:
        """Put other labels into a box of a label volume."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            whole = self._works[number][0]
            new = cupy.asarray(np.ascontiguousarray(labels, whole.dtype))
            whole[box[0] : box[1], box[2] : box[3], box[4] : box[5]] = new

    def forget_extremes(self, first: int, end: int) -> None:
        """Let rows of least and largest dose be empty again."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            low, high = self._extremes
            low[first:end] = _INFINITY
            high[first:end] = np.uint32(0)

    def snapshot(self) -> Tally:
        """What has been counted until now, as NumPy."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            counts, sums, outside = (cupy.asnumpy(part) for part in self._sums)
            low, high = (cupy.asnumpy(part).view(np.float32) for part in self._extremes)
        return Tally(counts, sums, outside, low, high)

    def close(self) -> None:
        """Let the device arrays go."""
        self._values = None
        self._sums, self._extremes, self._works = [], [], []


def label_define(labels: npt.NDArray[Any]) -> tuple[str, ...]:
    """The specialisation of the kernels for the type of some labels."""
    return (f"LABEL={LABEL_TYPES[labels.dtype.itemsize]}",)


def _kernel(name: str, defines: tuple[str, ...] = (f"LABEL={LABEL_TYPES[1]}",)) -> Any:
    return kernel(_SOURCE, name, defines=defines, strict=True)


def _upload(work: ContourWork | LabelWork | PointWork) -> tuple[Any, ...]:
    """The arrays of a work in the order in which its kernel takes them."""
    import cupy

    if isinstance(work, ContourWork):
        return _upload_rows(work)
    if isinstance(work, LabelWork):
        return tuple(map(cupy.asarray, (work.labels, work.organs, work.divisions, work.frame)))
    return cupy.asarray(work.points), cupy.asarray(work.tasks)


def _upload_rows(work: ContourWork) -> tuple[Any, ...]:
    """Sheets and what their rows cross, found on the GPU."""
    import cupy

    rows = len(work.owner)
    sheets = cupy.asarray(work.sheets.table.view(np.uint8))  # CuPy knows no records
    owner, edges = cupy.asarray(work.owner), cupy.asarray(work.sheets.edges)
    starts = cupy.zeros(rows + 1, np.int64)
    grid = (-(-rows // _THREADS),)
    if rows:
        _kernel("count_crossings")(grid, (_THREADS,), (sheets, owner, edges, _I(rows), starts[1:]))
    starts = cupy.cumsum(starts)
    x = cupy.empty(int(starts[-1]), np.float64)
    if rows:
        _kernel("find_crossings")(grid, (_THREADS,), (sheets, owner, edges, _I(rows), starts, x))
    return sheets, owner, starts, x, cupy.asarray(work.frames), cupy.asarray(work.tasks)
