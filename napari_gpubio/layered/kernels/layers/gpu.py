"""Photons through layers in CUDA, the counterpart of ``cpu.py``; the kernel is in ``layers.cu``."""

import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, processor_count, shared_memory_of_processor, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.layered.kernels.layers.problem import SCALE, LayeredProblem, per_mm
from napari_gpubio.layered.kernels.layers.tally import BatchTally, LayerTally

_SOURCE = Path(__file__).with_name("layers.cu")
THREADS = 256
BLOCKS_PER_PROCESSOR = 4  # 1024 threads, which the kernel's registers leave room for
PILOT_PHOTONS = 10_000
_MAX_CACHE_BYTES, _OTHER_SHARED_BYTES = 48 << 10, 2 << 10  # of a block: more is no faster; what is not the cache's
_MIN_CACHED = 0.4  # of the deposits; less is not worth a cache
_MIN_STEP = 0.3  # of a bin from one deposit to the next; the register history does with less

# The structs of the kernels' parameters, as in layers.cu.
SCENE = struct_layout(
    {"layers": POINTER, "layer_count": np.int32}
    | dict.fromkeys(("n_above", "n_below", "weight", "threshold"), np.float32)
    | dict.fromkeys(("first_layer", "radial", "depth", "angles"), np.int32)
    | dict.fromkeys(
        ("radial_per_mm", "depth_per_mm", "radial_last", "depth_last", "radial_end", "depth_end"), np.float32
    )
    | {"cosines": POINTER, "seed": np.uint64}
)
BATCHES = struct_layout(
    {"firsts": POINTER, "counts": POINTER, "counters": POINTER, "first_slot": np.int32, "slots": np.int32}
    | {"tallies": POINTER, "copies": np.int32, "tally_size": np.uint32, "scale": np.float32}
    | {"cached_radial": np.int32, "cached_depth": np.int32, "resident": POINTER}
)
UNDERWAY = struct_layout({"before": POINTER, "count": np.uint32, "after": POINTER, "left": POINTER, "cycles": np.int64})
PACKET_WORDS = 16
FEWEST_CYCLES = 1 << 20  # of a launch that finishes packets: half a millisecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a GPU traces and tallies; the default is the fastest, the others are for comparison. None changes a bit.

    Parameters
    ----------
    simple
        The plain kernel, in which each thread traces one photon after another; it has no cache.
    cache
        Whether the hot corner of A(r, z) lies in shared memory (Alerstam et al. 2010); None: where a pilot run says
        that it pays. In skin it is worth 15 % on an H100; where ten events in a row leave their deposits in one bin
        (intralipid in bins of .1 mm), which the register history gathers, it costs 6 %.
    history
        Whether deposits into one bin are gathered in registers.
    cache_bytes
        Size of the corner; None: as much as leaves room for as many blocks, up to 48 KiB.
    shape
        Bins of the corner in r and z; None: those that get most deposits of a pilot run.
    """

    simple: bool = False
    cache: bool | None = None
    history: bool = True
    cache_bytes: int | None = None
    shape: tuple[int, int] | None = None


class Run(drivers.Run):
    """The simulation of one problem on one of ``sharers`` GPUs; a chunk of photons may hold any number of batches.

    A few photons live a hundred times longer than most (intralipid), and a GPU that waits for them at the end of every
    chunk is idle half of the time. So packets that still live when a chunk has no more photons to begin stay under way
    to the next one. Before anyone sees the tallies, they are traced to their ends, in launches after each of which the
    living ones gather in full warps.
    """

    def __init__(
        self, problem: LayeredProblem, *, device: Device, sharers: int = 1, variant: Variant | None = None
    ) -> None:
        import cupy

        super().__init__(problem, device=device)
        self._variant = variant or Variant()
        self._done = LayerTally.empty(problem)
        self._busy = threading.Lock()  # a preview must not see half a chunk
        self.shape = self._variant.shape  # of the cached corner, once it is known
        self._may_cache = self._variant.cache is not False and not self._variant.simple and problem.settings.has_map
        share = -(-problem.batch_count // sharers)
        self.span = problem.batch_size * share
        self._most_blocks = processor_count(device) * BLOCKS_PER_PROCESSOR
        self._underway: tuple[Any, int] = (None, 0)  # packets, a row each, and their number
        with device.current():
            self._layers, self._cosines = cupy.asarray(problem.layers), cupy.asarray(problem.cosines)
            self._scene = struct(SCENE, layers=self._layers, cosines=self._cosines, **numbers_of(problem))
            self._tallies = cupy.zeros((problem.batch_count, problem.tally_size), np.uint64)

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``."""
        import cupy

        p = self._problem
        with self._busy, self.device.current():
            if self._may_cache and self.shape is None and count > PILOT_PHOTONS:
                self._choose_shape(start)
            self._trace(start, count, self._tallies[start // p.batch_size :])
            cupy.cuda.get_current_stream().synchronize()
            self._done.merge(LayerTally(batch_size=p.batch_size, key=p.key, batches=dict(self._parts(start, count))), p)

    def snapshot(self) -> LayerTally:
        """Tallies so far, as NumPy; the run goes on."""
        with self._busy, self.device.current():
            self._finish()
            batches = {}
            for batch, part in self._done.batches.items():
                numbers = np.empty(self._problem.tally_size, np.uint64)  # not page-locked, since a result keeps it
                batches[batch] = BatchTally(list(part.done), to_host(self._tallies[batch], numbers))
        return LayerTally(batch_size=self._done.batch_size, key=self._done.key, batches=batches)

    def _parts(self, start: int, count: int) -> list[tuple[int, BatchTally]]:
        """The batches that a chunk touches, and what it does of each; the numbers themselves stay on the GPU."""
        size, nothing = self._problem.batch_size, np.zeros(0, np.uint64)
        found = []
        for batch in range(start // size, (start + count - 1) // size + 1):
            first, last = max(start, batch * size), min(start + count, (batch + 1) * size)
            found.append((batch, BatchTally([(first, last)], nothing)))
        return found

    def _choose_shape(self, start: int) -> None:
        """Find the corner of A(r, z) that gets most deposits of a few photons, which are traced again later."""
        import cupy

        p, s = self._problem, self._problem.settings
        pilot = cupy.zeros((len(self._parts(start, PILOT_PHOTONS)), p.tally_size), np.uint64)
        kept, self._underway = self._underway, (None, 0)
        self._trace(start, PILOT_PHOTONS, pilot, cycles=FEWEST_CYCLES)
        self._underway = kept
        absorbed = to_host(pilot[:, : p.absorption_cells].sum(axis=0)).reshape(s.radial_bins, s.depth_bins)
        corner = hot_corner(absorbed, self._cache_bytes() // 8)
        self._may_cache = bool(self._variant.cache) or self._is_worth_a_cache(absorbed, corner)
        if self._may_cache:
            self.shape = corner

    def _is_worth_a_cache(self, absorbed: npt.NDArray[Any], corner: tuple[int, int]) -> bool:
        """Whether much goes to a corner of A(r, z), and seldom to the bin of the deposit before."""
        p, s = self._problem, self._problem.settings
        by_depth, whole = absorbed.sum(axis=0, dtype=np.float64), absorbed.sum(dtype=np.float64)
        if absorbed[: corner[0], : corner[1]].sum(dtype=np.float64) < max(_MIN_CACHED * whole, 1.0):
            return False
        layers = p.medium.layers_at((np.arange(s.depth_bins) + 0.5) * s.dz_mm)
        step_mm = np.average(p.layers[layers, 1], weights=by_depth)
        return bool(step_mm >= _MIN_STEP * min(s.dr_mm, s.dz_mm))

    def _cache_bytes(self) -> int:
        if self._variant.cache_bytes is not None:
            return self._variant.cache_bytes
        of_block = shared_memory_of_processor(self.device) // BLOCKS_PER_PROCESSOR - _OTHER_SHARED_BYTES
        return min(of_block, _MAX_CACHE_BYTES)

    def _trace(self, start: int, count: int, tallies: Any, *, cycles: int = 0) -> None:
        """Trace photons and add to tallies, the first of which is that of the first photon's batch.

        Packets that live when there are no more photons to begin, so many cycles later, stay under way.
        """
        import cupy

        p = self._problem
        ranges = [part.done[0] for _, part in self._parts(start, count)]
        copies = p.copies(len(ranges))
        # named, since a struct keeps no array alive
        firsts = cupy.asarray(np.array([first for first, _ in ranges], np.uint64))
        counts = cupy.asarray(np.array([last - first for first, last in ranges], np.uint32))
        counters = cupy.zeros(len(ranges), np.uint32)
        copied = cupy.zeros((copies, len(ranges), p.tally_size), np.uint64)
        batches = self._batches(
            firsts=firsts,
            counts=counts,
            counters=counters,
            first_slot=start // p.batch_size,
            slots=len(ranges),
            tallies=copied,
            copies=copies,
        )
        if self._variant.simple:
            self._kernel("trace_simply")((self._blocks(count),), (THREADS,), (self._scene, batches))
        else:
            self._launch(batches, photons=count, cycles=cycles)
        while copies > 1:  # in place, since there may be no more memory, and photons are under way
            half = copies // 2
            _add(copied[:half], copied[copies - half : copies])
            copies -= half
        _add(tallies[: len(ranges)], copied[0])

    def _finish(self) -> None:
        """Trace packets under way to their ends."""
        batches = self._batches(
            firsts=None, counts=None, counters=None, first_slot=0, slots=0, tallies=None, copies=1, cached=False
        )
        cycles = FEWEST_CYCLES
        while before := self._underway[1]:
            self._launch(batches, photons=0, cycles=cycles, cached=False)
            if self._underway[1] > before // 2:
                cycles *= 2

    def _launch(self, batches: np.void, *, photons: int, cycles: int, cached: bool = True) -> None:
        """Trace photons and packets under way; what lives when none are to begin, so many cycles later, stays so."""
        import cupy

        before, waiting = self._underway
        blocks = max(self._blocks(photons), min(waiting, self._most_blocks))
        after, left = cupy.empty((blocks * THREADS, PACKET_WORDS), np.float32), cupy.zeros(1, np.uint32)
        underway = struct(UNDERWAY, before=before, count=waiting, after=after, left=left, cycles=cycles)
        corner = self.shape if cached and self._may_cache else None
        shared = 8 * math.prod(corner or (0, 0))
        launched = self._kernel("trace_layers", cached=corner is not None)
        if shared:  # more than a kernel gets unasked, together with what it has itself
            launched.max_dynamic_shared_size_bytes = shared
        launched((blocks,), (THREADS,), (self._scene, batches, underway), shared_mem=shared)
        self._underway = (after, int(to_host(left)[0]))

    def _blocks(self, photons: int) -> int:
        return min(self._most_blocks, -(-photons // THREADS))

    def _batches(self, *, cached: bool = True, **given: Any) -> np.void:
        radial, depth = (self.shape if cached and self._may_cache else None) or (0, 0)
        own = {"tally_size": self._problem.tally_size, "scale": SCALE, "resident": self._tallies}
        return struct(BATCHES, cached_radial=radial, cached_depth=depth, **given, **own)

    def _kernel(self, name: str, *, cached: bool = False) -> Any:
        settings = self._problem.settings
        chosen = {"CACHE": cached, "HISTORY": self._variant.history, "ABSORPTION": settings.has_map}
        chosen["COLLECT"] = settings.absorption != "drop"
        defines = (f"THREADS={THREADS}", *(f"{key}={int(value)}" for key, value in chosen.items()))
        return kernel(_SOURCE, name, defines=defines, fast=True)


def _add(target: Any, other: Any) -> None:
    """Add to an array in its place: ``target[:n] += other`` copies what it then assigns to itself."""
    import cupy

    cupy.add(target, other, out=target)


def numbers_of(problem: LayeredProblem) -> dict[str, Any]:
    """Numbers of a `SCENE`."""
    p, s = problem, problem.settings
    return {
        "layer_count": len(p.medium.layers),
        "n_above": p.medium.n_above,
        "n_below": p.medium.n_below,
        "weight": 1.0 - p.specular,
        "threshold": p.threshold,
        "first_layer": p.first_layer,
        "radial": s.radial_bins,
        "depth": s.depth_bins,
        "angles": s.angle_bins,
        "radial_per_mm": per_mm(s.dr_mm),
        "depth_per_mm": per_mm(s.dz_mm),
        "radial_last": s.radial_bins - 1,
        "depth_last": s.depth_bins - 1,
        "radial_end": s.radial_bins,
        "depth_end": s.depth_bins,
        "seed": s.seed,
    }


def hot_corner(absorbed: npt.NDArray[Any], cells: int) -> tuple[int, int]:
    """Shape (bins in r, in z) of the corner of A(r, z) that holds most, of all with at most ``cells`` bins."""
    radial, depth = absorbed.shape
    sums = absorbed.astype(np.float64).cumsum(axis=0).cumsum(axis=1)
    heights = np.arange(1, min(depth, cells) + 1)
    widths = np.minimum(cells // heights, radial)
    best = int(np.argmax(sums[widths - 1, heights - 1]))
    return int(widths[best]), int(heights[best])
