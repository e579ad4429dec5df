"""Transport of mass along fixels in CUDA, the counterpart of ``cpu.py``; the kernels are in ``transport.cu``."""

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.fibers.flow.nodes import EXCLUDED, Ended
from napari_gpubio.fibers.kernels.transport.problem import LANES, MEMORY_SHARE, Spread, TransportProblem

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("transport.cu")
FIXEL_ARRAYS = struct_layout(
    dict.fromkeys(("first", "voxels", "directions", "strengths", "marks"), POINTER)
    | {"to_voxel": (np.float64, 9)}
    | dict.fromkeys(("substep_mm", "least_cosine", "spread"), np.float64)
    | {"shape": (np.int32, 3), "substeps": np.int32, "closed": np.int32}
)
MASS_ARRAYS = struct_layout(
    dict.fromkeys(("mass", "following", "marks", "following_marks", "visits", "least"), POINTER)
    | dict.fromkeys(("nodes", "groups"), np.int32)
)
ARRIVAL_ARRAYS = struct_layout(
    dict.fromkeys(("regions_of_parts", "part_ends", "fixels", "first_region", "regions", "partial"), POINTER)
    | {"parts": np.int32}
)
_THREADS = 128
_SLAB_NODES, _PART_FIXELS = 256, 64
_OVERLAP_SLABS = 64
_REST_THREADS = 512


class Transport(NamedTuple):
    """The matrix T by columns on a GPU, (N + 1,), (E,), (E,), in the order of nodes, and what it does not pass on."""

    column: Any
    sources: Any
    weights: Any
    ended: Ended

    @property
    def matrix(self) -> tuple[Any, Any, Any]:
        """As the kernels take it."""
        return self.column, self.sources, self.weights


