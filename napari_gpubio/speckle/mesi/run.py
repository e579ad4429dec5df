"""Multi-exposure fits, and the static fraction from single exposures."""

import dataclasses
import math
import threading
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.speckle.mesi.model import FittedBeta, GivenBeta, MesiSettings
from napari_gpubio.speckle.mesi.result import MesiResult
from napari_gpubio.speckle.model import FrameStack

Array = npt.NDArray[Any]
_PIXELS_PER_CHECK_OF_STOP = 4096
_TESTED_PIXELS = 1024  # for the β that was given
_MIN_PIXELS = 64  # of a block, which then takes some ms


def fit_mesi_steps(
    contrast: npt.ArrayLike,
    exposures_ms: npt.ArrayLike,
    settings: MesiSettings | None = None,
    *,
    stop: threading.Event | None = None,
) -> Generator[Step, None, MesiResult]:
    """Fit multi-exposure contrast pixel by pixel, step by step.

    Parameters
    ----------
    contrast
        K at each exposure, shape (exposures, ...).
    exposures_ms
        Exposure times.
    settings
        See `MesiSettings`.
    stop
        Set it to stop early; the other pixels are then NaN.

    Raises
    ------
    InvalidInput
        If there are too few exposures, or not one for each map.
    """
    from napari_gpubio.speckle.kernels import mesi
    from napari_gpubio.speckle.mesi.limits import limit_notes, mask_pixels, residual_notes

    settings, clock = settings or MesiSettings(), RunClock()
    maps, exposures = _checked(contrast, exposures_ms, settings)
    pixels = np.ascontiguousarray(maps.reshape(len(maps), -1).T)
    fits, model = _Fits.empty(len(pixels)), _model(exposures, settings)
    done = 0
    while done < len(pixels) and not (stop is not None and stop.is_set()):
        part = slice(done, min(done + _PIXELS_PER_CHECK_OF_STOP, len(pixels)))
        _fit(pixels[part], model, _Fits(*(array[part] for array in fits)))
        done = part.stop
        yield Step(done, len(pixels), "multi-exposure fit")

    found, cost, errors = fits
    freedom = len(exposures) - settings.free
    mask = mask_pixels(found, errors, model)
    tau, beta = np.exp(found[:, mesi.TAU]), np.exp(found[:, mesi.BETA])
    notes = [
        *_beta_notes(pixels, fits, exposures, settings),
        *limit_notes(mask, np.isfinite(tau), exposures, settings),
        *residual_notes(cost, freedom, settings.contrast_error),
    ]

    def shaped(values: Array) -> Array:
        with np.errstate(over="ignore"):  # an error that is larger than any single-precision number is infinite
            return values.reshape(maps.shape[1:]).astype(np.float32)

    return MesiResult(
        tau_ms=shaped(tau),
        rho=shaped(found[:, mesi.RHO]),
        beta=shaped(beta),
        noise=shaped(found[:, mesi.NOISE]),
        tau_error_ms=shaped(tau * errors[:, mesi.TAU]),
        rho_error=shaped(errors[:, mesi.RHO]),
        beta_error=shaped(beta * errors[:, mesi.BETA]),
        noise_error=shaped(errors[:, mesi.NOISE]),
        residual=shaped(np.sqrt(cost / len(exposures))),
        mask=mask.reshape(maps.shape[1:]),
        freedom=math.inf if settings.contrast_error else float(freedom),
        parameters={
            "software": f"napari-gpubio {__version__}",
            "mesi": plain_fields(settings),
            "exposures_ms": exposures.tolist(),
            "seconds": round(clock.seconds, 4),
        },
        notes=tuple(notes),
        complete=done == len(pixels),
    )


fit_mesi = driven(fit_mesi_steps)


class _Fits(NamedTuple):
    """What `fit_pixels` fills."""

    parameters: Array
    cost: Array
    errors: Array

    @classmethod
    def empty(cls, pixels: int) -> "_Fits":
        from napari_gpubio.speckle.kernels import mesi

        shapes = ((pixels, mesi.PARAMETERS), (pixels,), (pixels, mesi.PARAMETERS + 1))
        return cls(*(np.full(shape, np.nan) for shape in shapes))


def _model(exposures: Array, settings: MesiSettings) -> Any:
    from napari_gpubio.speckle.kernels import mesi

    free = np.array([settings.fit_rho, True, settings.fit_noise, settings.fit_beta])
    known = settings.beta if isinstance(settings.beta, GivenBeta) else GivenBeta()
    error = known.static_k2_error / known.static_k2
    return mesi.make_model(exposures, settings.power, free, known.static_k2, settings.contrast_error, error)


