"""Multi-exposure fits, and the static fraction from single exposures."""

import dataclasses
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.core.timing import RunClock
from napari_gpubio.speckle.mesi.model import MesiResult, MesiSettings
from napari_gpubio.speckle.model import FrameStack

Array = npt.NDArray[Any]
_CHUNK = 4096  # pixels between checks of the stop event
_LEAST_PIXELS = 64  # of a block, which then takes some ms


def fit_mesi(
    contrast: npt.ArrayLike,
    exposures_ms: npt.ArrayLike,
    settings: MesiSettings | None = None,
    *,
    progress: Callable[[Step], object] | None = None,
) -> MesiResult:
    """Fit multi-exposure contrast; see `fit_mesi_steps` for the arguments."""
    return drive(fit_mesi_steps(contrast, exposures_ms, settings), progress)


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

    settings, clock = settings or MesiSettings(), RunClock()
    maps, exposures = _checked(contrast, exposures_ms, settings)
    pixels = np.ascontiguousarray(maps.reshape(len(maps), -1).T)
    free = np.array([settings.fit_rho, True, settings.fit_noise, settings.fit_beta])
    model = mesi.make_model(exposures, settings.power, free, settings.beta)
    found, cost = np.full((len(pixels), mesi.PARAMETERS), np.nan), np.full(len(pixels), np.nan)
    done = 0
    while done < len(pixels) and not (stop is not None and stop.is_set()):
        part = slice(done, min(done + _CHUNK, len(pixels)))
        _fit(pixels[part], model, found[part], cost[part])
        done = part.stop
        yield Step(done, len(pixels), "multi-exposure fit")

    def shaped(values: Array) -> Array:
        return values.reshape(maps.shape[1:]).astype(np.float32)

    return MesiResult(
        tau_ms=shaped(np.exp(found[:, mesi.TAU])),
        rho=shaped(found[:, mesi.RHO]),
        beta=shaped(np.exp(found[:, mesi.BETA])),
        noise=shaped(found[:, mesi.NOISE]),
        residual=shaped(np.sqrt(cost / len(exposures))),
        parameters={
            "software": f"napari-gpubio {__version__}",
            "mesi": dataclasses.asdict(settings),
            "exposures_ms": exposures.tolist(),
            "seconds": round(clock.seconds, 4),
        },
        complete=done == len(pixels),
    )


def _fit(pixels: Array, model: Any, parameters: Array, cost: Array) -> None:
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.speckle.kernels import mesi

    def fit(start: int, stop: int) -> None:
        mesi.fit_pixels(start, stop, model, pixels, mesi.make_work(), parameters, cost)

    run_blocks(fit, len(pixels), least=_LEAST_PIXELS)


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
