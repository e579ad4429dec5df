"""Diffusion on all CPU cores (Numba), the counterpart of ``gpu.py``. Items are planes of voxels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel, leaf, run_blocks
from napari_gpubio.optics.kernels.diffusion.solver import Level, Solver

Array = npt.NDArray[Any]
_MIN_VOXELS_FOR_CALL = 20_000


class CpuSolver(Solver):
    """The equations of one grid on the CPU; the solution does not depend on the number of threads."""

    def __init__(self, sink: Array, conductances: tuple[Array, Array, Array]) -> None:
        super().__init__(np, sink, conductances)
        self._sums = np.zeros(len(sink))

    def _relax(self, level: Level, color: int, x: Array, b: Array) -> None:
        _by_plane(_relax, x, color, level, x, b)

    def _restrict(self, level: Level, x: Array, b: Array, coarser: Array) -> None:
        _by_plane(_restrict, coarser, level, x, b, coarser)

    def _prolong(self, coarser: Array, x: Array) -> None:
        _by_plane(_prolong, x, coarser, x)

    def _multiply(self, p: Array, product: Array) -> float:
        _by_plane(_multiply, p, self.levels[0], p, product, self._sums)
        return float(self._sums.sum())

    def _step_along(self, step: float, p: Array, product: Array, x: Array, r: Array) -> None:
        _by_plane(_step_along, p, step, p, product, x, r)

    def _dot(self, r: Array, z: Array) -> float:
        _by_plane(_dot, r, r, z, self._sums)
        return float(self._sums.sum())

    def _turn(self, share: float, z: Array, p: Array) -> None:
        _by_plane(_turn, p, share, z, p)


def _by_plane(function: Callable[..., Any], planes: Array, *arguments: Any) -> None:
    least = max(1, -(-_MIN_VOXELS_FOR_CALL // planes[0].size))
    run_blocks(function, len(planes), *arguments, least=least)


@leaf
def _inflow(i: int, j: int, k: int, level: Level, x: Array) -> Any:
    """What comes to a voxel from its neighbors."""
    total = level.cx[i, j, k] * x[i + 1, j, k] if i + 1 < x.shape[0] else x.dtype.type(0)
    if i > 0:
        total += level.cx[i - 1, j, k] * x[i - 1, j, k]
    if j + 1 < x.shape[1]:
        total += level.cy[i, j, k] * x[i, j + 1, k]
    if j > 0:
        total += level.cy[i, j - 1, k] * x[i, j - 1, k]
    if k + 1 < x.shape[2]:
        total += level.cz[i, j, k] * x[i, j, k + 1]
    if k > 0:
        total += level.cz[i, j, k - 1] * x[i, j, k - 1]
    return total


@kernel
def _relax(start: int, stop: int, color: int, level: Level, x: Array, b: Array) -> None:
    for i in range(start, stop):
        for j in range(x.shape[1]):
            for k in range((i + j + color) % 2, x.shape[2], 2):
                x[i, j, k] = (b[i, j, k] + _inflow(i, j, k, level, x)) / level.diagonal[i, j, k]


@kernel
def _restrict(start: int, stop: int, level: Level, x: Array, b: Array, coarser: Array) -> None:
    for plane in range(start, stop):
        for j in range(coarser.shape[1]):
            for k in range(coarser.shape[2]):
                coarser[plane, j, k] = np.float32(0)
        for i in range(2 * plane, min(2 * plane + 2, x.shape[0])):
            for j in range(x.shape[1]):
                for k in range(x.shape[2]):
                    left = b[i, j, k] - level.diagonal[i, j, k] * x[i, j, k] + _inflow(i, j, k, level, x)
                    coarser[plane, j // 2, k // 2] += left


@kernel
def _prolong(start: int, stop: int, coarser: Array, x: Array) -> None:
    for i in range(start, stop):
        for j in range(x.shape[1]):
            for k in range(x.shape[2]):
                x[i, j, k] += coarser[i // 2, j // 2, k // 2]


@leaf
def _outflow(i: int, j: int, k: int, level: Level, x: Array) -> Any:
    """What goes from a voxel to its neighbors and into its sink: of differences, which a small sink may depend on."""
    here = x[i, j, k]
    total = level.sink[i, j, k] * here
    if i + 1 < x.shape[0]:
        total += level.cx[i, j, k] * (here - x[i + 1, j, k])
    if i > 0:
        total += level.cx[i - 1, j, k] * (here - x[i - 1, j, k])
    if j + 1 < x.shape[1]:
        total += level.cy[i, j, k] * (here - x[i, j + 1, k])
    if j > 0:
        total += level.cy[i, j - 1, k] * (here - x[i, j - 1, k])
    if k + 1 < x.shape[2]:
        total += level.cz[i, j, k] * (here - x[i, j, k + 1])
    if k > 0:
        total += level.cz[i, j, k - 1] * (here - x[i, j, k - 1])
    return total


@kernel
def _multiply(start: int, stop: int, level: Level, p: Array, product: Array, sums: Array) -> None:
    for i in range(start, stop):
        total = 0.0
        for j in range(p.shape[1]):
            for k in range(p.shape[2]):
                value = _outflow(i, j, k, level, p)
                product[i, j, k] = value
                total += value * p[i, j, k]
        sums[i] = total


@kernel
def _step_along(start: int, stop: int, step: float, p: Array, product: Array, x: Array, r: Array) -> None:
    for i in range(start, stop):
        for j in range(p.shape[1]):
            for k in range(p.shape[2]):
                x[i, j, k] += step * p[i, j, k]
                r[i, j, k] -= step * product[i, j, k]


@kernel
def _dot(start: int, stop: int, r: Array, z: Array, sums: Array) -> None:
    for i in range(start, stop):
        total = 0.0
        for j in range(r.shape[1]):
            for k in range(r.shape[2]):
                total += r[i, j, k] * z[i, j, k]
        sums[i] = total


@kernel
def _turn(start: int, stop: int, share: float, z: Array, p: Array) -> None:
    for i in range(start, stop):
        for j in range(p.shape[1]):
            for k in range(p.shape[2]):
                p[i, j, k] = z[i, j, k] + share * p[i, j, k]
