"""Counting in CUDA, the twin of ``cpu.py``; the kernels are in ``dvh.cu``.

The dose, the chords and the labels stay on the GPU as long as the run is open.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import kernel
from napari_gpubio.dose.histogram.grid import ScaledDose
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
        organs, bins = len(problem.organs), int(problem.bins.rule.bins)
        with cupy.cuda.Device(device.indices[0]):
            self._values = cupy.empty(problem.grid.source.shape, np.float32)
            self._blank = cupy.asarray(_nothing(organs, bins, problem.extreme_rows))
            self._found = cupy.empty_like(self._blank)  # in one piece, to be cleared and fetched by one copy
            *self._sums, self._extremes = _parts(self._found, organs, bins)
            self._works: tuple[Any, ...] = tuple(_upload(work) for work in problem.works)
        self.renew(problem)

    def renew(self, problem: Problem) -> None:
        """Begin anew, with the same structures and another dose on the same grid."""
        import cupy

        self._problem = problem
        with cupy.cuda.Device(self.device.indices[0]):
            _upload_dose(problem.grid, self._values)
        self.restart()

    def restart(self) -> None:
        """Forget what has been counted."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            cupy.copyto(self._found, self._blank)

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
            self._extremes[0, first:end] = _INFINITY
            self._extremes[1, first:end] = np.uint32(0)

    def snapshot(self) -> Tally:
        """What has been counted until now, as NumPy."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            found = cupy.asnumpy(self._found)
        *sums, extremes = _parts(found, len(self._problem.organs), int(self._problem.bins.rule.bins))
        return Tally(*sums, *extremes.view(np.float32))

    def close(self) -> None:
        """Let the device arrays go."""
        self._values = self._blank = self._found = self._extremes = None
        self._sums, self._works = [], ()


def _nothing(organs: int, bins: int, rows: int) -> npt.NDArray[np.int64]:
    """What a run has found before its first sample."""
    found = np.zeros(organs * (bins + 2 + rows), np.int64)
    found[organs * (bins + 2) :].view(np.uint32)[: rows * organs] = _INFINITY
    return found


def _parts(found: Any, organs: int, bins: int) -> tuple[Any, Any, Any, Any]:
    """Counts (organs, bins), sums of dose, weight outside, and bits of least and largest value (2, rows, organs).

    They are parts of one array, of CuPy or NumPy.
    """
    ends = organs * bins, organs * (bins + 1), organs * (bins + 2)
    counts, totals, outside = found[: ends[0]], found[ends[0] : ends[1]], found[ends[1] : ends[2]]
    return counts.reshape(organs, bins), totals, outside, found[ends[2] :].view(np.uint32).reshape(2, -1, organs)


def _upload_dose(grid: ScaledDose, values: Any) -> None:
    """Bring a dose to the GPU and scale it there, without a pass over it on the CPU where it is float32."""
    if grid.source.dtype != values.dtype:
        values.set(grid.values())
        return
    values.set(grid.source)
    arguments = (values, np.int64(values.size), np.float64(grid.least), np.float64(grid.inverse_scale))
    _kernel("scale_dose")((-(-values.size // _THREADS),), (_THREADS,), arguments)


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
