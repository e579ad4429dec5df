"""What is drawn from in FODs: the residuals of the signals of a shell around a fit by spherical harmonics."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.fods.harmonics import coefficient_count, harmonics, lmax_within
from napari_gpubio.fibers.kernels.bootstrap.problem import SignalDraws

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
USUAL_ORDER = 6  # describes crossings
_LARGEST_ORDER, _MIN_ORDER = 8, 4
_SHARE = 0.6  # of the directions: most coefficients, so that the fit leaves residuals
_MIN_RESIDUALS = 4  # degrees of freedom that orders up to the usual one leave, whatever their share
_MIN_FREEDOM = 0.05  # 1 - h below it: the fit goes through the signal, whose residual tells nothing


class SignalFit(NamedTuple):
    """The linear fit that every voxel shares.

    ``hat``: what makes fitted signals of signals, shape (V, V); ``factors``: ``(1 - h)^-1/2`` with the leverages h, its
    diagonal, shape (V,); ``order``: largest order of its harmonics.
    """

    hat: Floats
    factors: Floats
    order: int


def residual_order(directions: int) -> int:
    """Largest even order, at most 8, that has at most 0.6 coefficients for each direction.

    Orders 4 and 6 are taken already where they leave four degrees of freedom: from 19 and from 32 directions on.
    What a fit cannot describe counts as noise. Of two fibers that cross at 70 degrees, at b = 3000 s/mm^2 and a
    signal-to-noise ratio of 25, a fit of order 4 makes the spread of the main peak 2.5 times too large; one of order 6
    makes it 1.25 times too large with 32 directions and 1.1 times with 45, though it leaves few residuals.
    InvalidInput if there are too few directions even for order 4.
    """
    order = min(lmax_within(int(_SHARE * directions)), _LARGEST_ORDER)
    order = max(order, min(lmax_within(directions - _MIN_RESIDUALS), USUAL_ORDER))
    if order < _MIN_ORDER:
        needed = coefficient_count(_MIN_ORDER)
        raise InvalidInput(
            f"the shell has {directions} directions, which leave too few residuals after a fit of {needed} "
            f"coefficients (order {_MIN_ORDER}); a bootstrap of FODs needs at least {needed + _MIN_RESIDUALS}"
        )
    return order


def signal_fit(directions: Array) -> SignalFit:
    """Least-squares fit of harmonics to the signals of a shell.

    Parameters
    ----------
    directions
        Gradient directions, shape (V, 3).

    Raises
    ------
    InvalidInput
        If there are too few; see `residual_order`.
    """
    order = residual_order(len(directions))
    basis = harmonics(directions, order)
    hat = np.ascontiguousarray(basis @ np.linalg.pinv(basis))
    return SignalFit(hat, np.maximum(1.0 - hat.diagonal(), _MIN_FREEDOM) ** -0.5, order)


def signal_draws(signals: Array, fit: SignalFit, voxels: Array, seed: int) -> SignalDraws:
    """Fit the signals of a shell, and return what repeats are drawn from.

    The residual bootstrap adds residuals ``e (1 - h)^-1/2``, less their mean, of the same voxel, drawn with
    replacement, to the fitted signals (Davison and Hinkley 1997, section 6.2; Berman et al. 2008 and Jeurissen et al.
    2011 for fibers). It takes the noise to be the same in all directions of a voxel.

    Parameters
    ----------
    signals
        Shape (M, V), float32.
    fit
        Of the V directions.
    voxels
        Numbers of the voxels in the whole volume, shape (M,), uint32.
    seed
        Of the random numbers.
    """
    from napari_gpubio.fibers.kernels.bootstrap.signals import fit_signals

    fitted, residuals = fit_signals(signals, fit.hat, fit.factors)
    return SignalDraws(fitted, residuals, voxels, np.uint64(seed))
