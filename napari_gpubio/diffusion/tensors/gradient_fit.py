"""A function on the voxels of a mask whose gradient comes nearest to a given one: equations and solver.

The equations are those of trilinear finite elements integrated in their corners: in each of the eight octants around a
voxel the gradient consists of the differences to the three neighbors there. Where one of them is outside the mask the
octant is left out, which is Neumann's boundary condition.

They are solved by conjugate gradients with a multigrid cycle as preconditioner: voxels are joined 2 x 2 x 2, and the
sweeps are Jacobi's with the sums of absolute values of the rows, which converge for every such matrix.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Octant = tuple[int, int, int]  # +1 or -1 along each axis

_TOLERANCE = 1e-12  # of the residual, relative to the right-hand side
_MAX_ITERATIONS = 500
_ANCHOR = 1e-8  # of the mean diagonal, added to every diagonal: fixes the mean of each connected part to 0
_COARSEST = 100  # unknowns at which the matrix is inverted
_DAMPING = 1.5  # of the sweeps; they converge below 2
_CORRECTION = 1.5  # of the coarser level's: constants on 2 x 2 x 2 voxels make its matrix too stiff


class Equations:
    """Symmetric equations with one unknown for each voxel of a mask, in C order.

    Parameters
    ----------
    mask
        Shape (X, Y, Z).
    """

    def __init__(self, mask: npt.NDArray[np.bool_]) -> None:
        padded = np.pad(mask, 1)
        self._places = np.flatnonzero(padded)
        self._number = np.full(padded.size, -1, np.int32)
        self._number[self._places] = np.arange(len(self._places))
        self._strides = (padded.shape[1] * padded.shape[2], padded.shape[2], 1)
        self._voxels = np.argwhere(mask)
        self._diagonal, self._load = np.zeros(len(self._places)), np.zeros(len(self._places))
        self._couplings: dict[int, Floats] = {}  # by the step to a later voxel

    def neighbors(self, axis: int, sign: int) -> npt.NDArray[np.int32]:
        """The unknown next to each one on one side, -1 where that is outside the mask."""
        return self._number[self._places + sign * self._strides[axis]]

    def rows(self, octant: Octant) -> npt.NDArray[np.intp]:
        """Unknowns that have all three neighbors in an octant."""
        x, y, z = (self.neighbors(axis, sign) >= 0 for axis, sign in enumerate(octant))
        return np.flatnonzero(x & y & z)

    def add(self, rows: Array, octant: Octant, weight: Floats, aim: Floats) -> None:
        """Add ``e.weight.e / 2`` for ``e = gradient - aim`` to what is minimized.

        Parameters
        ----------
        rows
            Unknowns with all neighbors in the octant, shape (N,).
        octant
            In which the gradient is taken.
        weight, aim
            In voxel coordinates, shapes (N, 3, 3) and (N, 3).
        """
        sides = np.array(octant)
        weight = weight * np.outer(sides, sides)  # of differences to the neighbors instead of derivatives
        sums, force = weight.sum(axis=2), (weight @ (sides * aim)[..., np.newaxis])[..., 0]
        ends = [self.neighbors(axis, sign)[rows] for axis, sign in enumerate(octant)]
        steps = [sign * stride for sign, stride in zip(octant, self._strides, strict=True)]
        self._diagonal[rows] += sums.sum(axis=1)
        self._load[rows] -= force.sum(axis=1)
        for a in range(3):
            self._diagonal[ends[a]] += weight[:, a, a]
            self._load[ends[a]] += force[:, a]
            self._couple(rows, ends[a], steps[a], -sums[:, a])
            b = (a + 1) % 3
            self._couple(ends[a], ends[b], steps[b] - steps[a], weight[:, a, b])

    def _couple(self, one: Array, other: Array, step: int, values: Floats) -> None:
        """Add to the matrix at (one, other) and (other, one); ``step`` leads from one to the other."""
        first = one if step > 0 else other
        self._couplings.setdefault(abs(step), np.zeros(len(self._load)))[first] += values

    def matrix(self) -> Any:
        """The matrix in compressed rows."""
        from scipy import sparse

        n = np.arange(len(self._load), dtype=np.int32)
        row, column, entry = [n], [n], [self._diagonal + _ANCHOR * self._diagonal.mean()]
        for step, values in self._couplings.items():
            one = n[values != 0]
            other = self._number[self._places[one] + step]
            row, column, entry = [*row, one, other], [*column, other, one], [*entry, values[one], values[one]]
        places = np.concatenate(row), np.concatenate(column)
        return sparse.csr_array((np.concatenate(entry), places), shape=(len(n), len(n)))

    def solution(self) -> Floats:
        """The unknowns, shape (N,), mean 0 over each connected part; 0 if the equations are empty."""
        from scipy.sparse import linalg

        if not self._load.any():
            return np.zeros(len(self._load))
        matrix = self.matrix()
        cycle = linalg.LinearOperator(matrix.shape, _Cycle(matrix, self._voxels), dtype=np.float64)
        x, _ = linalg.cg(matrix, self._load, rtol=_TOLERANCE, maxiter=_MAX_ITERATIONS, M=cycle)
        return np.asarray(x)


class _Level(NamedTuple):
    """The matrix on one grid, the factors of its sweeps, and the sparse maps from and to the next coarser grid."""

    matrix: Any
    sweep: Array
    finer: Any
    coarser: Any


class _Cycle:
    """A symmetric multigrid cycle, W from the second level on, in single precision."""

    def __init__(self, matrix: Any, voxels: Array) -> None:
        self._levels: list[_Level] = []
        matrix = matrix.astype(np.float32)
        while matrix.shape[0] > _COARSEST:
            voxels, finer = _joined(voxels)
            coarser = finer.T.tocsr()
            sweep = (_DAMPING / abs(matrix).sum(axis=1)).astype(np.float32)
            self._levels.append(_Level(matrix, sweep, finer, coarser))
            matrix = (coarser @ matrix @ finer).tocsr()
        dense = matrix.toarray().astype(np.float64)
        scale = 1.0 / np.sqrt(np.diagonal(dense))
        inverse = np.linalg.pinv(dense * np.outer(scale, scale), rcond=1e-5, hermitian=True)
        self._inverse = (inverse * np.outer(scale, scale)).astype(np.float32)

    def __call__(self, residual: Floats) -> Floats:
        size = float(np.abs(residual).max()) or 1.0
        return self._improved(0, (residual / size).astype(np.float32)) * np.float64(size)

    def _improved(self, n: int, residual: Array) -> Array:
        """What to add to the unknowns of a level for a residual."""
        if n == len(self._levels):
            return np.asarray(self._inverse @ residual)
        matrix, sweep, finer, coarser = self._levels[n]
        x = sweep * residual
        x += sweep * (residual - matrix @ x)
        for _ in range(2 if n else 1):
            x += np.float32(_CORRECTION) * (finer @ self._improved(n + 1, coarser @ (residual - matrix @ x)))
            for _ in range(2):
                x += sweep * (residual - matrix @ x)
        return np.asarray(x)


def _joined(voxels: Array) -> tuple[Array, Any]:
    """Voxels of the grid with half as many along each axis, and the map of their values to the finer grid."""
    from scipy import sparse

    halved = voxels // 2
    shape = tuple(halved.max(axis=0) + 1)
    joined, group = np.unique(np.ravel_multi_index(tuple(halved.T), shape), return_inverse=True)
    ones = np.ones(len(group), np.float32)
    finer = sparse.csr_array((ones, group.astype(np.int32), np.arange(len(group) + 1, dtype=np.int32)))
    return np.stack(np.unravel_index(joined, shape), axis=1), finer
