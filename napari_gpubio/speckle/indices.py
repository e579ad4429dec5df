"""Indices of flow from contrast.

K² = β A(x) with x = T/τ and A(x) = (exp(-2x) - 1 + 2x) / (2x²), for a Lorentzian spectrum seen for the exposure T
(Bandyopadhyay et al. 2005; Boas and Dunn 2010). The speckle flow index 1/(2TK²) (Yang et al. 2011) is the limit of an
older form of the model for fast flow, where it is half of 1/τ. Ratios of flow agree where K is small.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.kernels.visibility import decay_table

Array = npt.NDArray[Any]
LABELS = {
    "sfi": "speckle flow index 1/(2TK²)",
    "squared": "K²",
    "inverse": "1/K²",
    "ict": "inverse correlation time 1/τ",
    "relative": "flow relative to baseline K₀²/K²",
}
_MIN_BLOCK_VALUES = 1 << 12


def speckle_flow_index(k2: npt.ArrayLike, exposure_ms: float) -> Array:
    """Return SFI = 1/(2TK²), 1/s; infinite where K is 0, NaN where K² is negative."""
    _check_exposure(exposure_ms)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (2e-3 * exposure_ms * _not_negative(k2)))


def relative_flow(k2: npt.ArrayLike, baseline_k2: npt.ArrayLike) -> Array:
    """Return F/F₀ = K₀²/K²; average K² before, not the ratio after. NaN where one of them is negative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(_not_negative(baseline_k2) / _not_negative(k2))


def _not_negative(k2: npt.ArrayLike) -> Array:
    """Return K² in double precision, NaN where more noise was subtracted than there is."""
    values = np.asarray(k2, np.float64)
    return np.where(values < 0, np.nan, values)


def visibility(x: npt.ArrayLike) -> Array:
    """Return A(x): K² at β = 1 of flow whose correlation time is the exposure divided by x."""
    from napari_gpubio.speckle.kernels import decay

    return _fill(decay.fill_visibility, np.asarray(x, np.float64)).reshape(np.shape(x))


def expected_k2(x: npt.ArrayLike, steps: int, rho: float = 1.0) -> Array:
    """Return the exact K² of the mean of a number of steps of simulated flow, in a large region without noise.

    The field of a pixel is a complex Gaussian process of first order (`napari_gpubio.speckle.samples.flow_frames`,
    `napari_gpubio.speckle.live.SimulatedCamera`); for many steps K² tends to A(x).

    Parameters
    ----------
    x
        Exposure over correlation time.
    steps
        Number of steps of an exposure.
    rho
        Fraction of light scattered by what moves.
    """
    moving = _step_average(np.exp(-2.0 * np.asarray(x, np.float64) / steps), steps)
    mixed = _step_average(np.exp(-np.asarray(x, np.float64) / steps), steps)
    return np.asarray(rho**2 * moving + 2.0 * rho * (1.0 - rho) * mixed + (1.0 - rho) ** 2)


def _step_average(q: Array, n: int) -> Array:
    """Return the mean of q^|i-j| over all pairs of n steps."""
    return np.asarray((n * (1.0 - q * q) - 2.0 * q * (1.0 - q**n)) / (n * (1.0 - q)) ** 2)


def inverse_correlation_time(k2: npt.ArrayLike, exposure_ms: float, beta: float = 1.0) -> Array:
    """Return 1/τ (1/s) by the full model, solved by Newton's method.

    Parameters
    ----------
    k2
        K², any shape. 0 gives infinity, β or more gives 0, a negative number NaN.
    exposure_ms, beta
        T and β in the model.

    Raises
    ------
    InvalidInput
        If the exposure or β is not positive.
    """
    _check_exposure(exposure_ms)
    if not 0 < beta <= 1:
        raise InvalidInput(f"beta is {beta:g}; it must be above 0 and at most 1")
    from napari_gpubio.speckle.kernels import decay

    x = _fill(decay.invert, np.asarray(k2, np.float64) / beta, decay_table().by_steps)
    return np.asarray(x.reshape(np.shape(k2)) / (1e-3 * exposure_ms))


def _fill(kernel: Callable[..., Any], values: Array, *arguments: Array) -> Array:
    from napari_gpubio.core.jit import run_blocks

    given = np.ascontiguousarray(values.reshape(-1))
    out = np.empty_like(given)
    run_blocks(kernel, given.size, given, *arguments, out, least=_MIN_BLOCK_VALUES)
    return out


def _check_exposure(exposure_ms: float) -> None:
    if not exposure_ms > 0:
        raise InvalidInput(f"exposure_ms is {exposure_ms:g}; give the camera's exposure time, more than 0 ms")
