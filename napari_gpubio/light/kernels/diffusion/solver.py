"""Conjugate gradients with a multigrid cycle as preconditioner; both backends share it.

What is solved is the balance of every voxel i,

    sink_i x_i + sum_j c_ij (x_i - x_j) = b_i,

with conductances c_ij to its six neighbors: a symmetric matrix, whose largest and smallest entries may be decades
apart. A coarser level joins 2 x 2 x 2 voxels. Their sinks add up, and so do the conductances of the four faces between
two of them, but halved, since the way is twice as long. Sweeps are in the order of a checkerboard, forwards before the
coarser levels and backwards after them, which keeps the cycle symmetric. It is computed in single precision and applied
to residuals only; the solution itself is in double precision.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core.steps import Step, drive, with_step

RED, BLACK = 0, 1  # voxels whose indices add up to an even or an odd number
_COARSEST = 4  # voxels along the longest axis of the last level
_SWEEPS = 8  # forwards, and as many backwards, on the last level
_MOST_ITERATIONS = 500


class Level(NamedTuple):
    """The matrix on one grid, float32 arrays of shape (X, Y, Z).

    ``cx``, ``cy`` and ``cz`` are the conductances to the next voxel along each axis, 0 for the last one; the diagonal
    is the sink and all conductances of a voxel, or 1 where there is neither.
    """

    sink: Any
    cx: Any
    cy: Any
    cz: Any
    diagonal: Any

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of the grid."""
        x, y, z = self.diagonal.shape
        return x, y, z


class Solver(ABC):
    """The equations of one grid on one device.

    Parameters
    ----------
    xp
        NumPy or CuPy, whose arrays are used.
    sink
        Shape (X, Y, Z), not negative.
    conductances
        Along x, y and z: three arrays of the same shape, not negative, of which the last plane is not read.
    """

    def __init__(self, xp: Any, sink: Any, conductances: tuple[Any, Any, Any]) -> None:
        self.xp = xp
        self.levels = [_level(xp, sink, conductances)]
        while max(self.levels[-1].shape) > _COARSEST:
            self.levels.append(_coarser(xp, self.levels[-1]))
        self._rooms = [tuple(xp.zeros(level.shape, np.float32) for _ in range(2)) for level in self.levels]
        self._share = 0.0  # of the digits of the solution that are right

    def solve(self, source: Any, tolerance: float = 1e-12) -> Any:
        """Return x, float64, shape (X, Y, Z); see `solve_parts`."""
        return drive(with_step(self.solve_parts(source, tolerance), Step(0, 1)))

    def solve_parts(self, source: Any, tolerance: float = 1e-12) -> Generator[float, None, Any]:
        """Return x, float64, shape (X, Y, Z); yields about the share that is done after every pass over the voxels.

        Parameters
        ----------
        source
            b, same shape.
        tolerance
            The norm of the residual, as the preconditioner weighs it, relative to that of b.
        """
        xp = self.xp
        x, r = xp.zeros(source.shape), xp.array(source, np.float64)
        self._share = 0.0
        z = yield from self._preconditioned(r)
        p, product = z.astype(np.float64), xp.empty_like(r)
        rz = self._dot(r, z)
        enough = tolerance**2 * rz
        for _ in range(_MOST_ITERATIONS):
            if rz <= enough:
                break
            step = rz / self._multiply(p, product)
            yield self._share
            self._step_along(step, p, product, x, r)
            z = yield from self._preconditioned(r)
            before, rz = rz, self._dot(r, z)
            self._turn(rz / before, z, p)
            if rz > enough:  # as it falls by as many powers of ten with every cycle
                self._share = max(0.0, 1.0 - math.log(enough / rz) / math.log(tolerance**2))
        return x

    def _preconditioned(self, residual: Any) -> Generator[float, None, Any]:
        """One cycle for a residual, float32."""
        x, b = self._rooms[0]
        b[...] = residual
        yield from self._cycle(0)
        return x

    def _cycle(self, n: int) -> Generator[float, None, None]:
        """Approximate the solution of a level: from and to its rooms."""
        level, (x, b) = self.levels[n], self._rooms[n]
        x[...] = 0
        if n == len(self.levels) - 1:
            for color in (RED, BLACK) * _SWEEPS + (BLACK, RED) * _SWEEPS:
                self._relax(level, color, x, b)
            return
        for color in (RED, BLACK):
            self._relax(level, color, x, b)
            yield self._share
        coarser, its_b = self._rooms[n + 1]
        self._restrict(level, x, b, its_b)
        yield from self._cycle(n + 1)
        self._prolong(coarser, x)
        for color in (BLACK, RED):
            self._relax(level, color, x, b)
            yield self._share

    @abstractmethod
    def _relax(self, level: Level, color: int, x: Any, b: Any) -> None:
        """Solve the balance of every voxel of a color for its own x."""

    @abstractmethod
    def _restrict(self, level: Level, x: Any, b: Any, coarser: Any) -> None:
        """Sum the residual b - A x over 2 x 2 x 2 voxels."""

    @abstractmethod
    def _prolong(self, coarser: Any, x: Any) -> None:
        """Add to each voxel's x that of the one it is part of."""

    @abstractmethod
    def _multiply(self, p: Any, product: Any) -> float:
        """Set the product to A p, and return p A p."""

    @abstractmethod
    def _step_along(self, step: float, p: Any, product: Any, x: Any, r: Any) -> None:
        """Add a step along p to x, and take its product from the residual."""

    @abstractmethod
    def _dot(self, r: Any, z: Any) -> float:
        """The sum of r z."""

    @abstractmethod
    def _turn(self, share: float, z: Any, p: Any) -> None:
        """Set p to z + share p."""


def along(axis: int, part: slice | int) -> tuple[slice | int, ...]:
    """The index of a part of a volume along an axis."""
    return (*(slice(None),) * axis, part)


_LAST, _BUT_LAST, _BUT_FIRST = slice(-1, None), slice(-1), slice(1, None)


def _level(xp: Any, sink: Any, conductances: tuple[Any, Any, Any]) -> Level:
    sink = xp.array(sink, np.float32)
    diagonal, faces = sink.copy(), []
    for axis, given in enumerate(conductances):
        face = xp.array(given, np.float32)
        face[along(axis, _LAST)] = 0
        diagonal += face
        diagonal[along(axis, _BUT_FIRST)] += face[along(axis, _BUT_LAST)]
        faces.append(face)
    cx, cy, cz = faces
    return Level(sink, cx, cy, cz, xp.where(diagonal > 0, diagonal, np.float32(1)))


def _coarser(xp: Any, level: Level) -> Level:
    faces = []
    for axis, face in enumerate((level.cx, level.cy, level.cz)):
        between, odd = xp.zeros_like(face), along(axis, slice(1, None, 2))
        between[odd] = np.float32(0.5) * face[odd]  # the others lie inside
        faces.append(_joined(xp, between))
    cx, cy, cz = faces
    return _level(xp, _joined(xp, level.sink), (cx, cy, cz))


def _joined(xp: Any, values: Any) -> Any:
    """Sums over 2 x 2 x 2 voxels; the last ones of an odd number stand alone."""
    for axis in range(3):
        first, second = values[along(axis, slice(0, None, 2))], values[along(axis, slice(1, None, 2))]
        values = xp.array(first)
        values[along(axis, slice(second.shape[axis]))] += second
    return values
