"""Marchenko-Pastur PCA in CUDA, the counterpart of ``cpu.py``; the kernel is in ``mppca.cu``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import (
    Device,
    free_memory_bytes,
    processor_count,
    shared_memory_bytes,
    shared_memory_of_processor,
    to_host,
)
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.diffusion.kernels.mppca.problem import Denoised, PcaProblem, rotation_room, sweep_room

SOURCE = Path(__file__).with_name("mppca.cu")
TILE, WARP = 16, 32  # as in the kernel
RESIDENT_SHARE = 0.4  # of the free memory, at most, for the series
MIN_BLOCKS = 8  # of a processor; where fewer would fit, matrices in global memory take half of the time
_RESERVED_BYTES = 1024  # of shared memory, which every block takes beside its own
_MAX_BLOCKS, _MAX_WARPS = 32, 64  # of a processor
_SCRATCH_SHARE = 0.25  # of the free memory, at most, for what blocks have outside shared memory


def layout_of(real: Any) -> np.dtype[Any]:
    """The struct of the kernel's arguments for a type of numbers."""
    pointers = ("data", "voxels", "offsets", "matrices", "rotations", "sweeps", "signals", "sigma", "rank")
    sizes = ("first_plane", "volumes", "window_voxels", "size", "pitch", "rotation_room", "sweep_room", "exact")
    return struct_layout(
        dict.fromkeys(pointers, POINTER)
        | dict.fromkeys(("shape", "window"), (np.int32, 3))
        | dict.fromkeys(sizes, np.int32)
        | {"tiny": np.float64, "scale": real}
    )


def defines_of(real: Any, in_shared: bool) -> tuple[str, ...]:
    """The specialization of the kernel."""
    return f"REAL={'double' if real == np.float64 else 'float'}", f"MATRIX_IN_SHARED={int(in_shared)}"


def room_for_series(device: Device) -> int:
    """Bytes for the series."""
    return int(RESIDENT_SHARE * free_memory_bytes(device))


