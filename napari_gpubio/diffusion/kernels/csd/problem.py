"""Constrained spherical deconvolution as repeated least squares, the same for both backends."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.rows import row_sums
from napari_gpubio.diffusion.fods.harmonics import (
    coefficient_count,
    constraint_rows,
    convolution_factors,
    harmonics,
    lmax_within,
    orders,
)
from napari_gpubio.diffusion.fods.settings import CsdSettings
from napari_gpubio.diffusion.kernels.deconvolutions import Deconvolution

Array = npt.NDArray[Any]
_NORM = 2e-4  # of the first diagonal entry: weight of the norm
_PENALTY = 50.0  # of the response's first coefficient, shared out among the directions: weight of the constraint
_START_RIDGE = 1e-2  # added to the diagonal of the basis in the first estimate
_START_LMAX = 4  # of the first estimate nothing beyond is kept
MAX_OVERSAMPLING = 2  # coefficients that may be asked for by each direction


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CsdProblem(Deconvolution):
    """What every voxel shares, and the signals.

    The FOD f of a voxel with signals s is the fixed point of: A = the directions in which H f < 0; f = the solution of
    ``(P + sum over A of h h^T) f = X^T s``, with the rows h of H (Tournier et al. 2007). It starts from a linear
    estimate of low order. Weights, norm term and start are those of MRtrix's dwi2fod.

    Parameters
    ----------
    signals
        Of one shell, shape (M, V), float32: M voxels, V directions.
    forward
        X: signals of each coefficient, shape (V, N).
    gram
        P: X^T X and the norm term, shape (N, N).
    penalty
        H, shape (K, N).
    start
        Coefficients of the first estimate from signals, shape (N4, V).
    iterations
        Most of them.
    """

    counts: ClassVar[Any] = np.uint8  # of iterations
    forward: Array
    gram: Array
    penalty: Array
    start: Array
    iterations: int

    @property
    def real(self) -> np.dtype[Any]:
        """Floating-point type of the deconvolution."""
        return np.dtype(self.forward.dtype)

    @property
    def coefficients(self) -> int:
        """Number of unknowns, N."""
        return int(self.forward.shape[1])

    @property
    def tables_bytes(self) -> int:
        """Bytes of what all voxels share."""
        return sum(each.nbytes for each in (self.forward, self.gram, self.full, self.start)) + 2 * self.penalty.nbytes

    @property
    def full(self) -> Array:
        """P with every direction's penalty, shape (N, N)."""
        wide = self.penalty.astype(np.float64)
        return np.asarray(self.gram + wide.T @ wide, self.real)


def csd_problem(signals: Array, directions: Array, response: npt.ArrayLike, settings: CsdSettings) -> CsdProblem:
    """Set the problem up.

    Parameters
    ----------
    signals
        Shape (M, V).
    directions
        Unit gradient directions in world axes, shape (V, 3).
    response
        Zonal coefficients ``r_0, r_2, ...`` of a single fiber along z for this shell.
    settings
        Order, weights and iterations.

    Raises
    ------
    InvalidInput
        If there are too few directions for the order, or the response is of another kind of signal.
    """
    lmax, zonal = settings.order, np.asarray(response, np.float64)
    check_directions(directions, lmax)
    _check_response(zonal, signals)
    factors = np.zeros(lmax // 2 + 1)
    known = convolution_factors(zonal)[: len(factors)]
    factors[: len(known)] = known
    forward = harmonics(directions, lmax) * factors[orders(lmax)[:, 0] // 2]
    gram = forward.T @ forward
    gram += np.eye(len(gram)) * (settings.norm_lambda * _NORM * gram[0, 0])
    rows = settings.constraint_directions
    penalty = constraint_rows(rows, lmax) * (settings.neg_lambda * _PENALTY * zonal[0] / rows)
    real = np.float64 if settings.precision == "double" else np.float32
    return CsdProblem(
        signals=np.ascontiguousarray(signals, np.float32),
        forward=np.ascontiguousarray(forward, real),
        gram=np.ascontiguousarray(gram, real),
        penalty=np.ascontiguousarray(penalty, real),
        start=np.ascontiguousarray(_first_estimate(directions, factors, len(zonal), lmax), real),
        iterations=settings.iterations,
    )


def _first_estimate(directions: Array, factors: Array, known: int, lmax: int) -> Array:
    """Linear estimate of the order that response, directions and settings allow, of which the low orders are kept."""
    order = min(2 * known - 2, lmax_within(len(directions)), lmax)
    plain = harmonics(directions, order)
    np.fill_diagonal(plain, plain.diagonal() + _START_RIDGE)
    kept = coefficient_count(min(order, _START_LMAX))
    inverse = np.linalg.pinv(plain)[:kept]
    return np.asarray(inverse / factors[orders(order)[:kept, 0] // 2][:, np.newaxis])


def largest_lmax(directions: int) -> int:
    """Largest order that so many directions allow, with super-resolution."""
    return lmax_within(MAX_OVERSAMPLING * directions)


def check_directions(directions: Array, lmax: int) -> None:
    """Raise InvalidInput unless there are enough directions for an order, with super-resolution."""
    count = len(directions)
    fits = largest_lmax(count)
    if lmax > fits:
        raise InvalidInput(
            f"lmax {lmax} has {coefficient_count(lmax)} coefficients, too many for {count} directions; "
            + (f"choose lmax {fits} or less" if fits >= 2 else "a deconvolution needs at least 3")
        )


def _check_response(zonal: Array, signals: Array) -> None:
    """Whether a response can be of this scan: its mean signal is that of white matter, the largest one is not."""
    if zonal.ndim != 1 or len(zonal) < 2 or not np.isfinite(zonal).all() or not zonal[0] > 0 > zonal[1]:
        raise InvalidInput(
            f"the response has the coefficients {zonal.tolist()}; that of a single fiber begins with a positive number "
            "and a negative one"
        )
    mean = zonal[0] / np.sqrt(4.0 * np.pi)
    typical = float(np.median(row_sums(signals))) / signals.shape[1] if len(signals) else mean
    if not 0.05 < mean / max(typical, 1e-30) < 20.0:
        raise InvalidInput(
            f"the response has a mean signal of {mean:g} and the scan one of {typical:g}; it is of another scan: "
            "estimate it from this one"
        )
