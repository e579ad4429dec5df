"""Diffusion in CUDA, the counterpart of ``cpu.py``; the kernels are in ``diffusion.cu``."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import kernel
from napari_gpubio.optics.kernels.diffusion.solver import Level, Solver

SOURCE = Path(__file__).with_name("diffusion.cu")
_THREADS = 256  # of a block, as in the kernels
_MAX_SUMS = 512  # of a dot product, which are added by CuPy


class GpuSolver(Solver):
    """The equations of one grid on the current GPU."""

    def __init__(self, sink: Any, conductances: tuple[Any, Any, Any]) -> None:
        import cupy

        super().__init__(cupy, sink, conductances)
        blocks = -(-sink.size // _THREADS)
        self._sums = cupy.zeros(min(blocks, _MAX_SUMS))

    def _relax(self, level: Level, color: int, x: Any, b: Any) -> None:
        nx, ny, nz = level.shape
        self._launch("relax", nx * ny * -(-nz // 2), *_grid(x), np.int32(color), *level[1:], x, b)

    def _restrict(self, level: Level, x: Any, b: Any, coarser: Any) -> None:
        self._launch("restrict_residual", coarser.size, *_grid(x), *level[1:], x, b, coarser)

    def _prolong(self, coarser: Any, x: Any) -> None:
        self._launch("prolong", x.size, *_grid(x), coarser, x)

    def _multiply(self, p: Any, product: Any) -> float:
        self._launch("multiply", p.size, *_grid(p), *self.levels[0][:4], p, product)
        return self._sum("dot_double", p, product)

    def _step_along(self, step: float, p: Any, product: Any, x: Any, r: Any) -> None:
        self._launch("step_along", p.size, np.int64(p.size), np.float64(step), p, product, x, r)

    def _dot(self, r: Any, z: Any) -> float:
        return self._sum("dot_single", r, z)

    def _turn(self, share: float, z: Any, p: Any) -> None:
        self._launch("turn", p.size, np.int64(p.size), np.float64(share), z, p)

    def _sum(self, name: str, first: Any, second: Any) -> float:
        kernel(SOURCE, name)((len(self._sums),), (_THREADS,), (np.int64(first.size), first, second, self._sums))
        return float(self._sums.sum())

    def _launch(self, name: str, threads: int, *arguments: Any) -> None:
        kernel(SOURCE, name)((math.ceil(threads / _THREADS),), (_THREADS,), arguments)


def on_gpu(device: Device, make: Callable[..., Any]) -> npt.NDArray[Any]:
    """Return on the host what ``make(xp, solver)`` makes on a GPU."""
    import cupy

    with device.current():
        return to_host(make(cupy, GpuSolver))


def _grid(volume: Any) -> tuple[np.int32, np.int32, np.int32]:
    nx, ny, nz = volume.shape
    return np.int32(nx), np.int32(ny), np.int32(nz)
