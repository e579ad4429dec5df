"""What the live loop does with a frame: registration, contrast, baseline, regions. Runs in the loop's thread."""

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import thread_count
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle.gui.averages import MapMean, mean_k2
from napari_gpubio.speckle.gui.recipe import LiveMap, Recipe
from napari_gpubio.speckle.live import LiveResult
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.registration import Registered, ShiftFinder, shift_frame
from napari_gpubio.speckle.run import ContrastStream
from napari_gpubio.speckle.settings import ContrastSettings

Array = npt.NDArray[Any]


class LiveProcess:
    """Makes maps of frames as they come; settings may be changed at any time, from another thread.

    Parameters
    ----------
    recipe
        How maps are made.
    spare
        Returns a result whose memory may be filled again, or None; see `Latest`.
    """

    def __init__(self, recipe: Recipe, spare: Callable[[], LiveResult | None] = lambda: None) -> None:
        self._recipe, self._spare = recipe, spare
        self._made_with: tuple[Recipe, str, int] | None = None  # of the stream: recipe, index and baseline
        self._stream: ContrastStream | None = None
        self._regions: Mapping[str, Array] = {}
        self._region_shape: tuple[int, ...] = ()
        self._lock = threading.Lock()
        self._asked = 0
        self._taking: MapMean | None = None
        self._baseline: Array | None = None
        self._finder: ShiftFinder | None = None  # of shifts onto the first frame
        self._shifts: deque[tuple[int, int]] = deque(maxlen=1)

    @property
    def recipe(self) -> Recipe:
        """How maps are made."""
        return self._recipe

    @property
    def has_baseline(self) -> bool:
        """Whether there is a baseline."""
        return self._baseline is not None

    @property
    def baseline_progress(self) -> tuple[int, int] | None:
        """Maps in the baseline that is being taken, and how many make it; None if none is."""
        taking = self._taking
        return None if taking is None else (taking.count, taking.wanted)

    def set_recipe(self, recipe: Recipe) -> bool:
        """Make the next maps in another way; returns whether a baseline that is no longer right was dropped."""
        with self._lock:
            keeps = self._recipe.has_same_k2(recipe)
            dropped = not keeps and self._baseline is not None
            if not keeps:
                self._baseline, self._taking = None, None
            self._recipe = recipe
        return dropped

    def set_regions(self, masks: Mapping[str, Array]) -> None:
        """Average K² over other regions, booleans of shape (Y, X), from the next map on."""
        flat = {name: np.flatnonzero(mask) for name, mask in masks.items()}
        with self._lock:
            self._regions = flat
            self._region_shape = next((mask.shape for mask in masks.values()), ())

    def take_baseline(self) -> None:
        """Make the mean of K² of the next maps the baseline."""
        with self._lock:
            self._asked = self._recipe.baseline_maps

    def forget_baseline(self) -> None:
        """Let the baseline go, since frames will come from elsewhere."""
        with self._lock:
            self._baseline, self._taking, self._finder = None, None, None

    def close(self) -> None:
        """Free the memory, once the loop has ended; a baseline stays, and the reference that its frames lie on."""
        self._let_stream_go()
        if self._baseline is None:
            self._finder = None

    def _let_stream_go(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._made_with = None, None

    def __call__(self, pixels: Array) -> LiveMap:
        """Make the map of a frame, shape (Y, X)."""
        with self._lock:
            recipe = self._recipe
            if self._baseline is not None and self._baseline.shape != pixels.shape:
                self._baseline = None  # of another region of the camera
            self._begin_baseline(recipe)
            taking, regions = self._taking, self._regions if self._region_shape == pixels.shape else {}
        if not recipe.registers:
            self._finder = None  # it begins anew when it is switched on again
        stream = self._stream_for(recipe, pixels, is_taking=taking is not None)
        maps = stream.push(self._registered(pixels) if recipe.registers else pixels)
        live = self._room(pixels, recipe.settings)
        if maps is None:
            return live
        if recipe.registers:
            self._clear_outside(maps)
        live.k2 = {name: mean_k2(maps, where) for name, where in regions.items()}
        if taking is not None:
            live.baseline_step = self._add_to_baseline(taking, maps)
        if (shown := _shown(maps, recipe.settings)) is not None:
            np.copyto(live.shown, shown)
            live.is_there = True
        return live

    # -- the baseline ---------------------------------------------------------------------------------------------

    def _begin_baseline(self, recipe: Recipe) -> None:
        missing = recipe.settings.index == "relative" and self._baseline is None and self._taking is None
        if wanted := self._asked or (recipe.baseline_maps if missing else 0):
            self._taking, self._asked = MapMean(wanted), 0

    def _add_to_baseline(self, taking: MapMean, maps: ContrastMaps) -> tuple[int, int]:
        taking.add(maps.squared)
        with self._lock:
            if taking.count == taking.wanted and self._taking is taking:
                self._baseline, self._taking = taking.mean(), None
        return taking.count, taking.wanted

    # -- the stream -----------------------------------------------------------------------------------------------

    def _stream_for(self, recipe: Recipe, pixels: Array, *, is_taking: bool) -> ContrastStream:
        index = self._index_of(recipe, is_taking=is_taking)
        baseline = self._baseline if index == "relative" else None
        stream, wanted = self._stream, (recipe, index, id(baseline))
        if stream is None or self._made_with != wanted or stream.shape != pixels.shape:
            self._let_stream_go()
            self._shifts = deque(maxlen=recipe.settings.depth)
            self._stream = stream = ContrastStream(
                dataclasses.replace(recipe.settings, index=index), pixels.shape, pixels.dtype, noise=recipe.noise,
                baseline=baseline, device=recipe.device,
                threads=max(1, thread_count() - 1),  # the window keeps a core
            )  # fmt: skip
            self._made_with = wanted
        return stream

    def _index_of(self, recipe: Recipe, *, is_taking: bool) -> str:
        """The index that is asked for; K², with its negative values, where it is needed for the baseline."""
        is_missing = recipe.settings.index == "relative" and self._baseline is None
        return "squared" if is_missing or (is_taking and recipe.noise.has_noise) else recipe.settings.index

    def _registered(self, pixels: Array) -> Array:
        """The frame, shifted onto the first one; as it is if they have nothing in common."""
        if self._finder is None or self._finder.shape != pixels.shape:
            self._finder = ShiftFinder(pixels)
        shift = self._finder.find(pixels) or (0, 0)
        self._shifts.append(shift)
        return shift_frame(pixels, shift)

    def _clear_outside(self, maps: ContrastMaps) -> None:
        """Take away what came in from outside."""
        shape = maps.contrast.shape
        Registered(np.empty((1, *shape), np.uint8), np.array(self._shifts, np.int64)).clear_outside(maps)

    def _room(self, pixels: Array, settings: ContrastSettings) -> LiveMap:
        """Memory for a map, with the frame in it."""
        spare = self._spare()
        live = None if spare is None else spare.value
        if live is None or live.shown.shape != pixels.shape or live.raw.dtype != pixels.dtype:
            return LiveMap(np.full(pixels.shape, np.nan, np.float32), pixels.copy(), settings)
        np.copyto(live.raw, pixels)
        return LiveMap(live.shown, live.raw, settings)


def _shown(maps: ContrastMaps, settings: ContrastSettings) -> Array | None:
    """The map that the settings ask for, or None while its baseline is being taken."""
    if settings.index == "none":
        return maps.contrast
    return maps.index if maps.settings.index == settings.index else None


def prepare_steps(recipe: Recipe, dtype: npt.DTypeLike | None) -> Generator[Step, None, None]:
    """Compile what makes maps, which takes seconds on a machine's first run: a camera would lose frames meanwhile."""
    settings = dataclasses.replace(recipe.settings, index="squared", frames=2, window=3)
    for kind in (np.uint8, np.uint16) if dtype is None else (dtype,):
        yield Step(0, 1, "compiling")
        with ContrastStream(settings, (64, 64), kind, noise=recipe.noise, device=recipe.device) as stream:
            for level in range(settings.depth):
                stream.push(np.full((64, 64), level + 1, kind))
