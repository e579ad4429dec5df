"""Requests and results of a whole stack: maps of contrast, or a multi-exposure fit."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle import run
from napari_gpubio.speckle.mesi import BetaMeasurement, MesiResult, fit_mesi_steps, measure_beta
from napari_gpubio.speckle.mesi.model import MesiRecipe, exposure_contrast
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.registration import Registered, register_steps
from napari_gpubio.speckle.settings import ContrastSettings, NoiseModel

Array = npt.NDArray[Any]
_SAME_K2 = ("index", "beta", "nonfinite", "mask", "low_signal")  # settings that change no K²
NOT_SPATIAL = (
    "a multi-exposure fit takes contrast over a square of pixels of each frame, since frames follow each other with "
    "other exposures; choose the mode 'spatial'"
)
SINGLE_FRAME = "a multi-exposure fit needs several frames and this is a single one; open the whole stack"
NOTHING_FITTED = (
    "nothing could be fitted: no pixel has a contrast at every exposure; look whether long exposures are saturated, "
    "or whether more noise is subtracted than there is"
)
_FIT_STARTS = "multi-exposure fit (the first on a machine compiles, up to a minute)"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """Frames of a static target that β is measured on, its pixels or None for all, and names of their layers."""

    frames: Any
    name: str
    region: npt.NDArray[np.bool_] | None = None
    region_name: str = ""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Recipe:
    """How maps are made.

    ``dark`` is the name of the layer of dark frames that the noise was measured in; ``target`` is what β of a
    multi-exposure fit is measured on; ``shows_errors`` tells whether that gives layers of standard errors.
    """

    settings: ContrastSettings
    noise: NoiseModel = dataclasses.field(default_factory=NoiseModel)
    registers: bool = False  # whether frames are shifted onto the first one before contrast is computed
    baseline_maps: int = 30
    device: str = "auto"
    dark: str = ""
    mesi: MesiRecipe | None = None
    target: Target | None = None
    shows_errors: bool = False

    def has_same_k2(self, other: "Recipe") -> bool:
        """Whether another recipe gives the same K², so that a baseline may be kept."""
        free = {name: getattr(self.settings, name) for name in _SAME_K2}
        own, others = (_noise_key(recipe.noise) for recipe in (self, other))
        same_frames = self.registers == other.registers and own == others
        return same_frames and dataclasses.replace(other.settings, **free) == self.settings


def _noise_key(noise: NoiseModel) -> tuple[Any, ...]:
    scalars = (noise.dark_adu, noise.gain, noise.read_noise_adu, noise.quantization)
    return (*scalars, id(noise.dark_map), id(noise.variance_map))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """Everything that a run needs, as it was when it began.

    ``frames`` are a frame (Y, X) or a stack (T, Y, X) of any kind; ``name`` and ``place`` (scale, translation, units)
    are those of their layer.

    Raises
    ------
    InvalidInput
        If a fit is requested whose exposures do not belong to the frames, or contrast is not taken of single frames.
    """

    frames: Any
    name: str
    place: dict[str, tuple[Any, ...]]
    recipe: Recipe
    rate_hz: float

    def __post_init__(self) -> None:
        if self.recipe.mesi is None:
            return
        if not self.is_stack:
            raise InvalidInput(SINGLE_FRAME)
        self.recipe.mesi.repeats(int(self.frames.shape[0]))
        if self.recipe.settings.mode != "spatial":
            raise InvalidInput(NOT_SPATIAL)

    @property
    def is_stack(self) -> bool:
        """Whether there are several frames."""
        return len(self.frames.shape) > 2

    @property
    def registers(self) -> bool:
        """Whether frames are shifted onto the first one."""
        return self.recipe.registers and self.is_stack

    @property
    def baseline_frames(self) -> int:
        """Frames that the maps of the baseline are made of, from the first on."""
        s = self.recipe.settings
        count = int(self.frames.shape[0]) if self.is_stack else 1
        return min(count, (self.recipe.baseline_maps - 1) * s.step + s.depth)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StackResult:
    """Maps of contrast of a whole stack, and by how much frames were moved, or None."""

    request: Request
    maps: ContrastMaps
    registered: Registered | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, in sentences."""
        return (*self.maps.notes, *(() if self.registered is None else self.registered.notes))

    @property
    def times_s(self) -> Array:
        """Time of each map: that of the last frame of its window."""
        s = self.request.recipe.settings
        return (np.arange(len(self.maps)) * s.step + s.depth - 1) / self.request.rate_hz


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FitResult:
    """A multi-exposure fit of K at each exposure, (exposures, Y, X), and the maps that this was computed from.

    ``mesi`` is the fit that was requested, with β as it was measured in ``beta``, which is None if it was not.
    """

    request: Request
    mesi: MesiRecipe
    fit: MesiResult
    contrast: Array
    maps: StackResult
    beta: BetaMeasurement | None = None

    @property
    def registered(self) -> Registered | None:
        """By how much frames were moved, or None."""
        return self.maps.registered

    @property
    def has_begun(self) -> bool:
        """Whether a pixel was fitted before a stop."""
        return bool(np.isfinite(self.fit.tau_ms).any())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, in sentences: on β, the pixels within the border that were not fitted, and the maps."""
        return (*self._beta_notes(), *self.fit.notes, *self._missed(), *self.maps.notes)

    def _beta_notes(self) -> tuple[str, ...]:
        target = self.request.recipe.target
        if self.beta is None or target is None:
            return ()
        measured = f"{self.beta.beta:.4g} ± {self.beta.error:.2g}"
        return (f"the static target {target.name!r} gives β = {measured}", *self.beta.notes)

    def _missed(self) -> tuple[str, ...]:
        edge = self.request.recipe.settings.window // 2
        inner = self.fit.tau_ms[edge : self.fit.tau_ms.shape[0] - edge, edge : self.fit.tau_ms.shape[1] - edge]
        missed = int(np.count_nonzero(~np.isfinite(inner)))
        if not self.fit.complete or not missed:
            return ()
        why = "saturated, too dark or below the noise at some exposure"
        if self.registered is not None:
            why += ", or shifted out of the frame"
        return (f"{100 * missed / self.fit.tau_ms.size:.3g} % of the pixels were not fitted: {why}",)


def run_steps(request: Request, stop: threading.Event) -> Generator[Step, None, StackResult | FitResult]:
    """Compute the maps of a whole stack, and the fit of them that the recipe may request."""
    recipe, frames, registered, baseline = request.recipe, request.frames, None, None
    if request.registers:
        registered = yield from register_steps(frames, stop=stop)
        frames = registered.frames
    noise, device = recipe.noise, recipe.device
    if recipe.settings.index == "relative":
        part = frames[: request.baseline_frames] if request.is_stack else frames
        baseline = yield from run.baseline_k2_steps(part, recipe.settings, noise=noise, device=device, stop=stop)
    maps = yield from run.contrast_steps(
        frames, recipe.settings, noise=noise, baseline=baseline, device=device, stop=stop
    )
    if registered is not None:
        registered.clear_outside(maps)
    result = StackResult(request=request, maps=maps, registered=registered)
    return result if recipe.mesi is None else (yield from _fit_steps(result, recipe.mesi, stop))


def _fit_steps(maps: StackResult, mesi: MesiRecipe, stop: threading.Event) -> Generator[Step, None, FitResult]:
    recipe, beta = maps.request.recipe, None
    contrast = exposure_contrast(maps.maps, mesi)
    if recipe.target is not None:
        yield Step(0, contrast[0].size, "β of the static target")
        frames, region = recipe.target.frames, recipe.target.region
        beta = measure_beta(frames, recipe.settings, noise=recipe.noise, region=region, device=recipe.device)
        mesi = dataclasses.replace(mesi, settings=beta.applied_to(mesi.settings))
    yield Step(0, contrast[0].size, _FIT_STARTS)
    fit = yield from fit_mesi_steps(contrast, mesi.exposures_ms, mesi.settings, stop=stop)
    if fit.complete and not np.isfinite(fit.tau_ms).any():
        raise InvalidInput(NOTHING_FITTED)
    return FitResult(request=maps.request, mesi=mesi, fit=fit, contrast=contrast, maps=maps, beta=beta)
