"""What a multi-exposure fit cannot tell: bits of its mask, and notes with shares of the pixels."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.mesi.model import MesiSettings
from napari_gpubio.speckle.mesi.result import AT_LIMIT, DEGENERATE, LONG_TAU, SHORT_TAU, UNCERTAIN, Array

if TYPE_CHECKING:
    from napari_gpubio.speckle.kernels.mesi import Model

LONGEST, SHORTEST = 3.0, 2.0  # τ, that the longest exposure should have at least, and the shortest at most
MAX_TAU_ERROR = 0.25  # relative
_CORRELATED, _LARGE_ERROR = 0.95, 0.1  # of ρ and ln β: more than these are degenerate
_MIN_NOTED_SHARE = 0.01
_MIN_DEVIATE = 1.0  # standard errors of a pixel, by which a β must be wrong before it counts as contradicted
_BY_CHANCE = 4.0  # the same, over √pixels: less is chance where there are few
_MAX_VARIANCE = 2.0  # of the residuals, times the stated one
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
        UNCERTAIN: errors[:, mesi.TAU] > MAX_TAU_ERROR,
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
    as_beta = "τ and β are poorly determined" if settings.fit_beta else "τ is only as right as the β that was given"
    shorter = f"add shorter exposures{f', or {measure}' if settings.fit_beta else ''}"
    fitted_too = [name for name, free in (("ρ", settings.fit_rho), ("β", settings.fit_beta)) if free]
    texts = {
        LONG_TAU: f"τ is longer than a third of the longest exposure ({exposures.max():g} ms), so τ and ρ are "
        "poorly determined; add longer exposures",
        SHORT_TAU: f"τ is shorter than half of the shortest exposure ({exposures.min():g} ms), so {as_beta}; {shorter}",
        DEGENERATE: f"ρ and β are known together rather than each; {separate}",
        AT_LIMIT: f"{' or '.join([*fitted_too, 'τ'])} is at a limit of the fit; the error is that without the limit",
        UNCERTAIN: f"the standard error of τ is more than {100 * MAX_TAU_ERROR:g} % of it; use more frames or a "
        "larger window",
    }
    total, notes = int(np.count_nonzero(fitted)), []
    for bit, text in texts.items():
        count = int(np.count_nonzero(mask & bit))
        if total and count >= _MIN_NOTED_SHARE * total:
            notes.append(f"in {100 * count / total:.3g} % of the fitted pixels {text}")
    return notes


def residual_notes(cost: Array, freedom: int, stated: float) -> list[str]:
    """Return a note if sums of squares of relative differences of K exceed what the stated error of K explains."""
    known = cost[np.isfinite(cost)]
    if not stated or not known.size:
        return []
    found = float(np.sqrt(np.median(known) / freedom))
    if found <= np.sqrt(_MAX_VARIANCE) * stated:
        return []
    note = (
        f"residuals of K are {100 * found:.2g} % where an error of {100 * stated:.2g} % was stated: the model does not "
        "fit, or K is noisier; standard errors are too small"
    )
    return [note]


def beta_notes(free_log_beta: Array, free_error: Array, freedom: float, beta: float, beta_error: float) -> list[str]:
    """Return a note if fits of some pixels with a free β contradict the β that was given.

    In each pixel, ln β of the free fit less that given, over the standard error of the difference, follows Student's
    distribution if the given β is right, and is turned into a standard normal deviate here. Their median over the image
    is then near 0, with a standard error of 1.25/√pixels.

    Parameters
    ----------
    free_log_beta, free_error
        ln β of fits in which it is free, and its standard error.
    freedom
        Degrees of freedom of these errors.
    beta, beta_error
        The given β, and its standard error.
    """
    from scipy.special import ndtri, stdtr

    known = np.isfinite(free_error)
    if not known.any():
        return []
    excess = free_log_beta[known] - np.log(beta)
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 of data without noise that agree
        deviate = ndtri(stdtr(freedom, np.nan_to_num(excess / np.hypot(free_error[known], beta_error / beta))))
    if abs(np.median(deviate)) <= max(_MIN_DEVIATE, _BY_CHANCE / np.sqrt(deviate.size)):
        return []
    fitted, beyond = np.exp(np.median(free_log_beta[known])), 100 * np.mean(np.abs(deviate) > 1)
    note = (
        f"the contrast contradicts β = {beta:g}, so τ and ρ are wrong: fitted together with them, β is "
        f"{fitted:.2g}, and beyond its standard error from {beta:g} in {beyond:.3g} % of "
        f"{deviate.size} pixels tested; let β be fitted, or measure it on a static target with this window"
    )
    return [note]
