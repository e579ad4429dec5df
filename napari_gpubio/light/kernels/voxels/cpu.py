"""Photons through voxels on all CPU cores (Numba), the counterpart of ``gpu.py``; the physics is in ``trace.py``."""

import sys
from typing import Any

import numpy as np

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.light.kernels.voxels.fold import fold, writable
from napari_gpubio.light.kernels.voxels.photon import Fibers, Scene, Several
from napari_gpubio.light.kernels.voxels.problem import DETECTED_NUMBERS, VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import DetectedList, OpenBatch, VoxelTally
from napari_gpubio.light.kernels.voxels.trace import Tallies, trace_photons
from napari_gpubio.optics.batches import joined

_MIN_PHOTONS_FOR_CALL = 16
_BLOCKS_PER_THREAD = 16
_OWNERS = max(map(sys.getrefcount, [np.zeros(1)])) + 1  # of an array in a list and one place more


class Run(drivers.Run):
    """The simulation of one problem on the CPU; items are photons, and a chunk lies within one batch."""

    def __init__(self, problem: VoxelProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self.span = problem.batch_size
        self._whole: Any = VoxelTally.empty(problem)
        self.tally: Any = np.zeros(problem.tally_size, np.uint64)
        self._is_shared = False  # with what a snapshot has returned, if that is still there
        self._energy = np.zeros(problem.energy_size, np.uint64)
        self._scene = scene_of(problem)
        self._done: list[tuple[int, int]] = []

    def advance(self, start: int, count: int) -> None:
        """Trace the photons ``start`` to ``start + count - 1``, all of one batch."""
        if self._is_shared:
            self._part_from_snapshots()
        batch = start // self.span
        if self._done and self._done[0][0] // self.span != batch:
            self._whole.merge_open(self._done[0][0] // self.span, self._open_batch())
            self.tally = np.zeros_like(self.tally)  # the other one is that batch's now
            self._begin()
        self._trace(start, count)
        self._done = joined([*self._done, (start, start + count)])
        if sum(b - a for a, b in self._done) == self.span:
            self._close(batch)

    def snapshot(self) -> VoxelTally:
        """Tallies so far; if the run goes on, it is with copies of its own, which the last ones do not need."""
        self._is_shared = True
        whole = self._whole.shared()
        if self._done:
            whole.merge_open(self._done[0][0] // self.span, self._open_batch())
        return whole

    def paths(self, planes: slice) -> Any:
        """Weight times path of all photons so far in some planes, as of `VoxelProblem.inside`, in quanta."""
        inside = self._problem.inside(planes)
        open_ = (part.path for part in self._whole.open.values())
        return sum(map(inside, (self.tally, *open_)), start=inside(self._whole.sums))

    def _trace(self, start: int, count: int) -> None:
        p = self._problem
        capacity = count if p.detectors else 0
        detected = np.zeros(1, np.int64)
        photons = np.empty(capacity, np.uint64)
        numbers = np.empty((capacity, DETECTED_NUMBERS + p.media_rows), np.float32)
        tallies = Tallies(
            path=self.tally,
            half_stride=p.gates * p.cells * p.patterns if p.halves > 1 else 0,
            gate_stride=p.cells * p.patterns,
            scale=np.float32(p.scale),
            energy=self._energy,
            energy_scale=np.float32(p.energy_scale),
            exits=self._whole.exits,
            detected=detected,
            photons=photons,
            numbers=numbers,
        )
        given = np.uint64(start), self._scene, tallies
        run_blocks(trace_photons, count, *given, least=_MIN_PHOTONS_FOR_CALL, blocks_per_thread=_BLOCKS_PER_THREAD)
        if found := int(detected[0]):
            self._whole.detected.add(DetectedList(photons[:found], numbers[:found]), p.settings.max_detected)

    def _close(self, batch: int) -> None:
        absorbed = fold(self._problem, self.tally, self._whole.sums, self._whole.squares)
        self._whole.batches[batch] = np.concatenate([self._energy, absorbed])
        self._begin()  # folding has cleared the tally

    def _open_batch(self) -> OpenBatch:
        return OpenBatch(list(self._done), self.tally, self._energy.copy())

    def _part_from_snapshots(self) -> None:
        """Copy the arrays that a snapshot has returned and somebody still holds; in large volumes it takes seconds."""
        self._is_shared = False
        owned = [self._whole.sums, self._whole.squares, self._whole.exits, self.tally]
        if max(map(sys.getrefcount, owned)) > _OWNERS:
            self._whole, self.tally = self._whole.copy(), self.tally.copy()

    def _clear(self) -> None:
        self.tally[:] = 0
        self._begin()

    def _begin(self) -> None:
        """Begin another batch, with a tally that is cleared."""
        self._energy[:] = 0
        self._done = []


def scene_of(problem: VoxelProblem) -> Scene:
    """Everything that photons meet, as the kernels take it."""
    p, s, sources = problem, problem.settings, problem.source_table
    (nx, ny, nz), (hx, hy, hz) = p.size, p.edges_mm
    return Scene(
        nx=nx,
        ny=ny,
        nz=nz,
        stride_x=(ny + 2) * (nz + 2),
        stride_y=nz + 2,
        hx=hx,
        hy=hy,
        hz=hz,
        rows=writable(p.rows),
        media=writable(p.media),
        mua=writable(p.mua),
        mus=writable(p.mus),
        g=writable(p.g) if len(p.g) else None,
        n=writable(p.n) if len(p.n) else None,
        phase=writable(p.phase) if len(p.phase) else None,
        faces=p.faces,
        refraction=s.refraction,
        specular=p.specular,
        threshold=np.float32(s.roulette_threshold),
        edges=writable(p.gate_edges),
        gated=s.is_gated or None,
        kind=p.kind,
        rare=p.rare_source or None,
        source=writable(sources.numbers),
        pattern=writable(sources.pattern),
        columns=p.packed_sources[0].pattern_columns,
        angles=writable(sources.angles),
        several=Several(sources.chances, sources.places) if sources.is_several else None,
        shares=None if p.shares is None else writable(p.shares),
        detectors=writable(p.detector_numbers),
        seed=np.uint64(s.seed),
        fibers=None if p.tensors is None else Fibers(p.anisotropy, *map(writable, p.tensors)),
        surfaces=writable(p.surfaces),
    )
