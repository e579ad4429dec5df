"""Fits of multi-exposure contrast, pixel by pixel, on all CPU cores (Numba).

Levenberg and Marquardt's method on relative differences of K, with the parameters ρ in [0, 1], ln τ, ν >= 0 and
ln β <= 0. A parameter at its limit that would leave it rests for that step.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.mesi.decay import averages

Array = npt.NDArray[Any]
PARAMETERS = 4
RHO, TAU, NOISE, BETA = range(PARAMETERS)
_MOST_STEPS, _LEAST_CHANGE = 200, 1e-12
_STARTS = (1.0, 0.7, 0.4)  # of ρ
_LEAST_DAMPING, _MOST_DAMPING = 1e-12, 1e12
_MARGIN = np.log(1e4)  # by how much τ may lie beyond the exposures
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")


class Model(NamedTuple):
    """Exposures (ms), power of the decay, which parameters are free, their limits, and starts of τ (ms)."""

    exposures: Array
    power: float
    free: Array
    low: Array
    high: Array
    starts: Array


def make_model(exposures: Array, power: float, free: Array) -> Model:
    """Return a model with limits and starts that suit the exposures."""
    least, most = float(np.log(exposures.min())), float(np.log(exposures.max()))
    low = np.array([0.0, least - _MARGIN, 0.0, np.log(1e-6)])
    high = np.array([1.0, most + _MARGIN, 1.0, 0.0])
    starts = np.exp(np.linspace(least - np.log(30.0), most + np.log(3.0), 20))
    return Model(exposures, power, free, low, high, starts)


@_jit
def _terms(model: Model, t: Array, i: int, gradient: Array) -> float:
    """K² at an exposure, and how it changes with each parameter."""
    x, rho, beta = model.exposures[i] / np.exp(t[TAU]), t[RHO], np.exp(t[BETA])
    fast, fast_change = averages(2.0 ** (1.0 / model.power) * x, model.power)
    slow, slow_change = averages(x, model.power)
    moving, mixed = rho * rho, 2.0 * rho * (1.0 - rho)
    shape = moving * fast + mixed * slow + (1.0 - rho) * (1.0 - rho)
    gradient[RHO] = beta * (2.0 * rho * fast + (2.0 - 4.0 * rho) * slow - 2.0 * (1.0 - rho))
    gradient[TAU] = -2.0 * beta * (moving * (fast_change - fast) + mixed * (slow_change - slow))
    gradient[NOISE] = 1.0
    gradient[BETA] = beta * shape
    return beta * shape + t[NOISE]


@_jit
def _cost(model: Model, contrast: Array, t: Array, gradient: Array) -> float:
    """Sum of squared relative differences of K."""
    total = 0.0
    for i in range(contrast.size):
        residual = np.sqrt(_terms(model, t, i, gradient)) / contrast[i] - 1.0
        total += residual * residual
    return total


@_jit
def _normal_equations(model: Model, contrast: Array, t: Array, matrix: Array, vector: Array, gradient: Array) -> None:
    matrix[:] = 0.0
    vector[:] = 0.0
    for i in range(contrast.size):
        k = np.sqrt(_terms(model, t, i, gradient))
        residual = k / contrast[i] - 1.0
        for a in range(PARAMETERS):
            slope = 0.5 * gradient[a] / (k * contrast[i])
            vector[a] -= slope * residual
            for b in range(PARAMETERS):
                matrix[a, b] += slope * 0.5 * gradient[b] / (k * contrast[i])


@_jit
def _rest(model: Model, t: Array, matrix: Array, vector: Array) -> None:
    """Take out what is fixed, and what would leave its limits."""
    for a in range(PARAMETERS):
        leaves = (t[a] <= model.low[a] and vector[a] < 0.0) or (t[a] >= model.high[a] and vector[a] > 0.0)
        if leaves or not model.free[a]:
            vector[a] = 0.0
            for b in range(PARAMETERS):
                matrix[a, b] = matrix[b, a] = 0.0
            matrix[a, a] = 1.0


@_jit
def _solve(matrix: Array, vector: Array, damping: float, step: Array) -> None:
    """Solve the damped equations by Gauss' elimination; they are symmetric and positive."""
    work = matrix.copy()
    for a in range(PARAMETERS):
        work[a, a] += damping * matrix[a, a] + 1e-300
        step[a] = vector[a]
    for a in range(PARAMETERS):
        for b in range(a + 1, PARAMETERS):
            factor = work[b, a] / work[a, a]
            step[b] -= factor * step[a]
            for c in range(a, PARAMETERS):
                work[b, c] -= factor * work[a, c]
    for a in range(PARAMETERS - 1, -1, -1):
        for c in range(a + 1, PARAMETERS):
            step[a] -= work[a, c] * step[c]
        step[a] /= work[a, a]


@_jit
def _start(model: Model, contrast: Array, t: Array, gradient: Array) -> float:
    """Put the best of some starts into the parameters; returns its cost."""
    trial, best = t.copy(), np.inf
    for tau in model.starts:
        for rho in _STARTS:
            trial[TAU] = np.log(tau)
            if model.free[RHO]:
                trial[RHO] = rho
            cost = _cost(model, contrast, trial, gradient)
            if cost < best:
                best = cost
                t[:] = trial
    return best


@_jit
def _fit_pixel(model: Model, contrast: Array, t: Array) -> float:
    """Fit one pixel, whose parameters begin with what is fixed; returns the cost."""
    matrix, vector = np.empty((PARAMETERS, PARAMETERS)), np.empty(PARAMETERS)
    step, trial, gradient = np.empty(PARAMETERS), np.empty(PARAMETERS), np.empty(PARAMETERS)
    cost, damping = _start(model, contrast, t, gradient), 1e-3
    for _ in range(_MOST_STEPS):
        _normal_equations(model, contrast, t, matrix, vector, gradient)
        _rest(model, t, matrix, vector)
        before = cost
        while damping < _MOST_DAMPING:
            _solve(matrix, vector, damping, step)
            for a in range(PARAMETERS):
                trial[a] = min(max(t[a] + step[a], model.low[a]), model.high[a])
            found = _cost(model, contrast, trial, gradient)
            if found < cost:
                cost, damping = found, max(damping / 5.0, _LEAST_DAMPING)
                t[:] = trial
                break
            damping *= 4.0
        if damping >= _MOST_DAMPING or before - cost < _LEAST_CHANGE * before or cost < 1e-28:
            break
    return cost


@nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def fit_pixels(model: Model, contrast: Array, fixed: Array, parameters: Array, cost: Array) -> None:
    """Fit many pixels.

    Parameters
    ----------
    contrast
        K, shape (pixels, exposures); pixels with a value that is not positive are left NaN.
    fixed
        Parameters before the fit.
    parameters, cost
        Are filled: shape (pixels, 4), and the sum of squared relative differences of K.
    """
    for i in nb.prange(contrast.shape[0]):
        if not (contrast[i] > 0.0).all() or not np.isfinite(contrast[i]).all():
            parameters[i] = np.nan
            cost[i] = np.nan
        else:
            parameters[i] = fixed
            cost[i] = _fit_pixel(model, contrast[i], parameters[i])
