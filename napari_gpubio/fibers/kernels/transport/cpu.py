"""Transport of mass along fixels on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.fibers.flow.nodes import EXCLUDED, Ended
from napari_gpubio.fibers.kernels.transport.problem import Spread, TransportProblem
from napari_gpubio.fibers.kernels.transport.steps import (
    BLOCK,
    FixelArrays,
    arrive,
    close_rows,
    count_rows,
    fill_rows,
    gated_overlap_rows,
    list_by_node,
    meet_walls,
    overlap_rows,
    spread,
)

Array = npt.NDArray[Any]
_EACH = 2048  # nodes worth a thread
_NO_ROW = np.zeros(0, np.int32), np.zeros(0)
_NO_MARKS = np.zeros(1, np.uint8)


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
    """Return the matrix of a problem: that without walls is kept by the field, those with walls by these."""
    made: Transport = problem.cache.get((*problem.key, "cpu"), lambda: _make_transport(problem))
    if (walls := problem.nodes.walls) is None:
        return made
    walled: Transport = walls.cache.get((*problem.key, walls.closed, "cpu"), lambda: _with_walls(problem, made))
    return walled


def _arrays_of(problem: TransportProblem) -> FixelArrays:
    n = problem.nodes
    return FixelArrays(n.first, n.voxels, n.directions, n.strengths, marks=_NO_MARKS, **problem.scalars)


def _with_walls(problem: TransportProblem, made: Transport) -> Transport:
    """A matrix without the entries that lead through walls, or into them; of what mass ends, gates take no part."""
    walls, near = problem.nodes.walls, problem.beside_walls
    assert walls is not None
    arrays = _arrays_of(problem)._replace(marks=walls.marks, closed=EXCLUDED)

    def walk() -> tuple[Array, Array, Ended]:
        met, reached = np.zeros(problem.nodes.count, np.uint8), np.full(problem.nodes.count, -1, np.int32)
        ended = Ended(made.ended.shares.copy(), made.ended.why.copy())
        run_blocks(meet_walls, len(near), arrays, near, _NO_ROW, (met, reached), tuple(ended), least=_EACH)
        return met, reached, ended

    *steps, ended = walls.cache.get((*problem.key, "steps", "cpu"), walk)
    values, arrays = made.values.copy(), arrays._replace(closed=walls.closed)
    run_blocks(close_rows, len(near), arrays, near, made.matrix, tuple(steps), values, least=_EACH)
    return Transport(made.row, made.columns, values, ended)


def _make_transport(problem: TransportProblem) -> Transport:
    nodes, count = problem.nodes, problem.nodes.count
    arrays = _arrays_of(problem)
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
        mass[2 * fixels] = mass[2 * fixels + 1] = self._problem.let_out(fixels, masses)
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


def gated_overlaps_of(
    visits: tuple[Array, Array], signs: Array, masses: Array, strengths: Array, least: float
) -> npt.NDArray[np.float64]:
    """Overlaps of all regions, (R, R), by routes through gates.

    ``visits``: offsets (R + 1,) and nodes (E,); ``signs`` (K,) and ``masses`` (K, E): see `nodes_through`; ``least``:
    the smallest share of all that flows through a node that counts.
    """
    offsets, nodes = visits
    regions, order = len(offsets) - 1, np.argsort(nodes, kind="stable")
    owners = np.repeat(np.arange(regions, dtype=np.int32), np.diff(offsets))[order]
    ends = np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=2 * len(strengths)))])
    overlaps = np.zeros((regions, regions))
    ways = signs.astype(np.float64), masses, least
    run_blocks(gated_overlap_rows, regions, visits, (ends, owners, order), ways, strengths, overlaps)
    return 0.5 * (overlaps + overlaps.T)