class Run(drivers.Run):
    """The denoising of one series on one GPU; items are the voxels."""

    def __init__(self, problem: PcaProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        self._plan = plan = Plan(problem, device)
        self._layout = layout_of(problem.real)
        self._first, self._last = 0, 0  # planes that are on the GPU
        with device.current():
            self._voxels, self._offsets = cupy.asarray(problem.voxels), cupy.asarray(_offsets(problem))
            self._rotations = cupy.empty((plan.blocks, rotation_room(problem.size), 2))
            self._sweeps = cupy.empty((plan.blocks, sweep_room(problem.size), 2), np.int32)
            self._matrices = None
            if not plan.in_shared:
                self._matrices = cupy.empty((plan.blocks, plan.pitch, plan.pitch), problem.real)
            self._planes: Any = None
            self._kernel = kernel(SOURCE, "denoise_voxels", defines=defines_of(problem.real, plan.in_shared))
        if plan.shared_bytes > self._kernel.max_dynamic_shared_size_bytes:  # more than the default must be requested
            self._kernel.max_dynamic_shared_size_bytes = plan.shared_bytes

    def advance(self, start: int, count: int) -> None:
        """Denoise the voxels ``start`` to ``start + count - 1``, as many planes at a time as are on the GPU."""
        with self.device.current():
            done = []
            while count > 0:
                some = self._load(start, count)
                done.append(self._denoise(start, some))
                start, count = start + some, count - some
        self._finished.extend(done)

    def _load(self, start: int, count: int) -> int:
        """Have the planes of the next voxels on the GPU; return how many of ``count`` voxels have theirs there."""
        import cupy

        p = self._problem
        first, last = (self._window_of(n) for n in (start, start + count - 1))
        if first[0] < self._first or first[1] > self._last:
            self._planes, self._last = None, 0  # before the memory is used again, and in case there is too little
            room = room_for_series(self.device) // p.data[:1].nbytes
            end = min(len(p.data), max(first[1], first[0] + room))
            self._planes = cupy.asarray(p.data[first[0] : end])
            self._first, self._last = first[0], end
        if last[1] <= self._last:
            return count
        x = p.voxels[start : start + count, 0]
        beyond = np.searchsorted(_first_of(x, p.window[0], len(p.data)) + p.window[0], self._last, side="right")
        return int(beyond)

    def _window_of(self, voxel: int) -> tuple[int, int]:
        """The planes that the window of a voxel lies in."""
        edge = self._problem.window[0]
        first = int(_first_of(self._problem.voxels[voxel, 0], edge, len(self._problem.data)))
        return first, first + edge

    def _denoise(self, start: int, count: int) -> Denoised:
        import cupy

        p, plan = self._problem, self._plan
        signals = cupy.empty((count, p.volumes), np.float32)
        sigma, rank = cupy.empty(count, np.float32), cupy.empty(count, np.int32)
        arrays = struct(
            self._layout,
            data=self._planes,
            voxels=self._voxels,
            offsets=self._offsets,
            matrices=self._matrices,
            rotations=self._rotations,
            sweeps=self._sweeps,
            signals=signals,
            sigma=sigma,
            rank=rank,
            shape=p.data.shape[:3],
            window=p.window,
            first_plane=self._first,
            volumes=p.volumes,
            window_voxels=p.window_voxels,
            size=p.size,
            pitch=plan.pitch,
            rotation_room=rotation_room(p.size),
            sweep_room=sweep_room(p.size),
            exact=int(p.exact),
            scale=p.scale,
            tiny=float(np.finfo(p.real).eps),
        )
        grid = (min(plan.blocks, count),)
        self._kernel(grid, (plan.threads,), (arrays, np.int32(start), np.int32(count)), shared_mem=plan.shared_bytes)
        return Denoised(start, to_host(signals), to_host(sigma), to_host(rank).astype(np.uint16))


class Plan:
    """How a problem is put on a GPU: threads of a block, number of blocks, and where the matrices are."""

    def __init__(self, problem: PcaProblem, device: Device) -> None:
        itemsize = np.dtype(problem.real).itemsize
        self.pitch = -(-problem.size // 4) * 4
        doubles, numbers = 4 * self.pitch + WARP, (TILE + 2) * self.pitch
        vectors = 8 * doubles + itemsize * numbers
        matrix = itemsize * self.pitch**2
        room = shared_memory_of_processor(device) // MIN_BLOCKS
        self.in_shared = vectors + matrix + _RESERVED_BYTES <= min(shared_memory_bytes(device), room)
        self.shared_bytes = vectors + (matrix if self.in_shared else 0)
        self.threads = WARP if problem.size <= 64 else 4 * WARP if problem.size <= 128 else 8 * WARP
        fitting = shared_memory_of_processor(device) // (self.shared_bytes + _RESERVED_BYTES)
        fitting = max(1, min(fitting, _MAX_BLOCKS, _MAX_WARPS * WARP // self.threads))
        self.blocks = fitting * processor_count(device)
        self.scratch_bytes = 16 * rotation_room(problem.size) + 8 * sweep_room(problem.size)
        self.scratch_bytes += 0 if self.in_shared else matrix
        room = int(_SCRATCH_SHARE * free_memory_bytes(device)) // self.scratch_bytes
        self.blocks = max(1, min(self.blocks, room))


def _first_of(center: Any, edge: int, size: int) -> Any:
    """Where windows begin along an axis, as in the kernel."""
    return np.clip(center - edge // 2, 0, size - edge)


def _offsets(problem: PcaProblem) -> npt.NDArray[np.int32]:
    """Number of each voxel of a window after its first one, in the order of the array, shape (n,)."""
    x, y, z = (np.arange(edge) for edge in problem.window)
    _, ny, nz, _ = problem.data.shape
    return np.asarray((x[:, None, None] * ny + y[:, None]) * nz + z, np.int32).ravel()
