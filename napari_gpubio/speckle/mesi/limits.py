"""What a multi-exposure fit cannot tell: bits of its mask, and notes with shares of the pixels."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.mesi.model import MesiSettings
from napari_gpubio.speckle.mesi.result import AT_LIMIT, DEGENERATE, LONG_TAU, SHORT_TAU, UNCERTAIN, Array

if TYPE_CHECKING:
    from napari_gpubio.speckle.kernels.mesi import Model

LONGEST, SHORTEST = 3.0, 2.0  # τ, that the longest exposure should have at least, and the shortest at most
MOST_TAU_ERROR = 0.25  # relative
_CORRELATED, _LARGE_ERROR = 0.95, 0.1  # of ρ and ln β: more than these are degenerate
_LEAST_SHARE = 0.01  # of the pixels, that is noted
_BY_CHANCE = 1e-3  # probability that a β counts as contradicted and is right
_CONTRADICTED = 0.25  # share of the pixels whose data contradict a β that is wrong
_MOST_VARIANCE = 2.0  # of the residuals, times the stated one
_NEAR = 1e-9  # of a limit


def mask_pixels(found: Array, errors: Array, model: "Model") -> npt.NDArray[np.uint8]:
    """Return the bits of pixels, as named in `napari_gpubio.speckle.mesi.result.NAMES`; 0 where there was no fit.

    Parameters
    ----------
    found, errors
        As filled by `napari_gpubio.speckle.kernels.mesi.fit_pixels`.
    model
        The model.
    """
    from napari_gpubio.speckle.kernels import mesi

    tau = np.exp(found[:, mesi.TAU])
    low, high = found <= model.low + _NEAR, found >= model.high - _NEAR
    conditions = {
        LONG_TAU: model.free[mesi.RHO] & (model.exposures.max() < LONGEST * tau),
        SHORT_TAU: model.exposures.min() > SHORTEST * tau,
        AT_LIMIT: low[:, mesi.RHO] | low[:, mesi.TAU] | high[:, mesi.TAU],
        UNCERTAIN: errors[:, mesi.TAU] > MOST_TAU_ERROR,
    }
    if model.free[mesi.BETA]:
        conditions[AT_LIMIT] |= low[:, mesi.BETA] | high[:, mesi.BETA]
        large = np.maximum(errors[:, mesi.RHO], errors[:, mesi.BETA]) > _LARGE_ERROR
        correlated = ~(np.abs(errors[:, mesi.CORRELATION]) <= _CORRELATED)  # NaN where no equation is left
        conditions[DEGENERATE] = model.free[mesi.RHO] & large & correlated
    fitted = np.isfinite(tau)
    mask = np.zeros(len(found), np.uint8)
    for bit, where in conditions.items():
        mask |= np.where(fitted & where, np.uint8(bit), np.uint8(0))
    return mask


def limit_notes(
    mask: npt.NDArray[np.uint8], fitted: npt.NDArray[np.bool_], exposures: Array, settings: MesiSettings
) -> list[str]:
    """Return notes on the pixels with a bit of the mask, with their share of those that were fitted."""
    measure = "measure β on a static target"
    if settings.fit_noise:
        separate = f"fit no noise term, or {measure}"
    else:
        separate = f"add exposures shorter than τ and longer than 3 τ, or {measure}"
    shorter = f", or {measure}" if settings.fit_beta else ", and look whether β is right"
    fitted_too = [name for name, free in (("ρ", settings.fit_rho), ("β", settings.fit_beta)) if free]
    texts = {
        LONG_TAU: f"τ is longer than a third of the longest exposure ({exposures.max():g} ms), so τ and ρ are hardly "
        "known; add longer exposures",
        SHORT_TAU: f"τ is shorter than half of the shortest exposure ({exposures.min():g} ms), so "
        f"{'τ and β are' if settings.fit_beta else 'τ is'} hardly known; add shorter exposures{shorter}",
        DEGENERATE: f"ρ and β are known together rather than each; {separate}",
        AT_LIMIT: f"{' or '.join([*fitted_too, 'τ'])} is at a limit of the fit, and its error is that without the limit",
        UNCERTAIN: f"the standard error of τ is more than {100 * MOST_TAU_ERROR:g} % of it; use more frames or a "
        "larger window",
    }
    total, notes = int(np.count_nonzero(fitted)), []
    for bit, text in texts.items():
        count = int(np.count_nonzero(mask & bit))
        if total and count >= _LEAST_SHARE * total:
            notes.append(f"in {100 * count / total:.3g} % of the fitted pixels {text}")
    return notes


def residual_notes(cost: Array, freedom: int, stated: float) -> list[str]:
    """Return a note if sums of squares of relative differences of K exceed what the stated error of K explains."""
    known = cost[np.isfinite(cost)]
    if not stated or not known.size:
        return []
    found = float(np.sqrt(np.median(known) / freedom))
    if found <= np.sqrt(_MOST_VARIANCE) * stated:
        return []
    return [
        f"residuals of K are {100 * found:.2g} % where an error of {100 * stated:.2g} % was stated: the model does not "
        "fit, or K is noisier; standard errors are too small"
    ]


def beta_notes(fixed_cost: Array, free_cost: Array, free_beta: Array, freedom: int, beta: float) -> list[str]:
    """Return a note if fits of the same pixels with a free β contradict the β that was given (F-test).

    Parameters
    ----------
    fixed_cost, free_cost
        Sums of squares with the given β and with a fitted one.
    free_beta
        The fitted β.
    freedom
        Degrees of freedom of the fits with a free β.
    beta
        The given β.
    """
    from scipy.special import stdtrit

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (fixed_cost - free_cost) / (free_cost / freedom)
    significant = ratio > stdtrit(freedom, 1.0 - _BY_CHANCE / 2) ** 2
    share = np.count_nonzero(significant) / max(1, np.count_nonzero(np.isfinite(free_cost)))
    if share < _CONTRADICTED:
        return []
    return [
        f"the contrast contradicts β = {beta:g} in {100 * share:.3g} % of the pixels that were tested, where β is fitted "
        f"as {np.median(free_beta[significant]):.2g}: τ and ρ are wrong; let β be fitted, or measure it on a static "
        "target with this window"
    ]
