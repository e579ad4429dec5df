"""Photons through voxels in CUDA, the counterpart of ``cpu.py``; the kernels are in ``voxels.cu``."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, processor_count, to_host
from napari_gpubio.core.kernels import kernel
from napari_gpubio.light.kernels.voxels.photon import DETECTED_NUMBERS, LEDGER
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import CaughtPhotons, OpenBatch, Partial
from napari_gpubio.light.scheduling import joined

_SOURCE = Path(__file__).with_name("voxels.cu")
_THREADS = 128
_BLOCKS_PER_PROCESSOR = 8  # 1024 threads each: what the kernel's registers leave room for
FOLD_CELLS = 8  # voxels of a thread, as in the kernel


class Run:
    """The simulation of one problem on one GPU; items are photons.

    A launch with few photons leaves most of a GPU waiting for its longest ones. Several batches are therefore traced
    at once, each with its own tally (a slot), as far as the memory goes. A span is that many batches; a chunk lies
    within one span. Small tallies have copies, lest all photons add to the same few voxels at the source.

    Parameters
    ----------
    problem
        What is simulated.
    device
        The GPU.
    slots
        Batches that are traced together; the same on all GPUs that share a problem. It changes no result.
    copies
        Tallies of each of them.
    """

    def __init__(self, problem: VoxelProblem, *, device: Device, slots: int = 1, copies: int = 1) -> None:
        import cupy

        self.device = device
        self._problem = problem
        p = problem
        self._slots, self._copies = slots, copies
        self.span = p.batch_size * self._slots
        self._open: dict[int, list[tuple[int, int]]] = {}
        self._whole: set[int] = set()
        self._busy = threading.Lock()  # a preview must not see half a chunk
        self._caught = CaughtPhotons.none(p)
        self._parts: dict[int, OpenBatch] = {}  # of batches that another run has begun or will finish
        self._processors = processor_count(device)
        with cupy.cuda.Device(device.indices[0]):
            inputs = (p.rows, p.media, p.mua, p.mus, p.gate_edges, p.source_numbers, p.pattern, p.detector_numbers)
            self._inputs = [cupy.asarray(array) for array in inputs]
            self._tally = cupy.zeros((self._slots, self._copies, p.tally_size), np.uint64)
            self._sums = cupy.zeros(p.tally_size, np.uint64)
            self._squares = cupy.zeros((p.square_gates * p.cells, 2), np.uint64)
            self._exits = cupy.zeros(p.exit_cells, np.uint64) if p.exit_cells else None
            self._ledger = cupy.zeros((p.batch_count, LEDGER), np.uint64)
            self._energy = cupy.zeros((p.batch_count, p.media_rows), np.uint64)

    def bytes_per_item(self) -> int:
        """Bytes of the list of detected photons that one photon may take."""
        return self._problem.detected_bytes if self._problem.detectors else 1

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``, all of one span."""
        import cupy

        with self._busy, cupy.cuda.Device(self.device.indices[0]):
            self._set_aside(start // self.span)
            self._trace(start, count)
            whole = [batch for batch in self._touched(start, count) if self._is_whole(batch)]
            for first, last in joined([(batch, batch + 1) for batch in whole]):
                self._fold(first, last - first)
            cupy.cuda.get_current_stream().synchronize()

    def snapshot(self) -> Partial:
        """Tallies so far, as NumPy; the run goes on."""
        import cupy

        p = self._problem
        with self._busy, cupy.cuda.Device(self.device.indices[0]):
            ledger, energy = to_host(self._ledger), to_host(self._energy)
            part = Partial(
                batch_size=p.batch_size,
                key=p.key,
                sums=to_host(self._sums),
                squares=to_host(self._squares),
                exits=np.zeros(0, np.uint64) if self._exits is None else to_host(self._exits),
                caught=dataclasses.replace(self._caught),
                batches={batch: np.concatenate([ledger[batch], energy[batch]]) for batch in self._whole},
                open=dict(self._parts),
            )
            for batch in self._open:
                part.merge_open(batch, self._open_batch(batch))
        return part

    def close(self) -> None:
        """Let the device arrays go."""
        self._inputs = []
        self._tally = self._sums = self._squares = self._exits = self._ledger = self._energy = None

    def _open_batch(self, batch: int) -> OpenBatch:

        tally, ledger = to_host(self._tally[batch % self._slots].sum(axis=0)), to_host(self._ledger[batch])
        return OpenBatch(list(self._open[batch]), tally, ledger)

    def _set_aside(self, span: int) -> None:
        """Free the slots of batches that belong to another span: nobody will give this run the rest of them."""
        for batch in [b for b in self._open if b // self._slots != span]:
            self._parts[batch] = self._open_batch(batch)
            self._tally[batch % self._slots] = 0
            self._ledger[batch] = 0
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

        p, s = self._problem, self._problem.settings
        rows, media, mua, mus, edges, source, pattern, detectors = self._inputs
        blocks = min(self._processors * _BLOCKS_PER_PROCESSOR, -(-count // _THREADS))
        capacity = count if p.detectors else 0
        counters = cupy.zeros(2, np.uint32)  # photons taken, photons caught
        photons = cupy.empty(max(1, capacity), np.uint64)
        numbers = cupy.empty((max(1, capacity), DETECTED_NUMBERS + p.media_rows), np.float32)
        paths = cupy.empty(max(1, blocks * _THREADS * p.media_rows if p.detectors else 0), np.float32)
        first_batch = start // self.span * self._slots
        slot, rest = start // p.batch_size - first_batch, p.batch_size - start % p.batch_size  # of the first photon
        most = 2**32 - 1
        i, u, f, q = np.int32, np.uint32, np.float32, np.uint64
        arguments = (
            rows, media, mua if mua.size else None, mus if mus.size else None, *map(i, p.size), *map(f, p.edges_mm),
            i(p.faces), i(s.refraction), i(p.specular), f(s.roulette_threshold), edges, i(p.gates), i(p.kind), source,
            pattern, i(len(p.pattern) // p.pattern_columns), i(p.pattern_columns), q(s.seed), q(start),
            u(count), counters, u(slot), u(self._copies), u(min(rest, most)), u(min(p.batch_size, most)), self._tally,
            u(p.tally_size), u(p.gates * p.cells if p.halves > 1 else 0), u(p.cells), f(p.scale),
            self._ledger[first_batch:], f(p.ledger_scale), self._exits, detectors if p.detectors else None,
            i(len(p.detectors)), u(capacity), counters[1:], photons, numbers, i(p.media_rows), paths,
        )  # fmt: skip
        self._kernel("trace_photons", fast=True)((blocks,), (_THREADS,), arguments)
        if capacity and (found := int(counters[1])):
            fresh = CaughtPhotons(to_host(photons[:found]), to_host(numbers[:found]))
            self._caught.add(fresh, s.max_detected)

    def _fold(self, first: int, count: int) -> None:
        """Add whole batches, one after another in their slots, to the sums, and clear them."""
        p = self._problem
        rows, media, mua, *_ = self._inputs
        grid = (-(-p.cells // (_THREADS * FOLD_CELLS)),)
        i = np.int32
        arguments = (
            self._tally[first % self._slots :], i(count), np.uint32(self._copies), np.int64(p.tally_size), i(p.cells),
            i(p.gates), i(p.halves), self._sums, self._squares, rows, i(p.media_rows), media,
            mua if mua.size else None, np.float64(p.energy_scale), self._energy[first:],
        )  # fmt: skip
        self._kernel("fold_batches")(grid, (_THREADS,), arguments)
        for batch in range(first, first + count):
            self._whole.add(batch)
            del self._open[batch]

    def _kernel(self, name: str, *, fast: bool = False) -> Any:
        return kernel(_SOURCE, name, defines=defines_of(self._problem), fast=fast)


def defines_of(problem: VoxelProblem) -> tuple[str, ...]:
    """What the kernels are compiled with; see the head of ``voxels.cu``."""
    label = "unsigned char" if problem.rows.itemsize == 1 else "unsigned short"
    return (
        f"LABEL={label}",
        f"CONTINUOUS={int(problem.domain.is_continuous)}",
        f"DETECT={int(bool(problem.detectors))}",
        f"GATED={int(problem.gates > 1 or problem.gate_edges[0] > 0)}",
    )
