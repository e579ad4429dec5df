"""The tensor fit as a linear problem, the same for both backends."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.diffusion.tensors.settings import FitSettings, WeightedLeastSquares

Array = npt.NDArray[Any]
UPLOAD_BYTES = 8 << 20  # of signals that a GPU turns round at a time
_LARGEST_CONDITION = 100.0  # of the matrix with columns of length 1; 8 to 20 with b = 0 and 1000, 50 with 950 and 1050


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class FitProblem(Problem):
    """Log-linear least squares of seven unknowns in every voxel.

    Parameters
    ----------
    signals
        Shape (M, N), float32: M voxels, N volumes.
    design
        Shape (N, 7): xx, yy, zz, xy, xz, yz of -b g g^T (off-diagonals doubled, b in ms/um^2), and 1 for ln S0
        (Basser, Mattiello and Le Bihan 1994).
    solver
        Its pseudo-inverse, shape (7, N), for ordinary least squares.
    weighted
        Weighted or ordinary least squares.
    iterations
        Number of reweightings after the first weighted fit.
    """

    work = "the tensor fit"
    signals: npt.NDArray[np.float32]
    design: npt.NDArray[np.float64]
    solver: npt.NDArray[np.float64]
    weighted: bool
    iterations: int

    @property
    def items(self) -> int:
        """Number of voxels."""
        return len(self.signals)

    @property
    def rounds(self) -> int:
        """Number of weighted fits after the ordinary one."""
        return self.iterations + 1 if self.weighted else 0

    @property
    def rows_at_once(self) -> int:
        """Voxels whose signals a GPU turns round at a time."""
        return max(1, UPLOAD_BYTES // (4 * len(self.design)))

    def memory(self, device: Device) -> Memory:
        """Signals, and of each voxel seven coefficients and whether its signals were raised; see `UPLOAD_BYTES`."""
        count, each = self.signals.shape[0], 4 * self.signals.shape[1]
        inputs = each * count + self.design.nbytes + self.solver.nbytes
        fitting = Memory(inputs=inputs, results=57 * count)
        if not device.is_gpu:
            return fitting
        return fuller(Memory(inputs=each * count, scratch=each * min(count, self.rows_at_once)), fitting)


class Fitted(NamedTuple):
    """Coefficients (M, 7) in double precision, NaN where not fitted, and which voxels had low signals, (M,)."""

    coefficients: npt.NDArray[np.float64]
    raised: npt.NDArray[np.bool_]

    def merge(self, other: "Fitted", problem: FitProblem) -> None:
        """Take over the voxels of another device: each was fitted on one of them."""
        theirs = np.isfinite(other.coefficients[:, 0])
        self.coefficients[theirs], self.raised[theirs] = other.coefficients[theirs], other.raised[theirs]


def design_matrix(bvals: Array, directions: Array) -> npt.NDArray[np.float64]:
    """Return the matrix of the log-linear tensor model, shape (N, 7); b in s/mm^2, unit directions in world axes."""
    b = np.asarray(bvals, np.float64) * 1e-3
    x, y, z = np.asarray(directions, np.float64).T
    columns = [-b * x * x, -b * y * y, -b * z * z, -2 * b * x * y, -2 * b * x * z, -2 * b * y * z, np.ones_like(b)]
    return np.ascontiguousarray(np.stack(columns, axis=1))


def fit_problem(signals: Array, bvals: Array, directions: Array, settings: FitSettings) -> FitProblem:
    """Set the problem up for signals of shape (M, N); InvalidInput if the gradient table cannot determine a tensor.

    Without a second b-value only rounding tells the mean diffusivity from the signal at b = 0.
    """
    design = design_matrix(bvals, directions)
    if (rank := int(np.linalg.matrix_rank(design))) < 7:
        raise InvalidInput(
            f"{len(bvals)} volumes with b-values {sorted({int(b) for b in bvals})} determine {rank} of the 7 unknowns "
            "of a tensor; use at least 6 different directions and a second b-value (b = 0, for instance)"
        )
    if (condition := float(np.linalg.cond(design / np.linalg.norm(design, axis=0)))) > _LARGEST_CONDITION:
        raise InvalidInput(
            f"{len(bvals)} volumes with b-values from {min(bvals):.4g} to {max(bvals):.4g} s/mm² hardly determine a "
            f"tensor (condition number {condition:.0f}, at most {_LARGEST_CONDITION:.0f}); use a second "
            "b-value farther away (b = 0, for instance), and directions that are not nearly in one plane"
        )
    return FitProblem(
        signals=np.ascontiguousarray(signals, np.float32),
        design=design,
        solver=np.ascontiguousarray(np.linalg.pinv(design)),
        weighted=isinstance(settings.estimator, WeightedLeastSquares),
        iterations=getattr(settings.estimator, "iterations", 0),
    )
