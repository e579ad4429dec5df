"""A multi-exposure fit of a whole stack: registration, contrast and fit as one run, and its maps as layers."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle import run
from napari_gpubio.speckle.gui.live_layers import limits_of
from napari_gpubio.speckle.gui.offline import Request, registered_frames
from napari_gpubio.speckle.gui.result_layers import show_map
from napari_gpubio.speckle.mesi import MesiResult, fit_mesi_steps
from napari_gpubio.speckle.mesi.model import MesiRecipe, exposure_contrast
from napari_gpubio.speckle.registration import Registered

Array = npt.NDArray[Any]
NOT_SPATIAL = (
    "a multi-exposure fit takes contrast over a square of pixels of each frame, since frames follow each other with "
    "other exposures; choose the mode 'spatial'"
)
_STARTS = "multi-exposure fit (the first on a machine compiles, up to a minute)"
_RANGE = (5.0, 95.0)  # percent of the values, between the limits: some pixels of noisy contrast fit to anything
NOTHING_FITTED = (
    "nothing could be fitted: no pixel has a contrast at every exposure; look whether long exposures are saturated, "
    "or whether more noise is taken off than there is"
)


class MesiMap(NamedTuple):
    """One map of a fit: its part of the result, short name, unit, and limits where they are known."""

    part: str
    title: str
    unit: str = ""
    limits: tuple[float, float] | None = None


MAPS = (
    MesiMap("ict", "MESI 1/τ", "1/s"),
    MesiMap("tau_ms", "MESI τ", "ms"),
    MesiMap("rho", "MESI ρ, moving fraction", limits=(0.0, 1.0)),
    MesiMap("noise", "MESI ν, noise term of K²"),
    MesiMap("beta", "MESI β", limits=(0.0, 1.0)),
    MesiMap("residual", "MESI residual of K"),
)
_FITTED = {"rho": "fit_rho", "noise": "fit_noise", "beta": "fit_beta"}  # maps that are there only where they are free


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class MesiDone:
    """What a fit has made.

    Parameters
    ----------
    request, fit
        What was asked for, and the maps.
    contrast
        K at each exposure, (exposures, Y, X).
    registered
        By how much frames were moved, or None.
    told
        What the maps of contrast say of themselves.
    """

    request: Request
    fit: MesiResult
    contrast: Array
    registered: Registered | None = None
    told: tuple[str, ...] = ()

    @property
    def has_begun(self) -> bool:
        """Whether a pixel was fitted before a stop."""
        return bool(np.isfinite(self.fit.tau_ms).any())

    @property
    def left_out(self) -> int:
        """Pixels within the border that were not fitted."""
        inner = self.request.recipe.settings.window // 2
        tau = self.fit.tau_ms[inner : self.fit.tau_ms.shape[0] - inner, inner : self.fit.tau_ms.shape[1] - inner]
        return int(np.count_nonzero(~np.isfinite(tau)))


def mesi_steps(request: Request, stop: threading.Event) -> Generator[Step, None, MesiDone]:
    """Fit a whole stack; see `MesiRecipe.repeats` and `napari_gpubio.speckle.contrast_steps` for what is refused."""
    recipe, mesi = request.recipe, request.recipe.mesi
    assert mesi is not None
    check(request, mesi)
    return _steps(request, mesi, dataclasses.replace(recipe.settings, index="squared"), stop)


def check(request: Request, mesi: MesiRecipe) -> None:
    """Refuse what cannot be fitted, before anything is run."""
    shape = tuple(request.frames.shape)
    if len(shape) == 2:
        raise InvalidInput("a multi-exposure fit needs several frames and this is a single one; open the whole stack")
    mesi.repeats(int(shape[0]))
    if request.recipe.settings.mode != "spatial":
        raise InvalidInput(NOT_SPATIAL)


def _steps(request: Request, mesi: MesiRecipe, settings: Any, stop: threading.Event) -> Generator[Step, None, MesiDone]:
    recipe = request.recipe
    frames, registered = yield from registered_frames(request, stop)
    maps = yield from run.contrast_steps(frames, settings, noise=recipe.noise, device=recipe.device, stop=stop)
    if registered is not None:
        registered.clear_outside(maps)
    contrast = exposure_contrast(maps, mesi)
    yield Step(0, contrast[0].size, _STARTS)
    fit = yield from fit_mesi_steps(contrast, mesi.exposures_ms, mesi.settings, stop=stop)
    if fit.complete and not np.isfinite(fit.tau_ms).any():
        raise InvalidInput(NOTHING_FITTED)
    return MesiDone(request=request, fit=fit, contrast=contrast, registered=registered, told=maps.notes)


# -- layers -----------------------------------------------------------------------------------------------------------


def shown_maps(mesi: MesiRecipe) -> list[MesiMap]:
    """Return the maps that a fit has something to say in."""
    return [one for one in MAPS if one.part not in _FITTED or getattr(mesi.settings, _FITTED[one.part])]


def show(viewer: Any, done: MesiDone) -> Any:
    """Show the maps as layers, the first of them on top, and return it; ``done.has_begun`` must be so."""
    mesi = done.request.recipe.mesi
    assert mesi is not None
    told = {"exposures_ms": list(mesi.exposures_ms), "order": mesi.order, "parameters": dict(done.fit.parameters)}
    if done.request.recipe.dark:
        told["dark_frames"] = done.request.recipe.dark
    if done.registered is not None:
        told["shifts_pixels"] = done.registered.shifts.tolist()
    chosen = None
    for one in reversed(shown_maps(mesi)):
        title = f"{one.title} ({one.unit})" if one.unit else one.title
        values = np.asarray(getattr(done.fit, one.part))
        more = {"part": f"mesi {one.part}", "title": title, "unit": one.unit, **told}
        chosen = show_map(
            viewer, done.request, values, more, limits=one.limits or limits_of(values, _RANGE),
            is_visible=one is MAPS[0],
        )  # fmt: skip
    return chosen


def notes(done: MesiDone) -> tuple[str, ...]:
    """Say what was not fitted, and which frames were not shifted."""
    told = (*done.told, *(() if done.registered is None else done.registered.notes))
    if not done.fit.complete or not (missed := done.left_out):
        return told
    share = 100 * missed / done.fit.tau_ms.size
    why = "saturated, too dark or below the noise at some exposure"
    if done.registered is not None:
        why += ", or shifted out of the picture"
    return (f"{share:.3g} % of the pixels were not fitted: {why}", *told)
