"""Photons through layers in CUDA, the counterpart of ``cpu.py``; the kernel is in ``layers.cu``."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, processor_count, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.light.kernels.layers.problem import SCALE, LayeredProblem, per_mm
from napari_gpubio.light.kernels.layers.tally import BatchTally, LayerTally

_SOURCE = Path(__file__).with_name("layers.cu")
_THREADS = 256
_BLOCKS_PER_PROCESSOR = 4  # 1024 threads, which the kernel's registers leave room for
PILOT_PHOTONS = 10_000

# The structs of the kernels' parameters, as in layers.cu.
SCENE = struct_layout(
    {"layers": POINTER, "layer_count": np.int32}
    | dict.fromkeys(("n_above", "n_below", "weight", "threshold"), np.float32)
    | dict.fromkeys(("first_layer", "radial", "depth", "angles"), np.int32)
    | dict.fromkeys(("radial_per_mm", "depth_per_mm", "radial_end", "depth_end"), np.float32)
    | {"cosines": POINTER, "seed": np.uint64}
)
BATCHES = struct_layout(
    {"firsts": POINTER, "counts": POINTER, "counters": POINTER, "slots": np.int32, "tallies": POINTER}
    | {"copies": np.int32, "tally_size": np.uint32, "scale": np.float32}
    | {"cached_radial": np.int32, "cached_depth": np.int32}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How a GPU traces and tallies; the default is the fastest, the others are for comparison. None changes a bit.

    Parameters
    ----------
    simple
        The plain kernel, in which each thread traces one photon after another; it has no cache.
    cache
        Whether the hot corner of A(r, z) lies in shared memory (Alerstam et al. 2010). On a GPU whose second-level
        cache adds 64-bit numbers as fast as an H200's, that is worth 10 % in skin; but a block then works on one
        batch at a time, and where a few photons live long (intralipid) it waits for them once a batch.
    history
        Whether deposits into one bin are gathered in registers.
    cache_bytes
        Size of the corner.
    shape
        Bins of the corner in r and z; None: chosen by a pilot run.
    """

    simple: bool = False
    cache: bool = False
    history: bool = True
    cache_bytes: int = 32 * 1024  # of each block; four blocks share a processor
    shape: tuple[int, int] | None = None


