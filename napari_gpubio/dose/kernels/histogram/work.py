"""What the structures of a problem are for the kernels: rows of contours, voxels of labels, points; in tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine
from napari_gpubio.dose.kernels.histogram.slices import PlaneSlices, units_of

Array = npt.NDArray[Any]
Box = tuple[int, int, int, int, int, int]  # first and end along i, j, k
MAX_TASK_UNITS = 8192  # units of weight in a task, roughly its samples; a GPU's 32-bit counts hold 65535
_MIN_TASK_UNITS = 1024  # fewer are not worth the bins that a block clears and adds up
_TASKS = 1024  # that a calculation is cut into if it is large enough, so that all processors of a GPU have some
STRIP_ROWS = 64  # of voxels, at most
_MIN_STRIP_ROWS = 8  # a stroke may search whole strips, so short ones; a warp of a GPU's block takes a row
_MAX_EXTREMES_BYTES = 32 << 20  # of all strips of a volume, 12 for each organ in a strip on the CPU, 8 on a GPU
_POINTS_PER_TASK = 8192
NO_ORGAN = -1


@dataclass(frozen=True, eq=False, slots=True)
class ContourWork(ShortRepr):
    """Rows of all structures that are contours."""

    slices: PlaneSlices  # where the rows are
    owner: Array  # the slice of each row, int32
    frames: Array  # dose index of the origin of each organ's frame, and per mm along x, y, z; shape (organs, 4, 3)
    tasks: Array  # first row, end of rows, organ; shape (tasks, 3), int32

    @property
    def nbytes(self) -> int:
        """Of the slices, rows, edges, and crossings of both: an edge crosses as many rows as it is high."""
        table, edges = self.slices.table, self.slices.edges
        heights = np.concatenate([[0.0], np.cumsum(edges[:, 1] - edges[:, 0])])
        within = heights[table["edge_end"]] - heights[table["edge_first"]]
        crossings = np.divide(within, table["y_step"], out=np.zeros(len(table)), where=table["y_step"] > 0).sum()
        return int(table.nbytes + 12 * len(self.owner) + edges.nbytes + 8 * crossings)

    @property
    def items(self) -> int:
        """Number of tasks."""
        return len(self.tasks)


@dataclass(frozen=True, eq=False, slots=True)
class LabelWork(ShortRepr):
    """One label volume."""

    labels: Array  # shape (I, J, K), uint8 or uint16, C order
    organs: Array  # the organ of each label, -1 for none, int32
    divisions: Array  # samples of a voxel along i, j, k for each organ, shape (organs, 3), int32
    frame: Array  # dose index of voxel (0, 0, 0), and per voxel along i, j, k; shape (4, 3)
    strip_rows: int  # rows j of a strip, the part of a slice i that is one task
    # row of the extremes of the first strip, if each strip has its own; 0 if all share those of contours and points
    extremes: int

    @property
    def nbytes(self) -> int:
        """Of the labels."""
        return int(self.labels.nbytes)

    @property
    def items(self) -> int:
        """Number of strips."""
        return self.strips_in(self.box)

    @property
    def box(self) -> Box:
        """All of the volume."""
        i, j, k = self.labels.shape
        return 0, i, 0, j, 0, k

    def strips_in(self, box: Box) -> int:
        """Number of strips that a box meets."""
        i, i_end, j, j_end, _, _ = box
        return (i_end - i) * (-(-j_end // self.strip_rows) - j // self.strip_rows)

    def strip_table(self, box: Box, strips: Array) -> Array:
        """Where some of the strips that a box meets are; shape (strips, 4), int64.

        Slice i, first and end of the rows j in the box, and row of the strip's own extremes, or -1.
        """
        i, _, j, j_end, _, _ = box
        above, height = j // self.strip_rows, self.strip_rows
        in_slice = -(-j_end // height) - above
        table = np.empty((len(strips), 4), np.int64)
        number = above + strips % in_slice
        table[:, 0] = i + strips // in_slice
        table[:, 1], table[:, 2] = np.maximum(number * height, j), np.minimum((number + 1) * height, j_end)
        in_volume = -(-self.labels.shape[1] // height)  # strips of each slice
        table[:, 3] = self.extremes - 1 + table[:, 0] * in_volume + number if self.extremes else -1
        return table

    def whole_strips(self, box: Box) -> Box:
        """All of the strips that a box meets."""
        rows = self.strip_rows
        i, i_end, j, j_end, _, _ = box
        return i, i_end, j // rows * rows, min(-(-j_end // rows) * rows, self.labels.shape[1]), 0, self.labels.shape[2]


@dataclass(frozen=True, eq=False, slots=True)
class PointWork(ShortRepr):
    """Points of all structures that are samples."""

    points: Array  # dose indices, shape (N, 3), float32
    tasks: Array  # first point, end of points, organ; shape (tasks, 3), int32

    @property
    def nbytes(self) -> int:
        """Of the points."""
        return int(self.points.nbytes)

    @property
    def items(self) -> int:
        """Number of tasks."""
        return len(self.tasks)


Work = ContourWork | LabelWork | PointWork


def contour_work(slices: PlaneSlices, frames: Array) -> ContourWork:
    """Cut rows into tasks of one organ each and of limited weight."""
    owner = np.repeat(np.arange(len(slices.table), dtype=np.int32), slices.rows)
    units, tasks = units_of(slices), np.empty((len(owner), 3), np.int32)
    most = float(np.clip(units.sum() / _TASKS, _MIN_TASK_UNITS, MAX_TASK_UNITS))
    count = _cut(0, len(units), units, slices.table["organ"][owner], most, tasks)
    return ContourWork(slices, owner, frames, tasks[:count].copy())


@kernel
def _cut(start: int, stop: int, units: Array, organs: Array, most: float, tasks: Array) -> int:
    """Fill in first row, end and organ of each task, of at most so many units or of one row; returns their number."""
    count, room = 0, 0.0
    for row in range(start, stop):
        if row > start and organs[row] == organs[row - 1] and units[row] <= room:
            tasks[count - 1, 1] = row + 1
        else:
            tasks[count, 0], tasks[count, 1], tasks[count, 2] = row, row + 1, organs[row]
            count, room = count + 1, most
        room -= units[row]
    return count


def strip_rows_of(shape: tuple[int, ...], organs: int, *, painted: bool) -> int:
    """Rows of a strip of labels that will be painted or not, with the extremes of some organs in each."""
    rows = _MIN_STRIP_ROWS if painted else STRIP_ROWS
    while rows < STRIP_ROWS and 12 * organs * shape[0] * -(-shape[1] // rows) > _MAX_EXTREMES_BYTES:
        rows *= 2
    return rows


def point_work(points: Sequence[Array], organs: Sequence[int], from_world: Array) -> PointWork:
    """Lay out points of several structures, world mm, as dose indices."""
    tasks, first = [], 0
    for part, organ in zip(points, organs, strict=True):
        end = first + len(part)
        tasks += [(n, min(n + _POINTS_PER_TASK, end), organ) for n in range(first, end, _POINTS_PER_TASK)]
        first = end
    together = apply_affine(from_world, np.concatenate(points)).astype(np.float32)
    return PointWork(np.ascontiguousarray(together), np.array(tasks, np.int32).reshape(-1, 3))


def frame_of(matrix: Array) -> Array:
    """Origin and columns of a 4 x 4 matrix as rows, shape (4, 3), for the kernels."""
    return np.ascontiguousarray(np.stack([matrix[:3, 3], *matrix[:3, :3].T]), np.float64)
