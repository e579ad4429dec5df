"""Fits of multi-exposure contrast, pixel by pixel (Numba).

K²(T) = β (ρ² B(2^(1/n) x) + 2ρ(1-ρ) B(x) + (1-ρ)²) + ν with x = T/τ and
B(y) = 2 ∫₀¹ (1-u) exp(-(yu)ⁿ) du, for the decays n = 1, 2 and 1/2 (Parthasarathy et al. 2008, eq. 11, and Kazmi et al.
2015, eq. 3, for n = 1). With C(y) = ∫₀¹ exp(-(yu)ⁿ) du, dB/d(ln y) = 2(C - B).

Levenberg and Marquardt's method on relative differences of K, with the parameters ρ in [0, 1], ln τ, ν >= 0 and
ln β <= 0. A parameter at its limit that would leave it stays fixed for that step.

Standard errors are square roots of the diagonal of (JᵀJ)⁻¹ s², with the Jacobian J of the relative differences and
their variance s²: stated, or the sum of squares over the degrees of freedom (the covariance of nonlinear least squares;
Seber and Wild 1989, section 5.2). A β that is not fitted but measured, with the error e of ln β, adds v vᵀ e², where
v = (JᵀJ)⁻¹ Jᵀ j is the change of the fit with ln β, and j the derivative of the differences by it. Limits are ignored
here, so the errors of a fit at a limit are too large rather than too small.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel, leaf

Array = npt.NDArray[Any]
PARAMETERS = 4
RHO, TAU, NOISE, BETA = range(PARAMETERS)
CORRELATION = PARAMETERS  # of ρ and ln β where both are fitted, behind the errors
_MAX_STEPS, _MIN_CHANGE = 200, 1e-12
_MIN_DAMPING, _MAX_DAMPING = 1e-12, 1e12
_MARGIN = np.log(1e4)  # by how much τ may lie beyond the exposures
_SERIES_BELOW, _TERMS = 0.3, 16  # of yⁿ, where the closed forms lose digits


class Model(NamedTuple):
    """What pixels have in common: exposures (ms), n of the decay, which parameters are fitted and their limits.

    A fit starts at the best of ``starts`` (τ in ms) combined with ``start_fractions`` (ρ), with the largest K² as β.
    ``noise_error`` and ``beta_error`` are the standard errors of ln K, 0 where it is unknown, and of a fixed ln β.
    """

    exposures: Array
    power: float
    free: Array
    fixed: Array
    low: Array
    high: Array
    starts: Array
    start_fractions: Array
    noise_error: float
    beta_error: float


class Work(NamedTuple):
    """Scratch of one call of `fit_pixels`: normal equations, (4, 4) and (4,), and vectors of parameters, (3, 4)."""

    matrix: Array
    damped: Array
    vector: Array
    rows: Array


def make_model(
    exposures: Array, power: float, free: Array, beta: float, noise_error: float = 0.0, beta_error: float = 0.0
) -> Model:
    """Return a model with limits and starts that suit the exposures; ``beta`` has no meaning where it is fitted."""
    least, most = float(np.log(exposures.min())), float(np.log(exposures.max()))
    return Model(
        exposures,
        float(power),
        free,
        fixed=np.array([1.0, 0.0, 0.0, np.log(beta)]),
        low=np.array([0.0, least - _MARGIN, 0.0, np.log(1e-6)]),
        high=np.array([1.0, most + _MARGIN, 1.0, 0.0]),
        starts=np.exp(np.linspace(least - np.log(30.0), most + np.log(3.0), 20)),
        start_fractions=np.array([1.0, 0.7, 0.4]),
        noise_error=float(noise_error),
        beta_error=float(beta_error),
    )


def make_work() -> Work:
    """Allocate scratch."""
    n = PARAMETERS
    return Work(np.empty((n, n)), np.empty((n, n)), np.empty(n), np.empty((3, n)))


@kernel
def fill_averages(start: int, stop: int, y: Array, power: float, b: Array, c: Array) -> None:
    """Fill B and C."""
    for i in range(start, stop):
        b[i], c[i] = _averages(y[i], power)


@helper
def _averages(y: float, power: float) -> tuple[float, float]:
    """Return B and C."""
    s = y if power == 1.0 else (y * y if power == 2.0 else math.sqrt(y))
    if s < _SERIES_BELOW:
        b, c, term = 0.0, 0.0, 1.0
        for k in range(_TERMS):
            c += term / (power * k + 1.0)
            b += 2.0 * term / ((power * k + 1.0) * (power * k + 2.0))
            term *= -s / (k + 1.0)
        return b, c
    decay = math.exp(-s)
    if power == 1.0:
        return 2.0 * (decay - 1.0 + y) / (y * y), (1.0 - decay) / y
    if power == 2.0:
        error = math.sqrt(math.pi) * math.erf(y)
        return (decay - 1.0 + y * error) / s, 0.5 * error / y
    inner = decay * (2.0 * y + 6.0 * s + 6.0) - 6.0 + y
    return 4.0 * inner / (y * y), 2.0 * (1.0 - decay * (1.0 + s)) / y


@helper
def _cost(model: Model, contrast: Array, t: Array, gradient: Array, work: Work, equations: int) -> float:
    """Return the sum of squared relative differences of K; unless ``equations`` is 0, set up the normal ones."""
    matrix, vector, total = work.matrix, work.vector, 0.0
    if equations:
        for a in range(PARAMETERS):
            vector[a] = 0.0
            for b in range(PARAMETERS):
                matrix[a, b] = 0.0
    for i in range(contrast.size):
        x, rho, beta = model.exposures[i] / np.exp(t[TAU]), t[RHO], np.exp(t[BETA])
        fast, fast_change = _averages(2.0 ** (1.0 / model.power) * x, model.power)
        slow, slow_change = _averages(x, model.power)
        moving, mixed = rho * rho, 2.0 * rho * (1.0 - rho)
        shape = moving * fast + mixed * slow + (1.0 - rho) * (1.0 - rho)
        k = np.sqrt(beta * shape + t[NOISE])
        residual = k / contrast[i] - 1.0
        total += residual * residual
        if equations:
            gradient[RHO] = beta * (2.0 * rho * fast + (2.0 - 4.0 * rho) * slow - 2.0 * (1.0 - rho))
            gradient[TAU] = -2.0 * beta * (moving * (fast_change - fast) + mixed * (slow_change - slow))
            gradient[NOISE] = 1.0
            gradient[BETA] = beta * shape
            for a in range(PARAMETERS):
                slope = 0.5 * gradient[a] / (k * contrast[i])
                vector[a] -= slope * residual
                for b in range(PARAMETERS):
                    matrix[a, b] += slope * 0.5 * gradient[b] / (k * contrast[i])
    return total


@leaf
def _fix(model: Model, t: Array, matrix: Array, vector: Array) -> None:
    """Take out of the equations what is not fitted, and what would leave its limits."""
    for a in range(PARAMETERS):
        leaves = (t[a] <= model.low[a] and vector[a] < 0.0) or (t[a] >= model.high[a] and vector[a] > 0.0)
        if leaves or not model.free[a]:
            vector[a] = 0.0
            for b in range(PARAMETERS):
                matrix[a, b] = matrix[b, a] = 0.0
            matrix[a, a] = 1.0


@leaf
def _solve(work: Work, damping: float, step: Array) -> None:
    """Solve the damped equations by Gauss' elimination; they are symmetric and positive."""
    matrix, damped = work.matrix, work.damped
    for a in range(PARAMETERS):
        for b in range(PARAMETERS):
            damped[a, b] = matrix[a, b]
    for a in range(PARAMETERS):
        damped[a, a] += damping * matrix[a, a] + 1e-300
        step[a] = work.vector[a]
    for a in range(PARAMETERS):
        for b in range(a + 1, PARAMETERS):
            factor = damped[b, a] / damped[a, a]
            step[b] -= factor * step[a]
            for c in range(a, PARAMETERS):
                damped[b, c] -= factor * damped[a, c]
    for a in range(PARAMETERS - 1, -1, -1):
        for c in range(a + 1, PARAMETERS):
            step[a] -= damped[a, c] * step[c]
        step[a] /= damped[a, a]


