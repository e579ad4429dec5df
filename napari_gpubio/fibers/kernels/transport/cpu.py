"""Transport of mass along fixels on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.fibers.flow.nodes import Ended
from napari_gpubio.fibers.kernels.transport.problem import Spread, TransportProblem
from napari_gpubio.fibers.kernels.transport.steps import (
    BLOCK,
    FixelArrays,
    arrive,
    count_rows,
    fill_rows,
    list_by_node,
    overlap_rows,
    spread,
)

Array = npt.NDArray[Any]
_EACH = 2048  # nodes worth a thread
_NO_ROW = np.zeros(0, np.int32), np.zeros(0)


class Transport(NamedTuple):
    """The matrix T by rows, (N + 1,), (E,), (E,), and what it does not pass on."""

    row: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    ended: Ended

    @property
    def matrix(self) -> tuple[Array, Array, Array]:
        """As the kernels take it."""
        return self.row, self.columns, self.values


def transport_of(problem: TransportProblem) -> Transport:
    """Return the matrix of a problem, which the field keeps."""
    made: Transport = problem.cache.get((*problem.key, "cpu"), lambda: _make_transport(problem))
    return made


def _make_transport(problem: TransportProblem) -> Transport:
    nodes, count = problem.nodes, problem.nodes.count
    arrays = FixelArrays(nodes.first, nodes.voxels, nodes.directions, nodes.strengths, **problem.scalars)
    counts, shares, why = np.zeros(count, np.int32), np.zeros(count, np.float32), np.zeros(count, np.uint8)
    run_blocks(count_rows, count, arrays, _NO_ROW, counts, shares, why, least=_EACH)
    row = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    columns, values = np.empty(row[-1], np.int32), np.empty(row[-1], np.float32)
    most = 8 * int(np.diff(nodes.first).max(initial=1))

    def fill(start: int, stop: int) -> None:
        memory = np.empty(most, np.int32), np.empty(most)
        fill_rows(start, stop, arrays, row, memory, columns, values)

    run_blocks(fill, count, least=_EACH)
    return Transport(row, columns, values, Ended(shares, why))


class Run(drivers.Run):
    """The flow on the CPU: each thread moves the mass of one region, from the nodes that have some."""

    def __init__(self, problem: TransportProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._transport = transport_of(problem)

    @property
    def ended(self) -> Ended:
        """What the matrix does not pass on."""
        return self._transport.ended

    def advance(self, start: int, count: int) -> None:
        """Move the mass of the regions ``start`` to ``start + count - 1``."""
        problem, size = self._problem, self._problem.nodes.count
        found: list[Any] = [None] * count
        arrivals, rest = np.zeros((count, problem.regions)), np.zeros(count)

        def move(first: int, stop: int) -> None:
            memory = *np.zeros((2, size), np.float32), *np.zeros((2, -(-size // BLOCK)), np.uint8)
            for region in range(first, stop):
                visits = np.zeros(size, np.float32)
                rest[region] = self._moved(start + region, memory, visits)
                nodes = np.flatnonzero(visits).astype(np.int32)
                found[region] = nodes, visits[nodes]
                members = problem.members
                lists = members.first_region, members.regions
                arrive(self._transport.matrix, nodes, visits[nodes], *lists, arrivals[region])

        run_blocks(move, count)
        offsets = np.cumsum([0, *(len(nodes) for nodes, _ in found)])
        nodes, masses = (np.concatenate(part) for part in zip(*found, strict=True))
        self._finished.append(Spread(start, offsets, nodes, masses, arrivals, rest))

    def _moved(self, region: int, memory: tuple[Array, ...], visits: Array) -> float:
        mass, following, marks, following_marks = memory
        fixels, masses = self._problem.start_mass(region)
        mass[2 * fixels], mass[2 * fixels + 1] = masses, masses
        marks[2 * fixels // BLOCK] = 1
        least = self._problem.least_mass(masses)
        kept = mass, following, marks, following_marks
        return float(spread(self._transport.matrix, self._problem.steps, least, *kept, visits))


class VisitLists(NamedTuple):
    """Visits by node: where the list of each ends (N + 1,), and of each visit the region and the root of its mass."""

    ends: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int32]
    roots: npt.NDArray[np.float32]

    @classmethod
    def of(cls, visits: tuple[Array, Array, Array], count: int) -> "VisitLists":
        """Make them of visits by region: offsets (R + 1,), nodes and masses; ``count``: of all nodes."""
        offsets, nodes, masses = visits
        ends = np.zeros(count + 1, np.int64)
        ends[1:] = np.cumsum(np.bincount(nodes, minlength=count))
        owners, roots = np.empty(len(nodes), np.int32), np.empty(len(nodes), np.float32)
        list_by_node(offsets, nodes, masses, ends[:-1].copy(), owners, roots)
        return cls(ends, owners, roots)

    def overlaps(self, visits: tuple[Array, Array, Array], strengths: Array, regions: int) -> npt.NDArray[np.float64]:
        """Overlaps (S, regions) of the visits of some sources with these."""
        overlaps = np.zeros((len(visits[0]) - 1, regions))
        run_blocks(overlap_rows, len(overlaps), visits, tuple(self), strengths, overlaps)
        return overlaps


def overlaps_of(visits: tuple[Array, Array, Array], strengths: Array) -> npt.NDArray[np.float64]:
    """Overlaps of all regions, (R, R), from their visits: offsets (R + 1,), nodes and masses."""
    regions = len(visits[0]) - 1
    overlaps = VisitLists.of(visits, 2 * len(strengths)).overlaps(visits, strengths, regions)
    return 0.5 * (overlaps + overlaps.T)