class Run:
    """The simulation of one problem on one of ``sharers`` GPUs; a chunk of photons may hold any number of batches."""

    def __init__(
        self, problem: LayeredProblem, *, device: Device, sharers: int = 1, variant: Variant | None = None
    ) -> None:
        import cupy

        self.device = device
        self._problem = problem
        self._variant = variant or Variant()
        self._done = LayerTally.empty(problem)
        self._busy = threading.Lock()  # a preview must not see half a chunk
        self.shape = self._variant.shape
        share = -(-problem.batch_count // sharers)
        self.span = problem.batch_size * share
        self._processors = processor_count(device)
        with cupy.cuda.Device(device.indices[0]):
            self._layers, self._cosines = cupy.asarray(problem.layers), cupy.asarray(problem.cosines)
            self._scene = struct(SCENE, layers=self._layers, cosines=self._cosines, **numbers_of(problem))
            self._tallies = cupy.zeros((problem.batch_count, problem.tally_size), np.uint64)

    def bytes_per_item(self) -> int:
        """Nothing is kept for a single photon."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``."""
        import cupy

        p = self._problem
        with self._busy, cupy.cuda.Device(self.device.indices[0]):
            if self._caches and self.shape is None and count > PILOT_PHOTONS:
                self.shape = self._hot_shape(start)
            self._trace(start, count, self._tallies[start // p.batch_size :])
            cupy.cuda.get_current_stream().synchronize()
            self._done.add(LayerTally(batch_size=p.batch_size, key=p.key, batches=dict(self._parts(start, count))), p)

    def snapshot(self) -> LayerTally:
        """Tallies so far, as NumPy; the run goes on."""
        import cupy

        with self._busy, cupy.cuda.Device(self.device.indices[0]):
            tallies = {batch: to_host(self._tallies[batch]) for batch in self._done.batches}
            batches = {b: BatchTally(list(part.done), tallies[b]) for b, part in self._done.batches.items()}
        return LayerTally(batch_size=self._done.batch_size, key=self._done.key, batches=batches)

    def close(self) -> None:
        """Let the device arrays go."""
        self._layers = self._cosines = self._tallies = None

    @property
    def _caches(self) -> bool:
        return self._variant.cache and not self._variant.simple and self._problem.settings.absorption

    def _parts(self, start: int, count: int) -> list[tuple[int, BatchTally]]:
        """The batches that a chunk touches, and what it does of each; the numbers themselves stay on the GPU."""
        size, nothing = self._problem.batch_size, np.zeros(0, np.uint64)
        found = []
        for batch in range(start // size, (start + count - 1) // size + 1):
            first, last = max(start, batch * size), min(start + count, (batch + 1) * size)
            found.append((batch, BatchTally([(first, last)], nothing)))
        return found

    def _hot_shape(self, start: int) -> tuple[int, int]:
        """Shape of the corner of A(r, z) that gets most deposits of a few photons, which are traced again later."""
        import cupy

        p, s = self._problem, self._problem.settings
        pilot = cupy.zeros((len(self._parts(start, PILOT_PHOTONS)), p.tally_size), np.uint64)
        self._trace(start, PILOT_PHOTONS, pilot)
        absorbed = to_host(pilot[:, : p.absorption_cells].sum(axis=0))
        return hot_corner(absorbed.reshape(s.radial_bins, s.depth_bins), self._variant.cache_bytes // 8)

    def _trace(self, start: int, count: int, tallies: Any) -> None:
        """Trace photons and add to tallies, the first of which is that of the first photon's batch."""
        import cupy

        p, s = self._problem, self._problem.settings
        parts = self._parts(start, count)
        ranges = [part.done[0] for _, part in parts]
        firsts = cupy.asarray(np.array([first for first, _ in ranges], np.uint64))
        counts = cupy.asarray(np.array([last - first for first, last in ranges], np.uint32))
        copies = p.copies(len(ranges))
        copied = cupy.zeros((copies, len(ranges), p.tally_size), np.uint64)
        cached = self.shape if self._caches and self.shape is not None else None
        radial, depth = cached or (0, 0)
        counters = cupy.zeros(len(ranges), np.uint32)
        batches = struct(
            BATCHES,
            firsts=firsts,
            counts=counts,
            counters=counters,
            slots=len(ranges),
            tallies=copied,
            copies=copies,
            tally_size=p.tally_size,
            scale=SCALE,
            cached_radial=radial,
            cached_depth=depth,
        )
        blocks = min(self._processors * _BLOCKS_PER_PROCESSOR, -(-count // _THREADS))
        chosen = {"CACHE": cached is not None, "HISTORY": self._variant.history, "ABSORPTION": s.absorption}
        defines = (f"THREADS={_THREADS}", *(f"{name}={int(value)}" for name, value in chosen.items()))
        name = "trace_simply" if self._variant.simple else "trace_layers"
        launched = kernel(_SOURCE, name, defines=defines, fast=True)
        shared = 8 * radial * depth
        if shared:  # more than a kernel gets unasked, together with what it has itself
            launched.max_dynamic_shared_size_bytes = shared
        launched((blocks,), (_THREADS,), (self._scene, batches), shared_mem=shared)
        for copy in copied:
            tallies[: len(ranges)] += copy


def numbers_of(problem: LayeredProblem) -> dict[str, Any]:
    """Numbers of a `SCENE`."""
    p, s = problem, problem.settings
    ends = (np.inf, np.inf) if s.edge == "collect" else (s.radial_bins, s.depth_bins)  # where A(r, z) ends
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
        "radial_end": ends[0],
        "depth_end": ends[1],
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
