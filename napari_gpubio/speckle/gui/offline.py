"""A whole stack: registration, baseline and contrast as one run."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.steps import Step
from napari_gpubio.speckle import run
from napari_gpubio.speckle.gui.averages import mean_map
from napari_gpubio.speckle.gui.recipe import Recipe
from napari_gpubio.speckle.gui.source_pages import frames_of
from napari_gpubio.speckle.model import ContrastMaps, FrameStack
from napari_gpubio.speckle.registration import Registered, ShiftFinder, shift_frame

Array = npt.NDArray[Any]
_PLACE = ("scale", "translate", "units")


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


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Done:
    """What a run has made.

    Parameters
    ----------
    request, maps
        What was asked for, and the maps.
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


def request_of(layer: Any, recipe: Recipe, rate_hz: float) -> Request:
    """Take down what a run of a layer needs."""
    place = {name: tuple(getattr(layer, name)) for name in _PLACE}
    return Request(frames=frames_of(layer), name=layer.name, place=place, recipe=recipe, rate_hz=rate_hz)


def run_steps(request: Request, stop: threading.Event) -> Generator[Step, None, Done]:
    """Make the maps of a whole stack; see `napari_gpubio.speckle.contrast_steps` for what is refused."""
    recipe, baseline = request.recipe, None
    frames, registered = yield from registered_frames(request, stop)
    if recipe.settings.index == "relative":
        baseline = yield from _baseline(request, frames, stop)
    maps = yield from run.contrast_steps(
        frames, recipe.settings, noise=recipe.noise, baseline=baseline, device=recipe.device, stop=stop
    )
    if registered is not None:
        registered.clear_outside(maps)
    return Done(request=request, maps=maps, registered=registered)


def registered_frames(request: Request, stop: threading.Event) -> Generator[Step, None, tuple[Any, Registered | None]]:
    """Return the frames, shifted onto the first one if that is asked for.

    As `speckle.register`, but telling how far it is; frames are moved when they are read.
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


def _baseline(request: Request, frames: Any, stop: threading.Event) -> Generator[Step, None, Any]:
    """K² of the first maps, pixel by pixel; all NaN if the run was stopped before."""
    part = frames if len(frames.shape) == 2 else frames[: request.baseline_frames]
    settings = dataclasses.replace(request.recipe.settings, index="squared")
    recipe = request.recipe
    maps = yield from run.contrast_steps(part, settings, noise=recipe.noise, device=recipe.device, stop=stop)
    squared = maps.squared
    return squared if squared.ndim == 2 else mean_map(squared)
