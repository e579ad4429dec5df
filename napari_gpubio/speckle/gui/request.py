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
from napari_gpubio.speckle.mesi import MesiResult, fit_mesi_steps
from napari_gpubio.speckle.mesi.model import MesiRecipe, exposure_contrast
from napari_gpubio.speckle.model import ContrastMaps, FrameStack
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.registration import Registered, ShiftFinder, shift_frame
from napari_gpubio.speckle.settings import ContrastSettings

Array = npt.NDArray[Any]
_SAME_K2 = ("index", "beta", "nonfinite", "mask", "low_signal")  # settings that change no K²
NOT_SPATIAL = (
    "a multi-exposure fit takes contrast over a square of pixels of each frame, since frames follow each other with "
    "other exposures; choose the mode 'spatial'"
)
NOTHING_FITTED = (
    "nothing could be fitted: no pixel has a contrast at every exposure; look whether long exposures are saturated, "
    "or whether more noise is taken off than there is"
)
_FIT_STARTS = "multi-exposure fit (the first on a machine compiles, up to a minute)"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Recipe:
    """How maps are made.

    Parameters
    ----------
    settings, noise
        See the engine.
    registers
        Whether frames are shifted onto the first one before contrast is taken.
    baseline_maps
        Number of maps that a baseline is the mean of.
    device
        As the engine takes it.
    dark
        Name of the layer of dark frames that the noise was measured in, or nothing.
    mesi
        The multi-exposure fit that is made of K², or None.
    """

    settings: ContrastSettings
    noise: NoiseModel = dataclasses.field(default_factory=NoiseModel)
    registers: bool = False
    baseline_maps: int = 30
    device: str = "auto"
    dark: str = ""
    mesi: MesiRecipe | None = None

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

    Parameters
    ----------
    frames
        A frame (Y, X) or a stack (T, Y, X) of any kind.
    name
        Of their layer.
    place
        Scale, translation and units of the layer.
    recipe
        How maps are made.
    rate_hz
        Frames per second.
    """

    frames: Any
    name: str
    place: dict[str, tuple[Any, ...]]
    recipe: Recipe
    rate_hz: float

    @property
    def baseline_frames(self) -> int:
        """Frames that the maps of the baseline are made of, from the first on."""
        s = self.recipe.settings
        count = 1 if len(self.frames.shape) == 2 else int(self.frames.shape[0])
        return min(count, (self.recipe.baseline_maps - 1) * s.step + s.depth)

    def check(self) -> None:
        """Refuse a multi-exposure fit that cannot be made.

        Raises
        ------
        InvalidInput
            If the exposures do not belong to the frames, or contrast is not taken of single frames.
        """
        mesi, shape = self.recipe.mesi, tuple(self.frames.shape)
        if mesi is None:
            return
        if len(shape) == 2:
            raise InvalidInput(
                "a multi-exposure fit needs several frames and this is a single one; open the whole stack"
            )
        mesi.repeats(int(shape[0]))
        if self.recipe.settings.mode != "spatial":
            raise InvalidInput(NOT_SPATIAL)


# -- maps of contrast -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class StackResult:
    """Maps of contrast of a whole stack.

    Parameters
    ----------
    request, maps
        What was run, and the maps.
    registered
        By how much frames were moved, or None.
    """

    request: Request
    maps: ContrastMaps
    registered: Registered | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know, in sentences."""
        return (*self.maps.notes, *(() if self.registered is None else self.registered.notes))

    @property
    def times_s(self) -> Array:
        """Time of each map: that of the last frame of its window."""
        s = self.request.recipe.settings
        return (np.arange(len(self.maps)) * s.step + s.depth - 1) / self.request.rate_hz


def stack_steps(request: Request, stop: threading.Event) -> Generator[Step, None, StackResult]:
    """Make the maps of a whole stack; see `napari_gpubio.speckle.contrast_steps` for what is refused."""
    recipe, baseline = request.recipe, None
    frames, registered = yield from _registered_frames(request, stop)
    if recipe.settings.index == "relative":
        baseline = yield from _baseline(request, frames, stop)
    maps = yield from run.contrast_steps(
        frames, recipe.settings, noise=recipe.noise, baseline=baseline, device=recipe.device, stop=stop
    )
    if registered is not None:
        registered.clear_outside(maps)
    return StackResult(request=request, maps=maps, registered=registered)


def _baseline(request: Request, frames: Any, stop: threading.Event) -> Generator[Step, None, Array]:
    """K² of the first maps, pixel by pixel; all NaN if the run was stopped before."""
    part = frames if len(frames.shape) == 2 else frames[: request.baseline_frames]
    settings = dataclasses.replace(request.recipe.settings, index="squared")
    recipe = request.recipe
    maps = yield from run.contrast_steps(part, settings, noise=recipe.noise, device=recipe.device, stop=stop)
    squared = maps.squared
    return squared if squared.ndim == 2 else mean_map(squared)


