"""Processing of live frames, in the thread of the loop: registration, contrast, baseline, regions, time course."""

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import thread_count
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle.live import Latest, LiveResult, TimeCourse
from napari_gpubio.speckle.model import ContrastMaps, MapMean
from napari_gpubio.speckle.regions import mean_k2
from napari_gpubio.speckle.registration import Registered, ShiftFinder, shift_frame
from napari_gpubio.speckle.run import ContrastStream
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    DarkNoise,
    Index,
    Mode,
    NoIndex,
    Noise,
    NoiseModel,
    RelativeFlow,
    Spatial,
    SpatioTemporal,
    Squared,
    Temporal,
    TimedIndex,
)

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LiveRecipe:
    """How live maps are made; see `ContrastStream`. The exposure is what a camera has, or is to be set to."""

    settings: ContrastSettings
    noise: Noise = dataclasses.field(default_factory=NoiseModel)
    exposure_ms: float = 10.0
    registers: bool = False
    baseline_maps: int = 30
    device: str = "auto"

    def has_same_k2(self, other: "LiveRecipe") -> bool:
        """Whether another recipe gives the same K², so that a baseline may be kept."""
        mine, theirs = (
            (one.settings.mode, one.exposure_ms, one.registers, _noise_key(one.noise)) for one in (self, other)
        )
        return mine == theirs

    def exposed(self, exposure_ms: float) -> "LiveRecipe":
        """Return the same for another exposure."""
        settings = self.settings
        if isinstance(settings.index, TimedIndex):
            settings = dataclasses.replace(settings, index=dataclasses.replace(settings.index, exposure_ms=exposure_ms))
        return dataclasses.replace(self, settings=settings, exposure_ms=exposure_ms)


def _noise_key(noise: Noise) -> Any:
    return (id(noise.dark_map), noise.gain) if isinstance(noise, DarkNoise) else noise


@dataclasses.dataclass(eq=False)
class LiveMap(ShortRepr):
    """A map on its way to the screen, and the frame that it was made of; their memory is used again."""

    shown: npt.NDArray[np.float32]  # the chosen map, (Y, X)
    raw: Array
    settings: ContrastSettings
    is_ready: bool = False  # whether there is a map: a window may not be full yet, or a baseline missing
    k2: dict[str, float] = dataclasses.field(default_factory=dict)  # mean over the valid pixels of each region
    baseline_step: tuple[int, int] | None = None  # number of this map in a baseline, and how many make it


