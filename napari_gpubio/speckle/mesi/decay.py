"""Contrast at any exposure, in closed form.

K²(T) = β (ρ² B(2^(1/n) x) + 2ρ(1-ρ) B(x) + (1-ρ)²) + ν with x = T/τ and
B(y) = 2 ∫₀¹ (1-u) exp(-(yu)ⁿ) du, for the decays n = 1, 2 and 1/2 (Parthasarathy et al. 2008, eq. 11, and Kazmi et al.
2015, eq. 3, for n = 1). With C(y) = ∫₀¹ exp(-(yu)ⁿ) du, dB/d(ln y) = 2(C - B).
"""

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_SERIES_BELOW, _TERMS = 0.3, 16  # of yⁿ, where the closed forms lose digits
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def averages(y: float, power: float) -> tuple[float, float]:
    """Return B and C."""
    s = y if power == 1.0 else (y * y if power == 2.0 else math.sqrt(y))
    if s < _SERIES_BELOW:
        return _series(s, power)
    decay = math.exp(-s)
    if power == 1.0:
        return 2.0 * (decay - 1.0 + y) / (y * y), (1.0 - decay) / y
    if power == 2.0:
        error = math.sqrt(math.pi) * math.erf(y)
        return (decay - 1.0 + y * error) / s, 0.5 * error / y
    inner = decay * (2.0 * y + 6.0 * s + 6.0) - 6.0 + y
    return 4.0 * inner / (y * y), 2.0 * (1.0 - decay * (1.0 + s)) / y


@_jit
def _series(s: float, power: float) -> tuple[float, float]:
    b, c, term = 0.0, 0.0, 1.0
    for k in range(_TERMS):
        c += term / (power * k + 1.0)
        b += 2.0 * term / ((power * k + 1.0) * (power * k + 2.0))
        term *= -s / (k + 1.0)
    return b, c


def squared_contrast(
    exposure_ms: npt.ArrayLike,
    tau_ms: float,
    *,
    power: float = 1.0,
    beta: float = 1.0,
    rho: float = 1.0,
    noise: float = 0.0,
) -> Array:
    """Return K² at exposures (ms).

    Parameters
    ----------
    tau_ms
        Correlation time of the field.
    power
        The decay's n: 1, 2 or 0.5.
    beta, rho, noise
        β, the fraction of light scattered by what moves, and ν.
    """
    x = np.asarray(exposure_ms, np.float64) / tau_ms
    fast = np.array([averages(2.0 ** (1.0 / power) * value, power)[0] for value in x.ravel()]).reshape(x.shape)
    slow = np.array([averages(value, power)[0] for value in x.ravel()]).reshape(x.shape)
    return np.asarray(beta * (rho**2 * fast + 2.0 * rho * (1.0 - rho) * slow + (1.0 - rho) ** 2) + noise)
