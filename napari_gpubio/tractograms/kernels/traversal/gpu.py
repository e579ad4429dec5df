"""Fibers and regions on one GPU, the counterpart of ``cpu.py``; kernels: ``traversal.cu``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.tractograms.kernels.traversal.problem import (
    LARGEST,
    QUANTUM_MM,
    Answers,
    Group,
    TraversalProblem,
    VoxelGrid,
)

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("traversal.cu")
LAYOUTS = {
    "Lines": struct_layout({"points": POINTER, "offsets": POINTER, "count": np.int64}),
    "VoxelGrid": struct_layout({"to_voxel": (np.float64, 12), "shape": (np.int32, 3)}),
    "Answers": struct_layout({"passed": POINTER, "first": POINTER, "last": POINTER}),
    "Solid": struct_layout({"numbers": (np.float64, 6), "kind": np.int32}),
    "Visits": struct_layout(dict.fromkeys(("starts", "keys", "lengths"), POINTER) | {"quantum_mm": np.float64}),
}
_THREADS = 128
_MAX_VISITS = 1 << 26  # listed at once: half a gigabyte


class Run(drivers.Run):
    """Questions to the fibers of one tractogram, which stay on the GPU, as do their bounding boxes."""

    def __init__(self, problem: TraversalProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        fibers = problem.fibers
        self._count = len(fibers)
        with self.device.current():
            self._points, self._offsets = cupy.asarray(fibers.points), cupy.asarray(fibers.offsets)
        self._lines = struct(LAYOUTS["Lines"], points=self._points, offsets=self._offsets, count=self._count)
        self._boxes: Any = None

    def bounds(self) -> tuple[Array, Array]:
        """Lowest and highest x, y and z of all fibers, each (3,); infinitely far apart if there is no point."""
        with self.device.current():
            boxes = self._bounding_boxes()
            if not len(boxes):
                return np.full(3, LARGEST), np.full(3, -LARGEST)
            return to_host(boxes[:, :3].min(axis=0)), to_host(boxes[:, 3:].max(axis=0))

    def words(self, group: Group) -> Answers:
        """Return which regions of a group fibers pass, begin in and end in."""
        import cupy

        with self.device.current():
            here, near = (cupy.asarray(words) for words in group.words)
            grid, answers = _grid(group.grid), _Found(self._count)
            self._launch("find_words", self._lines, grid, here, near, answers.struct)
            return answers.on_host()

    def solid(self, kind: int, numbers: Array) -> Answers:
        """Return which fibers pass a sphere or box, begin in it and end in it: 0 or 1."""
        with self.device.current():
            answers, boxes = _Found(self._count), self._bounding_boxes()
            solid = struct(LAYOUTS["Solid"], numbers=numbers, kind=kind)
            self._launch("find_solid", self._lines, boxes, solid, answers.struct)
            return answers.on_host()

    def density(self, grid: VoxelGrid, values: npt.NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Return maps of a grid, int64: number of fibers, their length in quanta, sum of the fibers' values (F,)."""
        import cupy

        with self.device.current():
            maps = tuple(cupy.zeros(int(np.prod(grid.shape)), np.int64) for _ in range(3))
            visits = cupy.empty(self._count, np.int64)
            self._launch("most_visits", self._lines, _grid(grid), visits)
            ends, first = np.concatenate([[0], np.cumsum(to_host(visits))]), 0
            while first < self._count:
                last = max(first + 1, int(np.searchsorted(ends, ends[first] + _MAX_VISITS, "right")) - 1)
                self._add_density(grid, values, maps, ends[first : last + 1] - ends[first], first)
                first = last
            counts, lengths, sums = (to_host(part).reshape(grid.shape) for part in maps)
        return counts, lengths, sums

    def _bounding_boxes(self) -> Any:
        import cupy

        if self._boxes is None:
            self._boxes = cupy.empty((self._count, 6), np.float32)
            self._launch("find_boxes", self._lines, self._boxes)
        return self._boxes

    def _add_density(self, grid: VoxelGrid, values: Array, maps: Any, starts: Array, first: int) -> None:
        """Add the fibers from one on; ``starts``: of each one's part of the list of visits, and its end."""
        import cupy

        count, (counts, lengths, sums) = len(starts) - 1, maps
        keys, on_device = cupy.full(max(1, int(starts[-1])), -1, np.int64), cupy.asarray(starts)
        lines = struct(LAYOUTS["Lines"], points=self._points, offsets=self._offsets[first:], count=count)
        visits = struct(LAYOUTS["Visits"], starts=on_device, keys=keys, lengths=lengths, quantum_mm=QUANTUM_MM)
        self._launch("list_visits", lines, _grid(grid), visits)
        keys = cupy.unique(keys[keys >= 0])  # each fiber once in a voxel
        voxels, fibers, cells = keys % counts.size, keys // counts.size, counts.size
        counts += cupy.bincount(voxels, minlength=cells)
        # whole numbers, which a double adds exactly as far as the sums stay below 2^53
        weights = cupy.asarray(values[first : first + count].astype(np.float64))[fibers]
        sums += cupy.rint(cupy.bincount(voxels, weights=weights, minlength=cells)).astype(np.int64)

    def _launch(self, name: str, lines: Any, *arguments: Any) -> None:
        blocks = max(1, -(-int(lines["count"]) // _THREADS))
        kernel(SOURCE, name, strict=True)((blocks,), (_THREADS,), (lines, *arguments))


class _Found:
    """Answers on the current device."""

    def __init__(self, count: int) -> None:
        import cupy

        self._arrays = Answers(*(cupy.empty(count, np.uint64) for _ in range(3)))
        self.struct = struct(LAYOUTS["Answers"], **self._arrays._asdict())

    def on_host(self) -> Answers:
        """Return them as NumPy arrays."""
        return Answers(*(to_host(array) for array in self._arrays))


def _grid(grid: VoxelGrid) -> np.void:
    return struct(LAYOUTS["VoxelGrid"], to_voxel=grid.to_voxel, shape=grid.shape)