class MapMean:
    """The mean of finite values of maps, pixel by pixel.

    Parameters
    ----------
    count_needed
        How many maps are to be averaged.
    """

    def __init__(self, count_needed: int) -> None:
        self.count_needed, self.count = count_needed, 0
        self._sum: Array | None = None
        self._used: Array | None = None

    def add(self, values: Array) -> None:
        """Add a map (Y, X); one of another size than those before it begins anew."""
        finite = np.isfinite(values)
        if self._sum is None or self._used is None or self._sum.shape != values.shape:
            self._sum, self._used = np.zeros(values.shape), np.zeros(values.shape, np.int32)
            self.count = 0
        self._sum += np.where(finite, values, 0.0)
        self._used += finite
        self.count += 1

    def mean(self) -> Array:
        """Return the mean so far; NaN where no map had a value."""
        assert self._sum is not None
        assert self._used is not None
        return np.divide(self._sum, self._used, out=np.full(self._sum.shape, np.nan), where=self._used > 0)


def mean_map(maps: Array) -> Array:
    """Return the mean of the finite values of a stack of maps (T, Y, X); NaN where there is none."""
    mean = MapMean(len(maps))
    for one in maps:
        mean.add(one)
    return mean.mean()


# -- registration -----------------------------------------------------------------------------------------------------


class ShiftedFrames:
    """Frames that are moved by whole pixels when they are read.

    Parameters
    ----------
    frames
        The stack.
    shifts
        Rows and columns for each frame, (T, 2).
    """

    def __init__(self, frames: Any, shifts: Array) -> None:
        self._frames, self._shifts = frames, shifts
        self.shape, self.dtype = tuple(frames.shape), np.dtype(frames.dtype)

    def __getitem__(self, which: slice) -> Array:
        frames, shifts = np.asarray(self._frames[which]), self._shifts[which]
        return np.stack([shift_frame(one, (int(s[0]), int(s[1]))) for one, s in zip(frames, shifts, strict=True)])


def _registered_frames(request: Request, stop: threading.Event) -> Generator[Step, None, tuple[Any, Registered | None]]:
    """Shift frames onto the first one if the recipe says so.

    As `speckle.register`, but in steps, and frames are moved when they are read.
    """
    frames = request.frames
    if not request.recipe.registers or len(frames.shape) == 2:
        return frames, None
    stack = FrameStack(frames)
    finder, shifts = ShiftFinder(stack.load(0, 1)[0]), np.zeros((stack.count, 2), np.int64)
    unmatched = []
    for number in range(1, stack.count):
        if stop.is_set():
            break
        shift = finder.find(stack.load(number, number + 1)[0])
        shifts[number] = shift or (0, 0)
        if shift is None:
            unmatched.append(number)
        yield Step(number + 1, stack.count, "registration")
    lazy: Any = ShiftedFrames(frames, shifts)
    return lazy, Registered(lazy, shifts, tuple(unmatched))


# -- multi-exposure fit -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FitResult:
    """A multi-exposure fit of a whole stack.

    Parameters
    ----------
    request, fit
        What was run, and the maps.
    contrast
        K at each exposure, (exposures, Y, X).
    registered
        By how much frames were moved, or None.
    map_notes
        Notes of the maps of contrast.
    """

    request: Request
    fit: MesiResult
    contrast: Array
    registered: Registered | None = None
    map_notes: tuple[str, ...] = ()

    @property
    def has_begun(self) -> bool:
        """Whether a pixel was fitted before a stop."""
        return bool(np.isfinite(self.fit.tau_ms).any())

    @property
    def notes(self) -> tuple[str, ...]:
        """What was not fitted, and which frames were not shifted."""
        notes = (*self.map_notes, *(() if self.registered is None else self.registered.notes))
        if not self.fit.complete or not (missed := self._missed_pixels()):
            return notes
        why = "saturated, too dark or below the noise at some exposure"
        if self.registered is not None:
            why += ", or shifted out of the frame"
        return (f"{100 * missed / self.fit.tau_ms.size:.3g} % of the pixels were not fitted: {why}", *notes)

    def _missed_pixels(self) -> int:
        """Pixels within the border that were not fitted."""
        inner = self.request.recipe.settings.window // 2
        tau = self.fit.tau_ms[inner : self.fit.tau_ms.shape[0] - inner, inner : self.fit.tau_ms.shape[1] - inner]
        return int(np.count_nonzero(~np.isfinite(tau)))


def fit_steps(request: Request, mesi: MesiRecipe, stop: threading.Event) -> Generator[Step, None, FitResult]:
    """Fit a whole stack that `Request.check` accepts."""
    recipe, settings = request.recipe, dataclasses.replace(request.recipe.settings, index="squared")
    frames, registered = yield from _registered_frames(request, stop)
    maps = yield from run.contrast_steps(frames, settings, noise=recipe.noise, device=recipe.device, stop=stop)
    if registered is not None:
        registered.clear_outside(maps)
    contrast = exposure_contrast(maps, mesi)
    yield Step(0, contrast[0].size, _FIT_STARTS)
    fit = yield from fit_mesi_steps(contrast, mesi.exposures_ms, mesi.settings, stop=stop)
    if fit.complete and not np.isfinite(fit.tau_ms).any():
        raise InvalidInput(NOTHING_FITTED)
    return FitResult(request=request, fit=fit, contrast=contrast, registered=registered, map_notes=maps.notes)
