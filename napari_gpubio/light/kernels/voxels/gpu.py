"""Photons through voxels in CUDA, the counterpart of ``cpu.py``; the kernels are in ``voxels.cu``."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.chunks import within_memory
from napari_gpubio.core.device import Device, processor_count, to_host
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.light.kernels.voxels.problem import DETECTED_NUMBERS, VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import DetectedList, OpenBatch, VoxelTally
from napari_gpubio.optics.batches import joined

_SOURCE = Path(__file__).with_name("voxels.cu")
_THREADS = 128
_BLOCKS_PER_PROCESSOR = 8  # 1024 threads each: what the kernel's registers leave room for
FOLD_CELLS = 8  # voxels of a thread, as in the kernel
_MAX_CELLS, _MAX_PLACES = 1 << 31, 1 << 32  # signed and unsigned numbers of 32 bits
_MOST = 2**32 - 1

# The structs of the kernels' parameters, as in photon.cuh, tally.cuh and fold.cuh.
SCENE = struct_layout(
    dict.fromkeys(("rows", "media", "mua", "mus", "g", "n", "phase"), POINTER)
    | dict.fromkeys(("phase_count", "media_rows", "nx", "ny", "nz", "stride_x", "stride_y"), np.int32)
    | dict.fromkeys(("hx", "hy", "hz"), np.float32)
    | dict.fromkeys(("faces", "refraction", "specular"), np.int32)
    | {"threshold": np.float32, "edges": POINTER, "gates": np.int32, "end": np.float32, "kind": np.int32}
    | {"source": POINTER, "pattern": POINTER, "pattern_rows": np.int32, "pattern_columns": np.int32}
    | dict.fromkeys(("angles", "chances", "places"), POINTER)
    | {"sources": np.int32, "shares": POINTER, "shared": np.int32}
    | {"detectors": POINTER, "detector_count": np.int32, "seed": np.uint64}
    | dict.fromkeys(("tensor_places", "tensors", "surfaces"), POINTER)
)
PHOTONS = struct_layout(
    {"first": np.uint64, "count": np.uint32, "counter": POINTER}
    | dict.fromkeys(("first_slot", "rest", "batch_size"), np.uint32)
    | {"paths": POINTER, "items": POINTER}
)
TALLIES = struct_layout(
    {"path": POINTER}
    | dict.fromkeys(("copies", "slot_stride", "half_stride", "gate_stride"), np.uint32)
    | {"scale": np.float32, "energy": POINTER, "energy_scale": np.float32, "exits": POINTER, "capacity": np.uint32}
    | dict.fromkeys(("detected", "photons", "numbers"), POINTER)
)
FOLD = struct_layout(
    {"path": POINTER, "batches": np.int32, "copies": np.uint32, "copy_stride": np.int64}
    | dict.fromkeys(("cells", "gates", "halves"), np.int32)
    | {"sums": POINTER, "squares": POINTER, "rows": POINTER, "media_rows": np.int32, "media": POINTER, "mua": POINTER}
    | {"absorbed_scale": np.float64, "absorbed": POINTER}
)


class Run(drivers.Run):
    """The simulation of one problem on one GPU; items are photons.

    A launch with few photons leaves most of a GPU waiting for its longest ones. Several batches are therefore traced
    at once, each with its own tally (a slot), as far as the memory goes. A span is that many batches; a chunk lies
    within one span. Small tallies have copies, lest all photons add to the same few voxels at the source. ``slots`` is
    the same on all GPUs that share a problem; neither changes a result.
    """

    def __init__(self, problem: VoxelProblem, *, device: Device, slots: int = 1, copies: int = 1) -> None:
        import cupy

        super().__init__(problem, device=device)
        p = problem
        check_indices(p, slots * copies)
        self._slots, self._copies = slots, copies
        self.span = p.batch_size * self._slots
        self._open: dict[int, list[tuple[int, int]]] = {}
        self._whole: set[int] = set()
        self._busy = threading.Lock()  # a preview must not see half a chunk
        self._detected = DetectedList.none(p)
        self._parts: dict[int, OpenBatch] = {}  # of batches that another run has begun or will finish
        self._processors = processor_count(device)
        with device.current():
            self._inputs = {name: cupy.asarray(array) for name, array in inputs_of(problem).items()}
            self._scene = struct(SCENE, **self._inputs, **numbers_of(problem))
            self._tally = cupy.zeros((self._slots, self._copies, p.tally_size), np.uint64)
            self._sums = cupy.zeros(p.tally_size, np.uint64)
            self._squares = cupy.zeros((p.square_size, 2), np.uint64)
            self._exits = cupy.zeros(p.exit_cells, np.uint64) if p.exit_cells else None
            self._energy = cupy.zeros((p.batch_count, p.energy_size), np.uint64)
            self._absorbed = cupy.zeros((p.batch_count, p.patterns * p.media_rows), np.uint64)

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``, all of one span."""
        import cupy

        with self._busy, self.device.current():
            self._set_aside(start // self.span)
            self._trace(start, count)
            whole = [batch for batch in self._touched(start, count) if self._is_whole(batch)]
            for first, last in joined([(batch, batch + 1) for batch in whole]):
                self._fold(first, last - first)
            cupy.cuda.get_current_stream().synchronize()

    def snapshot(self) -> VoxelTally:
        """Tallies so far, as NumPy; the run goes on."""
        p = self._problem
        with self._busy, self.device.current():
            energy_parts, energy = to_host(self._energy), to_host(self._absorbed)
            part = VoxelTally(
                batch_size=p.batch_size,
                key=p.key,
                sums=to_host(self._sums),
                squares=to_host(self._squares),
                exits=np.zeros(0, np.uint64) if self._exits is None else to_host(self._exits),
                detected=dataclasses.replace(self._detected),
                batches={batch: np.concatenate([energy_parts[batch], energy[batch]]) for batch in self._whole},
                open=dict(self._parts),
            )
            for batch in self._open:
                part.merge_open(batch, self._open_batch(batch))
        return part

    def paths(self, planes: slice) -> Any:
        """Weight times path of all photons so far in some planes, as of `VoxelProblem.inside`, on the GPU."""
        import cupy

        with self._busy, self.device.current():
            inside = self._problem.inside(planes)
            parts = (cupy.asarray(part.path) for part in self._parts.values())
            return sum(map(inside, (self._sums, *parts)), start=inside(self._tally).sum(axis=(0, 1)))

    def _open_batch(self, batch: int) -> OpenBatch:
        tally, energy_parts = to_host(self._tally[batch % self._slots].sum(axis=0)), to_host(self._energy[batch])
        return OpenBatch(list(self._open[batch]), tally, energy_parts)

    def _set_aside(self, span: int) -> None:
        """Free the slots of batches that belong to another span: this run will not get the rest of them."""
        for batch in [b for b in self._open if b // self._slots != span]:
            self._parts[batch] = self._open_batch(batch)
            self._tally[batch % self._slots] = 0
            self._energy[batch] = 0
            del self._open[batch]

    def _touched(self, start: int, count: int) -> range:
        """Note which photons of which batches are done; returns the batches."""
        size = self._problem.batch_size
        batches = range(start // size, (start + count - 1) // size + 1)
        for batch in batches:
            first, last = self._problem.batch_range(batch)
            done = (max(start, first), min(start + count, last))
            self._open[batch] = joined([*self._open.get(batch, []), done])
        return batches

    def _is_whole(self, batch: int) -> bool:
        return sum(b - a for a, b in self._open[batch]) == self._problem.batch_size

    def _trace(self, start: int, count: int) -> None:
        import cupy

        p = self._problem
        blocks = min(self._processors * _BLOCKS_PER_PROCESSOR, -(-count // _THREADS))
        capacity = count if p.detectors else 0
        counters = cupy.zeros(2, np.uint32)  # photons taken, photons detected
        photons = cupy.empty(max(1, capacity), np.uint64)
        numbers = cupy.empty((max(1, capacity), DETECTED_NUMBERS + p.media_rows), np.float32)
        paths = cupy.empty(max(1, blocks * _THREADS * p.media_rows if p.detectors else 0), np.float32)
        first_batch = start // self.span * self._slots
        launched = struct(
            PHOTONS,
            first=start,
            count=count,
            counter=counters,
            first_slot=start // p.batch_size - first_batch,
            rest=min(p.batch_size - start % p.batch_size, _MOST),
            batch_size=min(p.batch_size, _MOST),
            paths=paths,
            items=None,
        )
        tallies = struct(
            TALLIES,
            path=self._tally,
            copies=self._copies,
            slot_stride=p.tally_size,
            half_stride=p.gates * p.cells * p.patterns if p.halves > 1 else 0,
            gate_stride=p.cells * p.patterns,
            scale=p.scale,
            energy=self._energy[first_batch:],
            energy_scale=p.energy_scale,
            exits=self._exits,
            capacity=capacity,
            detected=counters[1:],
            photons=photons,
            numbers=numbers,
        )
        self._kernel("trace_photons", fast=True)((blocks,), (_THREADS,), (self._scene, launched, tallies))
        if capacity and (found := int(counters[1])):
            fresh = DetectedList(to_host(photons[:found]), to_host(numbers[:found]))
            self._detected.add(fresh, p.settings.max_detected)

    def _fold(self, first: int, count: int) -> None:
        """Add whole batches, one after another in their slots, to the sums, and clear them."""
        import cupy

        p, slot = self._problem, first % self._slots
        path = self._tally[slot : slot + count]
        if p.patterns == 1:
            self._fold_pattern(0, path, self._absorbed[first : first + count])
        else:  # their tallies lie side by side, their sums one after another
            tallies = path.reshape(count, self._copies, -1, p.patterns)
            of_pattern, absorbed = self._after_tracing(
                lambda: (cupy.empty(tallies.shape[:-1], np.uint64), cupy.empty((count, p.media_rows), np.uint64))
            )
            for k in range(p.patterns):
                of_pattern[...], absorbed[...] = tallies[..., k], 0
                self._fold_pattern(k, of_pattern, absorbed)
                self._absorbed[first : first + count, k * p.media_rows : (k + 1) * p.media_rows] = absorbed
            path[...] = 0  # copies of it were folded
        for batch in range(first, first + count):
            self._whole.add(batch)
            del self._open[batch]

    def _after_tracing(self, do: Callable[[], Any]) -> Any:
        """Do what takes memory after photons have been added up: lack of it must not have them traced once more."""
        return within_memory(do, self.device, 8 * self._problem.tally_size, "the tallies of a batch")

    def _fold_pattern(self, k: int, path: Any, absorbed: Any) -> None:
        """Add batches of one pattern to its sums, and what each media row absorbed to those of each batch."""
        p = self._problem
        size, squares = p.tally_size // p.patterns, p.square_size // p.patterns
        grid = (-(-p.cells // (_THREADS * FOLD_CELLS)),)
        fold = struct(
            FOLD,
            path=path,
            batches=len(absorbed),
            copies=self._copies,
            copy_stride=size,
            cells=p.cells,
            gates=p.gates,
            halves=p.halves,
            sums=self._sums[k * size :],
            squares=self._squares[k * squares :],
            rows=self._inputs["rows"],
            media_rows=p.media_rows,
            media=self._inputs["media"],
            mua=self._inputs["mua"],
            absorbed_scale=p.absorbed_scale,
            absorbed=absorbed,
        )
        self._kernel("fold_batches")(grid, (_THREADS,), (fold,))

    def _kernel(self, name: str, *, fast: bool = False) -> Any:
        return kernel(_SOURCE, name, defines=defines_of(self._problem), fast=fast)


def check_indices(problem: VoxelProblem, tallies: int = 1) -> None:
    """Raise InvalidInput if the kernels' numbers of 32 bits cannot count voxels, or the places of so many tallies."""
    if problem.cells >= _MAX_CELLS or tallies * problem.tally_size > _MAX_PLACES:
        raise InvalidInput(
            f"the volume has {problem.cells:,} voxels with its rim and {tallies * problem.tally_size:,} numbers of all "
            f"tallies, more than a GPU run can count ({_MAX_CELLS:,} and {_MAX_PLACES:,}); take larger voxels or "
            "fewer time gates, groups or patterns, or device='cpu'"
        )


def inputs_of(problem: VoxelProblem) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a `SCENE`; those that are empty are not looked at."""
    p, sources = problem, problem.source_table
    arrays = {"rows": p.rows, "media": p.media, "mua": p.mua, "mus": p.mus, "edges": p.gate_edges}
    arrays |= {"g": p.g, "n": p.n, "phase": p.phase}
    arrays |= {name: getattr(sources, name) for name in ("pattern", "angles", "chances", "places")}
    shares = np.zeros(0, np.float32) if p.shares is None else p.shares
    arrays |= {"source": sources.numbers, "shares": shares, "detectors": p.detector_numbers}
    places, tensors = p.tensors or (np.zeros(0, np.int32), np.zeros(0, np.float32))
    return arrays | {"tensor_places": places, "tensors": tensors, "surfaces": p.surfaces}


def numbers_of(problem: VoxelProblem) -> dict[str, Any]:
    """Numbers of a `SCENE`."""
    p, s, first = problem, problem.settings, problem.packed_sources[0]
    (nx, ny, nz), (hx, hy, hz) = p.size, p.edges_mm
    return {
        "phase_count": len(p.phase),
        "media_rows": p.media_rows,
        "nx": nx,
        "ny": ny,
        "nz": nz,
        "stride_x": (ny + 2) * (nz + 2),
        "stride_y": nz + 2,
        "hx": hx,
        "hy": hy,
        "hz": hz,
        "faces": p.faces,
        "refraction": s.refraction,
        "specular": p.specular,
        "threshold": s.roulette_threshold,
        "gates": p.gates,
        "end": p.gate_edges[-1],
        "kind": p.kind,
        "pattern_rows": len(first.pattern) // first.pattern_columns,
        "pattern_columns": first.pattern_columns,
        "sources": len(p.source_table.chances),
        "shared": p.patterns,
        "detector_count": len(p.detectors),
        "seed": s.seed,
    }


def defines_of(problem: VoxelProblem) -> tuple[str, ...]:
    """What the kernels are compiled with; see the head of ``voxels.cu``."""
    label = "unsigned char" if problem.rows.itemsize == 1 else "unsigned short"
    return (
        f"LABEL={label}",
        f"CONTINUOUS={2 if problem.has_own_g_or_n else int(problem.domain.is_continuous)}",
        f"DETECT={int(bool(problem.detectors))}",
        f"GATED={int(problem.settings.is_gated)}",
        f"THIN={int(problem.is_thin)}",
        *(("PHASE_TABLE=1",) if problem.domain.phase_function is not None else ()),
        *((f"ANISOTROPY={problem.anisotropy}",) if problem.anisotropy else ()),
        *(("SEVERAL=1",) if problem.others else (f"SOURCE_KIND={problem.kind}",)),
        *(("SHARED=1",) if problem.shares is not None else ()),
        *(("SMOOTH=1",) if problem.surfaces.size else ()),
    )