def _launch(name: str, count: int, arguments: tuple[Any, ...], *, rows: int = 1, each: int = _THREADS) -> None:
    """Run a kernel with ``count`` threads in blocks, times ``rows``."""
    kernel(SOURCE, name, strict=True)((-(-count // each), rows), (each,), arguments)


def transport_of(problem: TransportProblem, device: Device) -> Transport:
    """Return the matrix of a problem on a GPU: that without walls is kept by the field, those with walls by these."""
    made: Transport = problem.cache.get((*problem.key, str(device)), lambda: _make_transport(problem))
    if (walls := problem.nodes.walls) is None:
        return made
    key = *problem.key, walls.closed, str(device)
    walled: Transport = walls.cache.get(key, lambda: _with_walls(problem, made, device))
    return walled


def _fixels_held(problem: TransportProblem) -> dict[str, Any]:
    """Arrays of the fixels on the GPU, which are kept alive by it."""
    import cupy

    return {name: cupy.asarray(getattr(problem.nodes, name)) for name in ("first", "voxels", "directions", "strengths")}


def _with_walls(problem: TransportProblem, made: Transport, device: Device) -> Transport:
    """A matrix without the entries that lead through walls, or into them; of what mass ends, gates take no part."""
    import cupy

    walls, count = problem.nodes.walls, problem.nodes.count
    assert walls is not None
    held = _fixels_held(problem) | {"marks": cupy.asarray(walls.marks)}

    def walk() -> tuple[Any, Any, Ended]:
        near = cupy.asarray(problem.beside_walls)
        met, reached = cupy.zeros(count, np.uint8), cupy.full(count, -1, np.int32)
        shares, why = cupy.asarray(made.ended.shares), cupy.asarray(made.ended.why)
        arrays: Any = struct(FIXEL_ARRAYS, **held, **{**problem.scalars, "closed": EXCLUDED})
        if len(near):
            _launch("meet_walls", len(near), (arrays, np.int32(len(near)), near, met, reached, shares, why))
        return met, reached, Ended(to_host(shares), to_host(why))

    *steps, ended = walls.cache.get((*problem.key, "steps", str(device)), walk)
    arrays: Any = struct(FIXEL_ARRAYS, **held, **{**problem.scalars, "closed": walls.closed})
    weights = made.weights.copy()
    _launch("close_columns", count, (arrays, np.int32(count), made.column, made.sources, *steps, weights))
    return Transport(made.column, made.sources, weights, ended)


def _make_transport(problem: TransportProblem) -> Transport:
    import cupy

    count = problem.nodes.count
    size = np.int32(count)
    held = _fixels_held(problem)
    arrays: Any = struct(FIXEL_ARRAYS, **held, marks=None, **problem.scalars)
    counts, shares, why = cupy.empty(count, np.int32), cupy.empty(count, np.float32), cupy.empty(count, np.uint8)
    _launch("count_rows", count, (arrays, size, counts, shares, why))
    row = _places(counts)
    entries = int(row[-1])
    columns, memory = cupy.empty(entries, np.int32), cupy.empty(entries)
    values, column_counts = cupy.empty(entries, np.float32), cupy.zeros(count, np.int32)
    _launch("fill_rows", count, (arrays, size, row, columns, memory, values, column_counts))
    column, taken = _places(column_counts), cupy.zeros(count, np.int32)
    sources, weights = cupy.empty(entries, np.int32), cupy.empty(entries, np.float32)
    _launch("list_columns", count, (size, row, columns, values, column, taken, sources, weights))
    _launch("sort_columns", count, (size, column, sources, weights))
    return Transport(column, sources, weights, Ended(to_host(shares), to_host(why)))


def _places(counts: Any) -> Any:
    """Where lists of some lengths begin, and where the last one ends."""
    import cupy

    places = cupy.zeros(len(counts) + 1, np.int64)
    places[1:] = cupy.cumsum(counts, dtype=np.int64)
    return places


class Run(drivers.Run):
    """The flow on one GPU: 32 regions side by side in a warp, a warp a node."""

    memory_share = MEMORY_SHARE

    def __init__(self, problem: TransportProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        self._parts = _parts_of(problem.members.first)
        with device.current():
            self._transport = transport_of(problem, device)
            self._strengths = cupy.asarray(problem.nodes.strengths)
            self._lists = {
                "regions_of_parts": cupy.asarray(self._parts[0]),
                "part_ends": cupy.asarray(self._parts[1]),
                "fixels": cupy.asarray(problem.members.fixels),
                "first_region": cupy.asarray(problem.members.first_region),
                "regions": cupy.asarray(problem.members.regions),
            }

    @property
    def ended(self) -> Ended:
        """What the matrix does not pass on."""
        return self._transport.ended

    def advance(self, start: int, count: int) -> None:
        """Move the mass of the regions ``start`` to ``start + count - 1``."""
        with self.device.current():
            held = self._begun(start, count)
            for step in range(self._problem.steps):
                arrays = self._mass_arrays(held)
                arguments = arrays, *self._transport.matrix, np.int32(step == self._problem.steps - 1)
                _launch("spread", LANES * self._problem.nodes.count, arguments, rows=held["groups"])
                for now, following in (("mass", "following"), ("marks", "following_marks")):
                    held[now], held[following] = held[following], held[now]
            self._finished.append(self._found(start, count, held))

    def _begun(self, start: int, count: int) -> dict[str, Any]:
        """Mass of some regions at the start; where there are no marks it is not set."""
        import cupy

        problem, nodes, groups = self._problem, self._problem.nodes.count, -(-count // LANES)
        starts = [problem.start_mass(region) for region in range(start, start + count)]
        least = np.full(LANES * groups, np.inf, np.float32)
        least[:count] = [problem.least_mass(masses) for _, masses in starts]
        starts = [(fixels, problem.let_out(fixels, masses)) for fixels, masses in starts]
        owners = np.repeat(np.arange(count, dtype=np.int32), [len(fixels) for fixels, _ in starts])
        held = {
            "mass": cupy.zeros((groups, nodes, LANES), np.float32),
            "following": cupy.empty((groups, nodes, LANES), np.float32),
            "marks": cupy.zeros((groups, nodes), np.uint8),
            "following_marks": cupy.empty((groups, nodes), np.uint8),
            "visits": cupy.zeros((groups, nodes, LANES), np.float32),
            "least": cupy.asarray(least),
            "groups": groups,
        }
        fixels, masses = (np.concatenate(part) for part in zip(*starts, strict=True))
        lists = cupy.asarray(owners), cupy.asarray(fixels), cupy.asarray(masses)
        if len(owners):
            _launch("begin", len(owners), (self._mass_arrays(held), *lists, np.int32(len(owners))))
        return held

    def _mass_arrays(self, held: dict[str, Any]) -> Any:
        return struct(MASS_ARRAYS, **held, nodes=self._problem.nodes.count)

    def _found(self, start: int, count: int, held: dict[str, Any]) -> Spread:
        import cupy

        arrays, groups = self._mass_arrays(held), held["groups"]
        rest = cupy.empty(LANES * groups)
        _launch("sum_rest", _REST_THREADS * groups, (arrays, rest), each=_REST_THREADS)
        offsets, nodes, masses = self._visits(arrays, groups, count)
        arrivals = self._arrivals(arrays, groups)[:, :count].T
        are_all = self._problem.sources is None and count == self._problem.items
        overlaps = self._overlaps(arrays, groups) if are_all else None
        return Spread(start, offsets, nodes, masses, np.ascontiguousarray(arrivals), to_host(rest)[:count], overlaps)

    def _visits(self, arrays: Any, groups: int, count: int) -> tuple[Array, Array, Array]:
        """Offsets (regions + 1,), nodes and masses of what went on."""
        import cupy

        slabs = -(-self._problem.nodes.count // _SLAB_NODES)
        counts = cupy.empty(LANES * groups * slabs, np.int32)
        sizes = np.int32(_SLAB_NODES), np.int32(slabs)
        _launch("count_visits", LANES * slabs, (arrays, *sizes, counts), rows=groups)
        places = _places(counts)
        offsets = to_host(places[::slabs])[: count + 1]
        nodes, masses = cupy.empty(int(offsets[-1]), np.int32), cupy.empty(int(offsets[-1]), np.float32)
        _launch("list_visits", LANES * slabs, (arrays, *sizes, places, nodes, masses), rows=groups)
        return offsets, to_host(nodes), to_host(masses)

    def _arrivals(self, arrays: Any, groups: int) -> npt.NDArray[np.float64]:
        """Mass that enters each region (R, LANES * groups): parts of a region are added in their order."""
        import cupy

        owners, _ends = self._parts
        partial = cupy.empty((len(owners), LANES * groups))
        lists: Any = struct(ARRIVAL_ARRAYS, **self._lists, partial=partial, parts=len(owners))
        _launch("arrive", LANES * len(owners), (arrays, lists, *self._transport.matrix), rows=groups)
        sums = np.zeros((self._problem.regions, LANES * groups))
        there, firsts = np.unique(owners, return_index=True)
        sums[there] = np.add.reduceat(to_host(partial), firsts, axis=0)
        return sums

    def _overlaps(self, arrays: Any, groups: int) -> npt.NDArray[np.float64]:
        """Overlaps of all regions."""
        import cupy

        width, fixels = LANES * groups, len(self._problem.nodes.voxels)
        slab = -(-fixels // _OVERLAP_SLABS)
        slabs = -(-fixels // slab)
        partial, sums = cupy.empty((slabs, width, width)), cupy.empty((width, width))
        arguments = arrays, self._strengths, np.int32(slab), partial
        _launch("overlap_slabs", 256 * slabs, arguments, rows=groups * groups, each=256)
        _launch("sum_slabs", width * width, (partial, np.int32(slabs), np.int32(width * width), sums))
        found = to_host(sums)[: self._problem.items, : self._problem.items]
        return np.asarray(0.5 * (found + found.T))


def _parts_of(first: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The region of each part of the lists of fixels, and where the parts begin and the last one ends."""
    begins = [np.arange(begin, stop, _PART_FIXELS) for begin, stop in itertools.pairwise(first)]
    owners = np.repeat(np.arange(len(begins), dtype=np.int32), [len(part) for part in begins])
    return owners, np.concatenate([*begins, first[-1:]]).astype(np.int64)