class LiveProcess:
    """Makes maps of frames as they come; settings may be changed at any time, from another thread.

    ``spare`` returns a result whose memory may be filled again, or None; see `Latest`.
    """

    def __init__(self, recipe: LiveRecipe, spare: Callable[[], LiveResult | None] = lambda: None) -> None:
        self.recipe, self._spare = recipe, spare
        self.baseline: Array | None = None  # mean of K² over the maps of the baseline, (Y, X)
        self.baseline_progress: tuple[int, int] | None = None  # maps in the one that is taken, and how many make it
        self._lock = threading.Lock()
        self._maps_requested = 0
        self._baseline_mean: MapMean | None = None
        self._stream: ContrastStream | None = None
        self._stream_key: tuple[LiveRecipe, Index, int] | None = None  # recipe, index and baseline of the stream
        self._regions: Mapping[str, tuple[Array, ...]] = {}
        self._region_shape: tuple[int, ...] = ()
        self._finder: ShiftFinder | None = None  # of shifts onto the first frame
        self._shifts: deque[tuple[int, int]] = deque(maxlen=1)

    @property
    def last_shift(self) -> tuple[int, int]:
        """Rows and columns that the last frame was shifted by."""
        return self._shifts[-1] if self._shifts else (0, 0)

    def set_recipe(self, recipe: LiveRecipe) -> bool:
        """Make the next maps in another way; returns whether a baseline that no longer fits was dropped."""
        with self._lock:
            dropped = not self.recipe.has_same_k2(recipe)
            had_one = self.baseline is not None
            if dropped:
                self._forget_baseline()
            self.recipe = recipe
        return dropped and had_one

    def set_regions(self, masks: Mapping[str, Array]) -> None:
        """Average K² over other regions, booleans of shape (Y, X), from the next map on."""
        places = {name: np.nonzero(mask) for name, mask in masks.items()}
        with self._lock:
            self._regions = places
            self._region_shape = next((mask.shape for mask in masks.values()), ())

    def take_baseline(self) -> None:
        """Make the mean of K² of the next maps the baseline."""
        with self._lock:
            self._maps_requested = self.recipe.baseline_maps

    def drop_baseline(self) -> None:
        """Drop the baseline, since frames will come from elsewhere."""
        with self._lock:
            self._forget_baseline()
            self._finder = None

    def close(self) -> None:
        """Free the memory, once the loop has ended; a baseline stays, and the reference that its frames lie on."""
        self._close_stream()
        if self.baseline is None:
            self._finder = None

    def __call__(self, pixels: Array) -> LiveMap:
        """Make the map of a frame, shape (Y, X)."""
        with self._lock:
            recipe = self.recipe
            if self.baseline is not None and self.baseline.shape != pixels.shape:
                self.baseline = None  # of another region of the camera
            self._begin_baseline(recipe)
            taking, regions = self._baseline_mean, self._regions if self._region_shape == pixels.shape else {}
        if not recipe.registers:
            self._finder = None  # registration starts over when it is switched on again
        stream = self._stream_for(recipe, pixels)
        maps = stream.push(self._registered(pixels) if recipe.registers else pixels)
        live = self._allocate(pixels, recipe.settings)
        if maps is None:
            return live
        if recipe.registers:  # clear what was shifted in from outside
            Registered(np.empty((1, *pixels.shape), np.uint8), np.array(self._shifts, np.int64)).clear_outside(maps)
        live.k2 = {name: float(mean_k2(maps[where])[0][0]) for name, where in regions.items()}
        if taking is not None:
            live.baseline_step = self._add_to_baseline(taking, maps)
        index = recipe.settings.index
        shown = maps.contrast if isinstance(index, NoIndex) else maps.index
        if shown is not None and (isinstance(index, NoIndex) or type(index) is type(maps.settings.index)):
            np.copyto(live.shown, shown)
            live.is_ready = True
        return live

    # -- the baseline ---------------------------------------------------------------------------------------------

    def _forget_baseline(self) -> None:
        self.baseline, self._baseline_mean, self.baseline_progress = None, None, None

    def _begin_baseline(self, recipe: LiveRecipe) -> None:
        missing = (
            isinstance(recipe.settings.index, RelativeFlow) and self.baseline is None and self._baseline_mean is None
        )
        if count := self._maps_requested or (recipe.baseline_maps if missing else 0):
            self._baseline_mean, self.baseline_progress, self._maps_requested = MapMean(), (0, count), 0

    def _add_to_baseline(self, taking: MapMean, maps: ContrastMaps) -> tuple[int, int] | None:
        taking.add(maps.squared)
        with self._lock:
            if self._baseline_mean is not taking or self.baseline_progress is None:
                return None  # dropped in the meantime
            step = self.baseline_progress = taking.count, self.baseline_progress[1]
            if step[0] == step[1]:
                self.baseline, self._baseline_mean, self.baseline_progress = taking.mean(), None, None
        return step

    # -- the stream -----------------------------------------------------------------------------------------------

    def _stream_for(self, recipe: LiveRecipe, pixels: Array) -> ContrastStream:
        """Return the stream; its index is K² until there is a baseline that flow may be relative to."""
        index = recipe.settings.index
        if isinstance(index, RelativeFlow) and self.baseline is None:
            index = Squared()
        baseline = self.baseline if isinstance(index, RelativeFlow) else None
        stream, key = self._stream, (recipe, index, id(baseline))
        if stream is None or self._stream_key != key or stream.shape != pixels.shape:
            self._close_stream()
            self._shifts = deque(maxlen=recipe.settings.depth)
            self._stream = stream = ContrastStream(
                dataclasses.replace(recipe.settings, index=index), pixels.shape, pixels.dtype, noise=recipe.noise,
                baseline=baseline, device=recipe.device, threads=max(1, thread_count() - 1),  # the window keeps a core
            )  # fmt: skip
            self._stream_key = key
        return stream

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._stream_key = None, None

    def _registered(self, pixels: Array) -> Array:
        """Return the frame, shifted onto the first one; as it is if they have nothing in common."""
        if self._finder is None or self._finder.shape != pixels.shape:
            self._finder = ShiftFinder(pixels)
        shift = self._finder.find(pixels) or (0, 0)
        self._shifts.append(shift)
        return shift_frame(pixels, shift)

    def _allocate(self, pixels: Array, settings: ContrastSettings) -> LiveMap:
        """Return memory for a map, with the frame in it."""
        spare = self._spare()
        live = None if spare is None else spare.value
        if live is None or live.shown.shape != pixels.shape or live.raw.dtype != pixels.dtype:
            return LiveMap(np.full(pixels.shape, np.nan, np.float32), pixels.copy(), settings)
        np.copyto(live.raw, pixels)
        return LiveMap(live.shown, live.raw, settings)


def prepare_steps(recipe: LiveRecipe, dtype: npt.DTypeLike | None) -> Generator[Step, None, None]:
    """Compile the engine before frames come: on a first run it takes seconds, in which a camera would lose frames."""
    kinds: dict[type, Mode] = {Spatial: Spatial(window=3), Temporal: Temporal(frames=2)}
    mode = kinds.get(type(recipe.settings.mode), SpatioTemporal(frames=2, window=3))
    settings = dataclasses.replace(recipe.settings, index=Squared(), mode=mode)
    for kind in (np.uint8, np.uint16) if dtype is None else (dtype,):
        yield Step(0, 1, "compiling")
        with ContrastStream(settings, (64, 64), kind, noise=recipe.noise, device=recipe.device) as stream:
            for level in range(settings.depth):
                stream.push(np.full((64, 64), level + 1, kind))


class LatestMap(Latest[LiveResult]):
    """The newest `LiveMap`; K² of every one is added to a time course, also of those that are never drawn.

    The clock of the time course goes on over stops and starts, see `begin`.
    """

    def __init__(self, course: TimeCourse) -> None:
        super().__init__()
        self.course = course
        self.time_s = 0.0  # of the last result, on the clock of the time course
        self._offset_s = self._baseline_from_s = 0.0

    def begin(self, offset_s: float) -> None:
        """Count the times of the next results from this moment on."""
        self._offset_s = max(offset_s, self.time_s)

    def publish(self, result: LiveResult) -> None:
        """Put a result here, and its K² into the time course."""
        if np.isfinite(result.timestamp_s):
            self.time_s = max(self.time_s, self._offset_s + result.timestamp_s)
        live = result.value
        if live.k2:
            self.course.append(self.time_s, live.k2)
        if live.baseline_step is not None:
            step, last = live.baseline_step
            if step == 1:
                self._baseline_from_s = self.time_s
            if step == last and len(self.course) and self.course.times_s[-1] >= self._baseline_from_s:
                self.course.set_baseline(self._baseline_from_s, self.time_s)
        super().publish(result)
