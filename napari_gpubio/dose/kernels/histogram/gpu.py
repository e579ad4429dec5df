"""Counting in CUDA, the counterpart of ``cpu.py``; the kernels are in ``dvh.cu``.

The dose, the segments and the labels stay on the GPU as long as the run is open.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.dose.kernels.histogram.dose_grid import ScaledDose
from napari_gpubio.dose.kernels.histogram.problem import Problem
from napari_gpubio.dose.kernels.histogram.tally import Tally
from napari_gpubio.dose.kernels.histogram.work import Box, ContourWork, LabelWork, PointWork

SOURCE = Path(__file__).with_name("dvh.cu")
_THREADS = 256
_SHARED_BYTES_PER_BLOCK = 48 * 1024
_MAX_COPIES = 2  # of the bins of a task; a warp counts into one of them
_MAX_SLOTS = 8  # organs that have bins in a strip of voxels
_MAX_PINNED_BYTES = 32 << 20  # of a copy; larger ones go through CUDA's own page-locked memory
_INFINITY = np.float32(np.inf).view(np.uint32)
LABEL_TYPES = {1: "unsigned char", 2: "unsigned short"}
_I = np.int32
# The structs of ``dvh.cu`` and its headers.
VOLUME = struct_layout({"values": POINTER, "nx": _I, "ny": _I, "nz": _I, "whole": _I})
BIN_RULE = struct_layout(
    {
        "logarithmic": _I,
        "bins": _I,
        "inverse_width": np.float32,
        "shift": _I,
        "first": _I,
        "fine": np.float32,
    }
)
SUMS = struct_layout(dict.fromkeys(("counts", "totals", "rests", "outside", "low", "high"), POINTER))
ROWS = struct_layout(dict.fromkeys(("slices", "owner", "starts", "x", "frames", "tasks"), POINTER))
POINTS = struct_layout({"places": POINTER, "tasks": POINTER})
VOXELS = struct_layout(
    {"labels": POINTER, "organs": POINTER, "divisions": POINTER, "frame": POINTER, "nj": _I, "nk": _I}
)
VOXEL_BOX = struct_layout(
    dict.fromkeys(("i_first", "j_first", "j_end", "k_first", "k_end", "height", "extremes", "organs"), _I)
)


class Uploaded(NamedTuple):
    """A work on a GPU: the struct that its kernel takes, and the arrays that it points at."""

    struct: np.void
    arrays: dict[str, Any]


class Run(drivers.Run):
    """One calculation on one GPU; items are the tasks of its works."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        self._kernels: dict[tuple[str, ...], Any] = {}
        organs, bins, rows = len(problem.organs), int(problem.bins.rule.bins), problem.extreme_rows
        with device.current():
            self._values = cupy.empty(problem.grid.source.shape, np.float32)
            self._staged = _page_locked(self._values) if problem.grid.source.dtype == np.float32 else None
            self._blank = cupy.asarray(_nothing(organs, bins))
            self._found = cupy.empty_like(self._blank)  # in one piece, to be cleared and fetched by one copy
            *sums, self._ends = _parts(self._found, organs, bins)
            self._extremes = self._ends[:, None] if rows == 1 else cupy.empty((2, rows, organs), np.uint32)
            low, high = self._extremes
            counted = dict(zip(("counts", "totals", "rests", "outside"), sums, strict=True))
            self._sums = struct(SUMS, **counted, low=low, high=high)
            self._works: tuple[Uploaded, ...] = tuple(_upload(work) for work in problem.works)
        self.renew(problem)

    def renew(self, problem: Problem) -> None:
        """Begin anew, with the same structures and another dose on the same grid."""
        self._problem = problem
        nx, ny, nz = self._values.shape
        volume = struct(VOLUME, values=self._values, nx=nx, ny=ny, nz=nz, whole=problem.grid.whole)
        self._dose = volume, struct(BIN_RULE, **problem.bins.rule._asdict())
        with self.device.current():
            self._upload_dose(problem.grid)
        self.restart()

    def _upload_dose(self, grid: ScaledDose) -> None:
        """Bring a dose to the GPU and scale it there, without a pass over it on the CPU where it is float32."""
        import cupy

        if grid.source.dtype != np.float32:
            self._values.set(grid.values())
            return
        if self._staged is None:
            self._values.set(grid.source)
        else:
            stream = cupy.cuda.get_current_stream()
            stream.synchronize()  # an earlier dose may be on its way still
            np.copyto(self._staged, grid.source)
            self._values.set(self._staged, stream=stream)
        size = self._values.size
        arguments = (self._values, np.int64(size), np.float64(grid.least), np.float64(grid.inverse_scale))
        self._kernel("scale_dose")((-(-size // _THREADS),), (_THREADS,), arguments)

    def restart(self) -> None:
        """Forget what has been counted."""
        import cupy

        with self.device.current():
            cupy.copyto(self._found, self._blank)
            if self._problem.extreme_rows > 1:
                self._extremes[0], self._extremes[1] = _INFINITY, np.uint32(0)

    def advance(self, start: int, count: int) -> None:
        """Count the tasks ``start`` to ``start + count - 1``."""
        with self.device.current() as here:
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
        copies = min(_MAX_COPIES, _SHARED_BYTES_PER_BLOCK // bins)
        arguments = (*self._dose, self._works[number].struct, _I(first), _I(copies), self._sums)
        self._kernel(name)((tasks,), (_THREADS,), arguments, shared_mem=copies * bins)

    def tally_box(self, number: int, box: Box, sign: int) -> None:
        """Count the voxels of a box of label volume ``number`` of the works (1), or take them off (-1)."""
        with self.device.current():
            self._tally_box(number, box, (0, self._label_work(number).strips_in(box)), sign)

    def renew_extremes(self, number: int, box: Box) -> None:
        """Find extremes again that were lost when a box was taken off, each in its whole strip."""
        work = self._label_work(number)
        with self.device.current():
            self._tally_box(number, work.whole_strips(box), (0, work.strips_in(box)), 0)

    def _tally_box(self, number: int, box: Box, strips: tuple[int, int], sign: int) -> None:
        work, count = self._label_work(number), len(self._problem.organs)
        slot = 4 * (1 + int(self._problem.bins.rule.bins))  # bytes
        slots = min(_MAX_SLOTS, _SHARED_BYTES_PER_BLOCK // slot) if sign else 0
        where = (box[0], *box[2:], work.strip_rows, work.extremes, count)
        place = struct(VOXEL_BOX, **dict(zip(VOXEL_BOX.names or (), where, strict=True)))
        voxels = self._works[number].struct
        arguments = (*self._dose, voxels, place, _I(strips[0]), _I(sign), _I(slots), self._sums)
        shared = slots * slot if sign else 4 * -(-count // 32)
        self._kernel("tally_voxels", label_define(work.labels))((strips[1],), (_THREADS,), arguments, shared_mem=shared)

    def _label_work(self, number: int) -> LabelWork:
        work = self._problem.works[number]
        assert isinstance(work, LabelWork)
        return work

    def _kernel(self, name: str, defines: tuple[str, ...] = ()) -> Any:
        """A kernel, kept because CuPy takes some microseconds to find it."""
        if (name, *defines) not in self._kernels:
            self._kernels[name, *defines] = _kernel(name, *([defines] if defines else []))
        return self._kernels[name, *defines]

    def paint(self, number: int, box: Box, labels: npt.NDArray[Any]) -> None:
        """Put other labels into a box of a label volume."""
        import cupy

        with self.device.current():
            whole = self._works[number].arrays["labels"]
            new = cupy.asarray(np.ascontiguousarray(labels, whole.dtype))
            whole[box[0] : box[1], box[2] : box[3], box[4] : box[5]] = new

    def snapshot(self) -> Tally:
        """What has been counted until now, as NumPy."""
        with self.device.current():
            if self._problem.extreme_rows > 1:
                self._ends[0], self._ends[1] = self._extremes[0].min(axis=0), self._extremes[1].max(axis=0)
            found = self._found.get(out=_page_locked(self._found))
        *sums, ends = _parts(found, len(self._problem.organs), int(self._problem.bins.rule.bins))
        return Tally(*sums, *ends.view(np.float32)[:, None])


def _page_locked(array: Any) -> npt.NDArray[Any] | None:
    """Memory for a copy of a device array, which CuPy keeps for the next time; none for a large one.

    Copies to and from other memory take several times as long.
    """
    import cupy

    if array.nbytes > _MAX_PINNED_BYTES:
        return None
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), array.dtype, array.size).reshape(array.shape)


def _nothing(organs: int, bins: int) -> npt.NDArray[np.int64]:
    """What a run has found before its first sample."""
    found = np.zeros(organs * (bins + 4), np.int64)
    found[organs * (bins + 3) :].view(np.uint32)[:organs] = _INFINITY
    return found


def _parts(found: Any, organs: int, bins: int) -> tuple[Any, ...]:
    """Counts (organs, bins), sums of dose, their rests, weight outside, bits of least and largest value (2, organs).

    They are parts of one array, of CuPy or NumPy.
    """
    sums = (found[organs * n : organs * (n + 1)] for n in range(bins, bins + 3))
    ends = found[organs * (bins + 3) :].view(np.uint32).reshape(2, organs)
    return found[: organs * bins].reshape(organs, bins), *sums, ends


def label_define(labels: npt.NDArray[Any]) -> tuple[str, ...]:
    """The specialization of the kernels for the type of some labels."""
    return (f"LABEL={LABEL_TYPES[labels.dtype.itemsize]}",)


def _kernel(name: str, defines: tuple[str, ...] = (f"LABEL={LABEL_TYPES[1]}",)) -> Any:
    return kernel(SOURCE, name, defines=defines, strict=True)


def _upload(work: ContourWork | LabelWork | PointWork) -> Uploaded:
    import cupy

    if isinstance(work, ContourWork):
        return upload_rows(work)
    if isinstance(work, LabelWork):
        arrays = {name: cupy.asarray(getattr(work, name)) for name in ("labels", "organs", "divisions", "frame")}
        nj, nk = work.labels.shape[1:]
        return Uploaded(struct(VOXELS, **arrays, nj=nj, nk=nk), arrays)
    arrays = {"places": cupy.asarray(work.points), "tasks": cupy.asarray(work.tasks)}
    return Uploaded(struct(POINTS, **arrays), arrays)


def upload_rows(work: ContourWork) -> Uploaded:
    """Plane slices and the segments of their rows, found on the GPU."""
    import cupy

    rows = len(work.owner)
    slices = cupy.asarray(work.slices.table.view(np.uint8))  # CuPy has no records
    owner, edges = cupy.asarray(work.owner), cupy.asarray(work.slices.edges)
    starts = cupy.zeros(rows + 1, np.int64)
    grid = (-(-rows // _THREADS),)
    if rows:
        _kernel("count_crossings")(grid, (_THREADS,), (slices, owner, edges, _I(rows), starts[1:]))
    starts = cupy.cumsum(starts)
    x = cupy.empty(int(starts[-1]), np.float64)
    if rows:
        _kernel("find_crossings")(grid, (_THREADS,), (slices, owner, edges, _I(rows), starts, x))
    arrays = {"slices": slices, "owner": owner, "starts": starts, "x": x}
    arrays |= {"frames": cupy.asarray(work.frames), "tasks": cupy.asarray(work.tasks)}
    return Uploaded(struct(ROWS, **arrays), arrays)
