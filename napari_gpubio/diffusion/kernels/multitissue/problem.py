"""Least squares under linear inequalities, the same for both backends."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.chunks import items_within_memory
from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.memory import Memory

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ConstrainedProblem(Problem):
    """Minimize ``|X f - s|^2 + f^T E f`` subject to ``C f >= 0`` for many right-hand sides s.

    With ``X^T X + E = U^T U``, ``y = U f``, ``g = U^-T X^T s`` and the normals ``a = U^-T c / |U^-T c|`` of the
    constraints, y is the point of the cone ``a . y >= 0`` that is nearest to g: ``y = g + sum_k m_k a_k`` with
    multipliers ``m >= 0`` that are zero unless ``a_k . y = 0`` (Karush, Kuhn and Tucker). The multipliers are the
    non-negative least-squares solution of Lawson and Hanson (1974, chapter 23).

    Parameters
    ----------
    signals
        s, shape (M, V), float32.
    white
        ``X U^-1``, shape (V, N): g is its transpose times s.
    normals
        a, shape (K, N), rows of length 1.
    back
        ``U^-1``, shape (N, N): f is it times y.
    """

    work = "deconvolving"
    counts: ClassVar[Any] = np.uint16  # type of the numbers of constraints that are taken up
    signals: npt.NDArray[np.float32]
    white: Floats
    normals: Floats
    back: Floats

    @property
    def items(self) -> int:
        """Number of voxels."""
        return len(self.signals)

    @property
    def coefficients(self) -> int:
        """Number of unknowns, N."""
        return int(self.white.shape[1])

    @property
    def bytes_per_item(self) -> int:
        """Bytes of the signals of a voxel, of its solution, and of the number of constraints that it took up."""
        return 4 * (self.signals.shape[1] + self.coefficients) + 2

    def memory(self, device: Device) -> Memory:
        """Signals, solutions and tables; on a GPU those of a chunk, at most: how long it is depends on the time."""
        count = min(self.items, items_within_memory(device, self.bytes_per_item))
        result = self.bytes_per_item - 4 * self.signals.shape[1]
        tables = self.white.nbytes + 2 * self.normals.nbytes + self.back.nbytes
        return Memory(inputs=tables + count * (self.bytes_per_item - result), results=count * result)


def constrained_problem(signals: Array, forward: Array, constraints: Array, ridge: float = 1e-10) -> ConstrainedProblem:
    """Set the problem up.

    Parameters
    ----------
    signals
        Shape (M, V).
    forward
        X, shape (V, N).
    constraints
        C, shape (K, N); rows of any length but zero.
    ridge
        E is the unit matrix times this and the mean of the diagonal of X^T X.
    """
    from scipy.linalg import solve_triangular

    gram = forward.T @ forward
    gram += np.eye(len(gram)) * (ridge * np.trace(gram) / len(gram))
    upper = np.linalg.cholesky(gram).T
    back = solve_triangular(upper, np.eye(len(upper)))
    normals = constraints @ back
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return ConstrainedProblem(
        signals=np.ascontiguousarray(signals, np.float32),
        white=np.ascontiguousarray(forward @ back),
        normals=np.ascontiguousarray(normals),
        back=np.ascontiguousarray(back),
    )
