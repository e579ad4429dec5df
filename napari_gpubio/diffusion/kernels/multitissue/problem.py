"""Least squares under linear inequalities, the same for both backends."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.diffusion.kernels.deconvolutions import Deconvolution

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ConstrainedProblem(Deconvolution):
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

    counts: ClassVar[Any] = np.uint16  # of constraints that are taken up
    white: Floats
    normals: Floats
    back: Floats

    @property
    def coefficients(self) -> int:
        """Number of unknowns, N."""
        return int(self.white.shape[1])

    @property
    def tables_bytes(self) -> int:
        """Bytes of what all voxels share."""
        return self.white.nbytes + 2 * self.normals.nbytes + self.back.nbytes


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
