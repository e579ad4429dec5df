"""Contrast on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import run_blocks
from napari_gpubio.speckle.kernels.contrast import windows
from napari_gpubio.speckle.kernels.contrast.problem import ICT, Array, ContrastRecipe, Maps, Problem, batches
from napari_gpubio.speckle.kernels.visibility import decay_table
from napari_gpubio.speckle.settings import EDGES

MIN_PIXELS = 1 << 15  # of a block: 0.05 ms, below which a second thread costs more than it saves
BATCH_PIXELS = 1 << 20  # of maps from floating-point frames that are summed together
_MIN_ROWS = 8  # or most of the work would be that of the window above the block
_NO_PLANE, _NO_TABLE, _NO_DARK = np.empty((0, 0), np.float32), np.empty((0, 2), np.float32), np.empty((0, 0), np.int32)
_NO_INDEX, _NO_MASK = np.empty((0, 0, 0), np.float32), np.empty((0, 0, 0), np.uint8)
_NO_FRAMES = np.empty((0, 0, 0), np.uint16)


class Maker:
    """Computes maps of frames in host memory, with all threads by default."""

    def __init__(self, recipe: ContrastRecipe, threads: int | None = None) -> None:
        self.recipe, self._rule, self._threads = recipe, recipe.rule, threads
        floor, baseline = (_NO_PLANE if p is None else p for p in (recipe.floor, recipe.baseline_plane))
        self._planes = floor, baseline, decay_table().single if self._rule.kind == ICT else _NO_TABLE
        self._sums = self._make_sums(int(recipe.settings.depth > 1 and not recipe.is_real))

    def _make_sums(self, maps: int) -> windows.Sums:
        """Allocate sums, which are zero, for a number of maps."""
        width, dtype, masked = self.recipe.shape[1], self.recipe.work_dtype, self.recipe.settings.has_mask
        return windows.Sums(
            np.zeros((maps, *self.recipe.shape), dtype),
            np.zeros((maps, *self.recipe.shape), dtype),
            np.zeros((maps if masked else 0, *self.recipe.shape), np.uint16),
            np.zeros(width, dtype),
            _read_only(np.zeros(width, np.uint16)),
        )

    def _samples(self, frames: Array) -> windows.Samples:
        dark = _NO_DARK if self.recipe.dark is None or self.recipe.is_real else self.recipe.dark
        return windows.Samples(
            _read_only(frames), _read_only(np.zeros(frames.shape[2:], frames.dtype)), dark,
            np.zeros(frames.shape[2:], np.int32), np.int64(self.recipe.unit), np.int64(self.recipe.saturated),
        )  # fmt: skip

    def _run(self, kernel: Callable[[int, int], object], rows: int, samples: int = 1) -> None:
        """Run a kernel on all threads, or on this one if rows and samples of a pixel are few."""
        least = max(_MIN_ROWS, MIN_PIXELS // (samples * self.recipe.shape[1]))
        run_blocks(kernel, rows, least=least, threads=self._threads)

    def _fill_rows(self, frames: Array, sums: windows.Sums, maps: Maps) -> Callable[[int, int], None]:
        """Return what fills a range of rows of maps."""
        samples, rule, width = self._samples(frames), self._rule, self.recipe.shape[1]
        out = windows.Outputs(
            maps.contrast,
            _NO_INDEX if maps.indices is None else maps.indices,
            _NO_MASK if maps.mask is None else maps.mask,
            *self._planes,
        )
        read = sums._replace(saturated=_read_only(sums.saturated))

        def fill(start: int, stop: int) -> None:
            work = windows.make_work(width, int(rule.reach), self.recipe.work_dtype)
            windows.fill_rows(start, stop, samples, read, rule, work, out)

        return fill

    @property
    def slides(self) -> bool:
        """Whether the sums of a map follow from those of the map before it."""
        return not self.recipe.is_real and self.recipe.settings.depth > self.recipe.settings.step

    def fill(self, frames: Array, maps: Maps, *, goes_on: bool = False) -> None:
        """Fill the maps of frames; the first map belongs to the first ``depth`` frames.

        ``goes_on``: the map before them was the last one filled, `slides`, and its first frame comes before the others.
        """
        if self.recipe.is_real:
            self._fill_from_samples(frames, maps)
        elif self.recipe.settings.depth == 1:
            self._run(self._fill_rows(frames, self._sums, maps), len(maps.contrast) * self.recipe.shape[0])
        else:
            self._fill_from_frames(frames, maps, goes_on=goes_on)

    def _fill_from_frames(self, frames: Array, maps: Maps, *, goes_on: bool) -> None:
        depth, step = self.recipe.settings.depth, self.recipe.settings.step
        for n in range(len(maps.contrast)):
            is_fresh = not self.slides or (n == 0 and not goes_on)
            if is_fresh:
                self.forget()
            end = goes_on + n * step + depth
            for k in range(end - depth if is_fresh else end - 1, end):
                self.change(frames, k, -1 if is_fresh else k - depth)
            self.finish(maps.part(n, n + 1))

    def forget(self) -> None:
        """Start a new window of frames."""
        for plane in self._sums[:3]:
            plane[...] = 0

    def change(self, frames: Array, new: int, old: int) -> None:
        """Add a frame to the window and drop another, by their numbers; -1 for none."""
        samples, sums = self._samples(frames), self._sums
        self._run(lambda start, stop: windows.sum_frames(start, stop, samples, sums, new, old), self.recipe.shape[0])

    def finish(self, maps: Maps) -> None:
        """Fill one map from the frames of the window."""
        self._run(self._fill_rows(_NO_FRAMES, self._sums, maps), self.recipe.shape[0])

    def _fill_from_samples(self, frames: Array, maps: Maps) -> None:
        """Fill maps a few at a time, which saves memory: their sums are doubles."""
        s, rows, width = self.recipe.settings, *self.recipe.shape
        signal, saturated = with_margins(frames, self.recipe), saturated_samples(frames, self.recipe)
        most = min(len(maps.contrast), max(1, BATCH_PIXELS // (rows * width)))
        if len(self._sums.s) < most:
            self._sums = self._make_sums(most)
        for n in range(0, len(maps.contrast), most):
            part, first = maps.part(n, n + most), n * s.step
            fill = self._fill_both(signal[first:], saturated[first:], part)
            self._run(fill, len(part.contrast) * rows, s.samples)

    def _fill_both(self, signal: Array, saturated: Array, maps: Maps) -> Callable[[int, int], None]:
        """Return what fills a range of rows of sums, and of maps from them."""
        rule, step, sums = self._rule, np.int64(self.recipe.settings.step), self._sums
        fill_rows, at_once = self._fill_rows(_NO_FRAMES, sums, maps), max(1, MIN_PIXELS // self.recipe.shape[1])

        def fill(start: int, stop: int) -> None:
            for first in range(start, stop, at_once):  # so few that their sums stay in the cache
                end = min(first + at_once, stop)
                windows.sum_samples(first, end, signal, saturated, rule, step, sums)
                fill_rows(first, end)

        return fill


def _read_only(array: Array) -> Array:
    """Return a read-only view in C order; Numba compiles another version for writable arrays."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def saturated_samples(frames: Array, recipe: ContrastRecipe) -> npt.NDArray[np.uint8]:
    """Return which samples of floating-point frames are saturated, with margins; no frame if no level is known."""
    if not (recipe.settings.has_mask and recipe.saturated):
        return np.empty((0, 0, 0), np.uint8)
    found = (frames >= recipe.saturated).view(np.uint8)
    radius = recipe.settings.width // 2
    margins = [(0, 0), (radius, radius), (radius, radius)]
    return np.pad(found, margins, mode="symmetric" if recipe.settings.mode.edges == "reflect" else "constant")