def _fit(pixels: Array, model: Any, fits: _Fits) -> None:
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.speckle.kernels import mesi

    def fit(start: int, stop: int) -> None:
        mesi.fit_pixels(start, stop, model, pixels, mesi.make_work(), fits.parameters, fits.cost, fits.errors)

    run_blocks(fit, len(pixels), least=_MIN_PIXELS)


def _beta_notes(pixels: Array, fits: _Fits, exposures: Array, settings: MesiSettings) -> list[str]:
    """Fit β, too, in some of the pixels, and return a note if that contradicts the β that was given."""
    from napari_gpubio.speckle.kernels import mesi
    from napari_gpubio.speckle.mesi.limits import beta_notes

    freedom = len(exposures) - settings.free - 1
    fitted = np.flatnonzero(np.isfinite(fits.cost))
    if isinstance(settings.beta, FittedBeta) or freedom < 1 or not fitted.size:
        return []
    some = fitted[np.linspace(0, fitted.size - 1, min(fitted.size, _TESTED_PIXELS)).round().astype(np.int64)]
    free, model = _Fits.empty(len(some)), _model(exposures, dataclasses.replace(settings, beta=FittedBeta()))
    _fit(pixels[some], model, free)
    known = math.inf if settings.contrast_error else freedom
    found, errors = free.parameters[:, mesi.BETA], free.errors[:, mesi.BETA]
    return beta_notes(found, errors, known, settings.beta.static_k2, settings.beta.static_k2_error)


def _checked(contrast: npt.ArrayLike, exposures_ms: npt.ArrayLike, settings: MesiSettings) -> tuple[Array, Array]:
    maps, exposures = np.asarray(contrast, np.float64), np.asarray(exposures_ms, np.float64)
    if exposures.ndim != 1 or not np.isfinite(exposures).all() or not (exposures > 0).all():
        raise InvalidInput(f"the exposures are {exposures_ms!r}; give positive times in ms, one for each map")
    if maps.ndim < 1 or len(maps) != len(exposures):
        raise InvalidInput(f"there are {len(exposures)} exposures and maps of shape {maps.shape}; give a map for each")
    if len(np.unique(exposures)) <= settings.free:
        raise InvalidInput(
            f"{len(np.unique(exposures))} different exposures cannot determine {settings.free} parameters; use more, "
            "or fit fewer"
        )
    return maps, exposures


def static_fraction(frames: Any, *, beta: float = 1.0, window: int = 7) -> Array:
    """Return the fraction of light scattered by what is at rest, from the covariance of frames.

    (1-ρ)² = (⟨IₜIₜ₊₁⟩ / (⟨Iₜ⟩⟨Iₜ₊₁⟩) - 1)/β over the window and all pairs of successive frames, which must be further
    apart than the correlation time of what moves. Negative values count as zero.

    Parameters
    ----------
    frames
        Stack (T, Y, X) of two frames or more.
    beta
        K² of a static scatterer.
    window
        Edge of the square of pixels.

    Raises
    ------
    InvalidInput
        If there is only one frame, β is out of range, or the window does not fit in a frame.
    """
    from scipy.ndimage import uniform_filter

    stack = FrameStack(frames)
    if stack.count < 2:
        raise InvalidInput("the static fraction needs two frames or more; give a stack")
    if not 0 < beta <= 1:
        raise InvalidInput(f"beta is {beta:g}; it must be above 0 and at most 1")
    if not 1 <= window <= min(stack.shape) or window % 2 == 0:
        raise InvalidInput(f"window is {window} pixels and a frame {stack.shape}; give an odd number that fits in it")
    product = first = second = np.zeros(stack.shape)
    before = stack.load(0, 1)[0].astype(np.float64)
    for n in range(1, stack.count):
        now = stack.load(n, n + 1)[0].astype(np.float64)
        product, first, second = product + before * now, first + before, second + now
        before = now
    pairs = stack.count - 1
    product, first, second = (uniform_filter(array / pairs, window) for array in (product, first, second))
    means = first * second
    excess = np.divide(product, means, out=np.ones_like(means), where=means > 0) - 1.0
    return np.asarray(np.sqrt(np.clip(excess / beta, 0.0, 1.0)), np.float32)
