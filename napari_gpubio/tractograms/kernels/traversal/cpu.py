"""Fibers and regions on all CPU cores (Numba), the counterpart of ``gpu.py``; the numerics are in ``traversal.py``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import read_only, run_blocks
from napari_gpubio.tractograms.kernels.traversal.problem import (
    LARGEST,
    Answers,
    Group,
    Lines,
    TraversalProblem,
    VoxelGrid,
)
from napari_gpubio.tractograms.kernels.traversal.traversal import (
    add_density,
    find_boxes,
    find_solid,
    find_words,
    most_visits,
)

Array = npt.NDArray[Any]
_LEAST = 256  # fibers worth a call


class Run(drivers.Run):
    """Questions to the fibers of one tractogram; their bounding boxes are found once."""

    def __init__(self, problem: TraversalProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        fibers = problem.fibers
        self._lines = Lines(read_only(np.ascontiguousarray(fibers.points)), read_only(fibers.offsets))
        self._count = len(fibers)
        self._boxes: Array | None = None

    def bounds(self) -> tuple[Array, Array]:
        """Lowest and highest x, y and z of all fibers, each (3,); infinitely far apart if there is no point."""
        boxes = self._bounding_boxes()
        return boxes[:, :3].min(axis=0, initial=LARGEST), boxes[:, 3:].max(axis=0, initial=-LARGEST)

    def words(self, group: Group) -> Answers:
        """Return which regions of a group fibers pass, begin in and end in."""
        answers = Answers(*np.empty((3, self._count), np.uint64))
        run_blocks(find_words, self._count, self._lines, group.grid, group.words, answers, least=_LEAST)
        return answers

    def solid(self, kind: int, numbers: Array) -> Answers:
        """Return which fibers pass a sphere or box, begin in it and end in it: 0 or 1."""
        answers, boxes = Answers(*np.empty((3, self._count), np.uint64)), self._bounding_boxes()
        run_blocks(find_solid, self._count, self._lines, boxes, kind, numbers, answers, least=_LEAST)
        return answers

    def density(self, grid: VoxelGrid, values: npt.NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Return maps of a grid, int64: number of fibers, their length in quanta, sum of the fibers' values (F,)."""
        counts = np.empty(self._count, np.int64)
        run_blocks(most_visits, self._count, self._lines, grid, counts, least=_LEAST)
        slots = 1 << int(2 * max(1, counts.max(initial=1)) - 1).bit_length()
        maps = tuple(np.zeros(int(np.prod(grid.shape)), np.int64) for _ in range(3))
        run_blocks(add_density, self._count, self._lines, grid, values, maps, slots, least=_LEAST)
        numbers, lengths, sums = (part.reshape(grid.shape) for part in maps)
        return numbers, lengths, sums

    def _bounding_boxes(self) -> Array:
        if self._boxes is None:
            self._boxes = np.empty((self._count, 6), np.float32)
            run_blocks(find_boxes, self._count, self._lines, self._boxes, least=_LEAST)
        return self._boxes