@leaf
def _start_beta(model: Model, contrast: Array) -> float:
    """Return the logarithm of the largest K², within the limits of β."""
    largest = 0.0
    for e in range(contrast.size):
        largest = max(largest, contrast[e])
    return min(max(2.0 * np.log(largest), model.low[BETA]), model.high[BETA])


@helper
def _fill_errors(model: Model, contrast: Array, t: Array, work: Work, cost: float, errors: Array) -> None:
    """Fill the standard errors of the parameters, 0 of those that are exact, and the correlation of ρ and ln β."""
    matrix, column, with_beta, fitted = work.matrix, work.rows[0], work.rows[2], 0
    _cost(model, contrast, t, with_beta, work, 1)
    for a in range(PARAMETERS):  # before the row of a fixed β is taken out
        with_beta[a] = matrix[a, BETA]
    for a in range(PARAMETERS):
        fitted += 1 if model.free[a] else 0
        for b in range(PARAMETERS):
            if not (model.free[a] and model.free[b]):
                matrix[a, b] = 1.0 if a == b else 0.0
    variance = model.noise_error * model.noise_error
    if variance == 0.0:
        variance = cost / max(contrast.size - fitted, 1)
    shared = 0.0
    for a in range(PARAMETERS + 1):  # columns of the inverse, then the change of the fit with ln β
        for b in range(PARAMETERS):
            unit = 1.0 if a == b else 0.0
            work.vector[b] = unit if a < PARAMETERS else (with_beta[b] if model.free[b] else 0.0)
        _solve(work, 0.0, column)
        if a < PARAMETERS:
            if a == BETA and model.free[BETA]:
                shared = column[RHO] / math.sqrt(column[BETA] * errors[RHO])
            errors[a] = column[a] if model.free[a] else 0.0
    for a in range(PARAMETERS):
        change = 0.0 if model.free[BETA] else model.beta_error * (1.0 if a == BETA else column[a])
        total = errors[a] * variance + change * change
        errors[a] = math.sqrt(total) if total >= 0.0 else np.inf  # below 0 only where rounding is all that is left
    errors[CORRELATION] = shared


