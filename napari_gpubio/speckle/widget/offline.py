"""A whole stack: registration, baseline and contrast as one run, and its maps as layers."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.layers import KEY, carried
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle import run
from napari_gpubio.speckle.frames import FrameStack
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.registration import Registered, find_shift, shift_frame
from napari_gpubio.speckle.settings import ContrastSettings
from napari_gpubio.speckle.validity import EDGE, NAMES
from napari_gpubio.speckle.widget.averages import mean_map
from napari_gpubio.speckle.widget.live_layers import COLORMAP, limits_of
from napari_gpubio.speckle.widget.recipe import Recipe
from napari_gpubio.speckle.widget.source_pages import frames_of
from napari_gpubio.speckle.widget.words import PANEL, RESULT, title_of

Array = npt.NDArray[Any]
CONTRAST, INDEX, MASK = "contrast", "index", "mask"
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
    shifts
        By how much frames were moved, (T, 2) in pixels, or None.
    """

    request: Request
    maps: ContrastMaps
    shifts: npt.NDArray[np.int64] | None = None

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
    frames, recipe, registered = request.frames, request.recipe, None
    if recipe.registers and len(frames.shape) == 3:
        registered = yield from _registered(frames, stop)
        frames = registered.frames
    baseline = None
    if recipe.settings.index == "relative":
        baseline = yield from _baseline(request, frames, stop)
    maps = yield from run.contrast_steps(
        frames, recipe.settings, noise=recipe.noise, baseline=baseline, device=recipe.device, stop=stop
    )
    if registered is not None:
        registered.clear_outside(maps)
    return Done(request=request, maps=maps, shifts=None if registered is None else registered.shifts)


def _registered(frames: Any, stop: threading.Event) -> Generator[Step, None, Registered]:
    """Do as `speckle.register` does, and tell how far it is; frames are moved when they are read."""
    stack = FrameStack(frames)
    first, shifts = stack.load(0, 1)[0], np.zeros((stack.count, 2), np.int64)
    for number in range(1, stack.count):
        if stop.is_set():
            break
        shifts[number] = find_shift(stack.load(number, number + 1)[0], first)
        yield Step(number + 1, stack.count, "registration")
    lazy: Any = ShiftedFrames(frames, shifts)
    return Registered(lazy, shifts)


def _baseline(request: Request, frames: Any, stop: threading.Event) -> Generator[Step, None, Any]:
    """K² of the first maps, pixel by pixel; all NaN if the run was stopped before."""
    part = frames if len(frames.shape) == 2 else frames[: request.baseline_frames]
    settings = dataclasses.replace(request.recipe.settings, index="squared")
    recipe = request.recipe
    maps = yield from run.contrast_steps(part, settings, noise=recipe.noise, device=recipe.device, stop=stop)
    squared = maps.squared
    return squared if squared.ndim == 2 else mean_map(squared)


# -- layers -----------------------------------------------------------------------------------------------------------


def show(viewer: Any, done: Done) -> Any:
    """Show the maps as layers; another run that gives the same kind of map takes its place. Returns the chosen map."""
    settings = done.request.recipe.settings
    contrast_only = settings.index == "none"
    if done.maps.mask is not None:
        _show_mask(viewer, done)
    kind = dataclasses.replace(settings, index="none")
    chosen = _show(viewer, done, CONTRAST, done.maps.contrast, kind, is_visible=contrast_only)
    if done.maps.index is not None and not contrast_only:
        chosen = _show(viewer, done, INDEX, done.maps.index, settings, is_visible=True)
    return chosen


def _show(viewer: Any, done: Done, part: str, data: Array, kind: ContrastSettings, *, is_visible: bool) -> Any:
    title = title_of(kind)
    told = {PANEL: RESULT, "part": part, "title": title, "source": done.request.name, "unit": kind.unit, **_told(done)}
    layer = _same(viewer, told, data)
    if layer is not None:
        layer.data, layer.metadata[KEY], layer.visible = data, told, is_visible
        return layer
    return viewer.add_image(
        data, name=f"{title} of {done.request.name}", colormap=COLORMAP, contrast_limits=limits_of(data),
        metadata={KEY: told}, visible=is_visible, **_place(done, data.ndim),
    )  # fmt: skip


def _show_mask(viewer: Any, done: Done) -> None:
    """Where contrast does not mean flow, beyond the border, which is empty in the maps anyway."""
    data = done.maps.mask & np.uint8(0xFF ^ EDGE)
    told = {PANEL: RESULT, "part": MASK, "title": MASK, "source": done.request.name, "bits": NAMES, **_told(done)}
    layer = _same(viewer, told, data)
    if layer is not None:
        layer.data, layer.metadata[KEY] = data, told
    elif data.any():
        viewer.add_labels(
            data, name=f"not valid in {done.request.name}", metadata={KEY: told}, visible=False,
            **_place(done, data.ndim),
        )  # fmt: skip


def _same(viewer: Any, told: dict[str, Any], data: Array) -> Any | None:
    """The layer of the same kind of map of the same stack, or None."""
    keys = (PANEL, "part", "title", "source")
    for layer in reversed(viewer.layers):
        if all(carried(layer, key) == told[key] for key in keys) and layer.data.shape == data.shape:
            return layer
    return None


def _told(done: Done) -> dict[str, Any]:
    recipe = done.request.recipe
    told = {"exposure_ms": recipe.settings.exposure_ms, "parameters": dict(done.maps.parameters)}
    if done.shifts is not None:
        told["shifts_pixels"] = done.shifts.tolist()
    if recipe.settings.index == "relative":
        told["baseline_frames"] = done.request.baseline_frames
    return told


def _place(done: Done, ndim: int) -> dict[str, Any]:
    """Where maps lie: each at the last frame of its window."""
    s, place = done.request.recipe.settings, done.request.place
    scale, translate = list(place["scale"]), list(place["translate"])
    if ndim == 3:
        translate[0] += scale[0] * (s.depth - 1)
        scale[0] *= s.step
    return {"scale": scale[-ndim:], "translate": translate[-ndim:], "units": place["units"][-ndim:]}
