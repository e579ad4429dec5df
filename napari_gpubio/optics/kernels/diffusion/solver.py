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

from napari_gpubio.core.by_planes import slabs_of
from napari_gpubio.core.steps import Step, drive, with_step

RED, BLACK = 0, 1  # voxels whose indices add up to an even or an odd number
_COARSEST = 4  # voxels along the longest axis of the last level
_SWEEPS = 8  # forwards, and as many backwards, on the last level
_MAX_ITERATIONS = 500


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
        Along x, y and z: three arrays of the same shape, not negative. Arrays of float32 are kept as they are given,
        but for the last plane, which is set to 0.
    """

    def __init__(self, xp: Any, sink: Any, conductances: tuple[Any, Any, Any]) -> None:
        self.xp, self._given = xp, (sink, conductances)
        self.levels = list[Level]()  # when they are needed, since they take long
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
        if not self.levels:
            yield from self._set_up()
        xp = self.xp
        x, r, p, product = (xp.empty(source.shape) for _ in range(4))
        self._share = 0.0
        for planes in slabs_of(source.shape, each=2):  # memory takes longest where it is touched for the first time
            x[planes], r[planes], product[planes] = 0, source[planes], 0
            yield self._share
        z = yield from self._preconditioned(r)
        for planes in slabs_of(source.shape):
            p[planes] = z[planes]
            yield self._share
        rz = self._dot(r, z)
        yield self._share
        enough = tolerance**2 * rz
        for _ in range(_MAX_ITERATIONS):
            if rz <= enough:
                break
            step = rz / self._multiply(p, product)
            yield self._share
            self._step_along(step, p, product, x, r)
            yield self._share
            z = yield from self._preconditioned(r)
            before, rz = rz, self._dot(r, z)
            self._turn(rz / before, z, p)
            if rz > enough:  # as it falls by as many powers of ten with every cycle
                self._share = max(0.0, 1.0 - math.log(enough / rz) / math.log(tolerance**2))
        return x

    def _set_up(self) -> Generator[float, None, None]:
        """Make all levels, and room for the solution and the right side of each."""
        levels = [(yield from _level(self.xp, *self._given))]
        while max(levels[-1].shape) > _COARSEST:
            levels.append((yield from _coarser(self.xp, levels[-1])))
        self._rooms = [tuple(self.xp.zeros(level.shape, np.float32) for _ in range(2)) for level in levels]
        self.levels = levels

    def _preconditioned(self, residual: Any) -> Generator[float, None, Any]:
        """One cycle for a residual, float32."""
        x, b = self._rooms[0]
        b[...] = residual
        yield self._share
        yield from self._cycle(0)
        return x

    def _cycle(self, n: int) -> Generator[float, None, None]:
        """Approximate the solution of a level: from and to its rooms."""
        level, (x, b) = self.levels[n], self._rooms[n]
        x[...] = 0
        yield self._share
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


def _level(xp: Any, sink: Any, conductances: tuple[Any, Any, Any]) -> Generator[float, None, Level]:
    sink, cx, cy, cz = (xp.asarray(given, np.float32) for given in (sink, *conductances))
    diagonal = xp.empty_like(sink)
    for axis, face in enumerate((cx, cy, cz)):
        face[along(axis, _LAST)] = 0
    for planes in slabs_of(sink.shape):
        before = min(planes.start, 1)  # the plane from which light comes, too
        here = slice(planes.start - before, planes.stop)
        total = sink[here].copy()
        for axis, face in enumerate((cx, cy, cz)):
            total += face[here]
            total[along(axis, _BUT_FIRST)] += face[here][along(axis, _BUT_LAST)]
        diagonal[planes] = xp.where(total > 0, total, np.float32(1))[before:]
        yield 0.0
    return Level(sink, cx, cy, cz, diagonal)


def _coarser(xp: Any, level: Level) -> Generator[float, None, Level]:
    shape = tuple(-(-length // 2) for length in level.shape)
    sink, cx, cy, cz = (xp.empty(shape, np.float32) for _ in range(4))
    for planes in slabs_of(shape, each=8):
        finer = slice(2 * planes.start, 2 * planes.stop)
        sink[planes] = _joined(xp, level.sink[finer])
        for axis, (coarse, fine) in enumerate(zip((cx, cy, cz), level[1:4], strict=True)):
            face, odd = fine[finer], along(axis, slice(1, None, 2))
            between = xp.zeros_like(face)
            between[odd] = np.float32(0.5) * face[odd]  # the others lie inside
            coarse[planes] = _joined(xp, between)
        yield 0.0
    return (yield from _level(xp, sink, (cx, cy, cz)))


def _joined(xp: Any, values: Any) -> Any:
    """Sums over 2 x 2 x 2 voxels; the last ones of an odd number stand alone."""
    for axis in range(3):
        first, second = values[along(axis, slice(0, None, 2))], values[along(axis, slice(1, None, 2))]
        values = xp.array(first)
        values[along(axis, slice(second.shape[axis]))] += second
    return values