def with_margins(frames: Array, recipe: ContrastRecipe) -> npt.NDArray[np.float64]:
    """Return floating-point frames minus their dark level, with margins for windows at borders; NaN for no sample."""
    signal = frames.astype(np.float64) if recipe.dark is None else frames - recipe.dark
    radius, edges = recipe.settings.width // 2, recipe.settings.mode.edges
    margins = [(0, 0), (radius, radius), (radius, radius)]
    if edges == "reflect":
        return np.pad(signal, margins, mode="symmetric")
    return np.pad(signal, margins, constant_values=np.nan if edges == EDGES[2] else 0.0)


def bytes_of_map(recipe: ContrastRecipe) -> int:
    """Return the memory of a map, and of the frames that only it needs; real ones are copied as doubles."""
    each = recipe.dtype.itemsize + 9 * recipe.is_real
    return recipe.bytes_of_map + recipe.settings.step * int(np.prod(recipe.shape)) * each


class Run(drivers.Run):
    """A stack on the CPU; items are maps."""

    def __init__(self, problem: Problem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._maker, self._end = Maker(problem.recipe), -1

    def advance(self, start: int, count: int) -> None:
        """Compute the maps ``start`` to ``start + count - 1``."""
        p = self._problem
        for first, many in batches(start, count, bytes_of_map(p.recipe)):
            goes_on = self._maker.slides and first == self._end
            maps = p.room(first, many)
            self._maker.fill(p.load(first - goes_on, many + goes_on), maps, goes_on=goes_on)
            self._end = first + many
            p.put(first, maps)


class Live:
    """Frames of a camera, one after another, on the CPU; see `napari_gpubio.speckle.ContrastStream`."""

    def __init__(
        self, recipe: ContrastRecipe, *, device: Device = CPU, results: int, threads: int | None = None
    ) -> None:
        self.device = device
        self._recipe, self._maker, self._count = recipe, Maker(recipe, threads), 0
        self._ring = np.zeros((recipe.settings.depth + 1, *recipe.shape), recipe.dtype)
        self._results = [recipe.empty_maps(1) for _ in range(results)]

    def slot(self) -> Array:
        """Return memory for the next frame."""
        return self._ring[self._count % len(self._ring)]

    def push(self, frame: Array, *, make_maps: bool) -> Maps | None:
        """Process a frame; compute and return maps if ``make_maps``."""
        maps, depth = self._results[self._count % len(self._results)], self._recipe.settings.depth
        if depth == 1:
            self._maker.fill(frame[None], maps)
        else:
            self._keep(frame)
            if make_maps:
                self._make(maps)
        self._count += 1
        return maps if make_maps else None

    def _keep(self, frame: Array) -> None:
        """Copy a frame into the ring, and add its samples to the sums."""
        slots, new = len(self._ring), self._count % len(self._ring)
        if frame is not self._ring[new]:
            np.copyto(self._ring[new], frame)
        if not self._recipe.is_real:
            old = (new + 1) % slots if self._count >= slots - 1 else -1
            self._maker.change(self._ring, new, old)

    def _make(self, maps: Maps) -> None:
        if not self._recipe.is_real:
            self._maker.finish(maps)
            return
        slots = len(self._ring)
        order = [(self._count + 1 + k) % slots for k in range(1, slots)]  # from the oldest frame on
        self._maker.fill(self._ring[order], maps)

    def forget(self) -> None:
        """Start a new window of frames."""
        self._count = 0
        if self._recipe.settings.depth > 1 and not self._recipe.is_real:
            self._maker.forget()

    def close(self) -> None:
        """Nothing to free on the CPU."""