@kernel
def fit_pixels(
    start: int,
    stop: int,
    model: Model,
    contrast: Array,
    work: Work,
    parameters: Array,
    residuals: Array,
    errors: Array,
) -> None:
    """Fit pixels.

    Parameters
    ----------
    contrast
        K, shape (pixels, exposures); pixels with a value that is not positive and finite become NaN.
    parameters, residuals, errors
        Are filled: shape (pixels, 4), the sum of squared relative differences of K, and shape (pixels, 5): standard
        errors, then the correlation of ρ and ln β.
    """
    step, trial, gradient = work.rows[0], work.rows[1], work.rows[2]
    for i in range(start, stop):
        k, t = contrast[i], parameters[i]
        usable = True
        for e in range(k.size):
            usable = usable and 0.0 < k[e] < np.inf
        for a in range(PARAMETERS):
            t[a] = trial[a] = model.fixed[a] if usable else np.nan
        residuals[i] = np.nan
        for a in range(PARAMETERS + 1):
            errors[i, a] = np.nan
        if not usable:
            continue
        if model.free[BETA]:
            t[BETA] = trial[BETA] = _start_beta(model, k)
        # begin from the best of the starts
        cost = np.inf
        for n in range(model.starts.size * model.start_fractions.size):
            trial[TAU] = np.log(model.starts[n // model.start_fractions.size])
            if model.free[RHO]:
                trial[RHO] = model.start_fractions[n % model.start_fractions.size]
            found = _cost(model, k, trial, gradient, work, 0)
            if found < cost:
                cost = found
                for a in range(PARAMETERS):
                    t[a] = trial[a]
        damping = 1e-3
        for _ in range(_MAX_STEPS):
            _cost(model, k, t, gradient, work, 1)
            _fix(model, t, work.matrix, work.vector)
            before = cost
            while damping < _MAX_DAMPING:
                _solve(work, damping, step)
                for a in range(PARAMETERS):
                    trial[a] = min(max(t[a] + step[a], model.low[a]), model.high[a])
                found = _cost(model, k, trial, gradient, work, 0)
                if found < cost:
                    cost, damping = found, max(damping / 5.0, _MIN_DAMPING)
                    for a in range(PARAMETERS):
                        t[a] = trial[a]
                    break
                damping *= 4.0
            if damping >= _MAX_DAMPING or before - cost < _MIN_CHANGE * before or cost < 1e-28:
                break
        residuals[i] = cost
        _fill_errors(model, k, t, work, cost, errors[i])
