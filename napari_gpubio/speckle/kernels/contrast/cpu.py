"""Contrast on all CPU cores (Numba), the counterpart of ``gpu.py``."""

import numba
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.speckle.indices import decay_table
from napari_gpubio.speckle.kernels.contrast import direct, windows
from napari_gpubio.speckle.kernels.contrast.finishing import Outputs, Planes
from napari_gpubio.speckle.kernels.contrast.problem import Array, Maps, Problem, Recipe
from napari_gpubio.speckle.settings import EDGES

_BANDS_PER_THREAD = 4  # so that a thread that was kept waiting does not keep the others waiting
_NO_PLANE, _NO_DARK = np.empty((0, 0), np.float32), np.empty((0, 0), np.int32)


class Maker:
    """Makes maps of frames in the memory of the host.

    Parameters
    ----------
    recipe
        What is done to them.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        floor, baseline = (_NO_PLANE if p is None else p for p in (recipe.floor, recipe.baseline_plane))
        self._planes = Planes(floor, baseline, decay_table().single)
        self._like = np.empty(0, recipe.work_dtype)
        self._sequence = None if recipe.settings.depth == 1 or recipe.is_real else self._empty_sequence()

    def _empty_sequence(self) -> windows.Sequence:
        shape, dtype = self.recipe.shape, self.recipe.work_dtype
        mask = shape if self.recipe.settings.mask else (0, 0)
        return windows.Sequence(np.zeros(shape, dtype), np.zeros(shape, dtype), np.zeros(mask, np.uint16))

    def _samples(self, frames: Array) -> windows.Samples:
        dark = _NO_DARK if self.recipe.dark is None else self.recipe.dark
        return windows.Samples(_read_only(frames), dark, self.recipe.unit, self.recipe.saturated)

    @property
    def _band(self) -> int:
        """Rows that a thread does at a time."""
        return max(windows.LEAST_BAND, -(-self.recipe.shape[0] // (_BANDS_PER_THREAD * numba.get_num_threads())))

    def fill(self, frames: Array, maps: Maps) -> None:
        """Fill the maps of frames; the first map is that of the first ``depth`` frames."""
        if self.recipe.is_real:
            self._fill_directly(frames, maps)
        elif self._sequence is None:
            with cpu_threads():
                windows.fill_spatial(
                    self._samples(frames), self._planes, self.recipe.rule, self._like, self._band, outputs(maps)
                )
        else:
            self._fill_from_sums(frames, maps)

    def _fill_from_sums(self, frames: Array, maps: Maps) -> None:
        depth, step = self.recipe.settings.depth, self.recipe.settings.step
        self.forget()
        for n in range(len(maps.contrast)):
            if n and step == depth:
                self.forget()
            new = depth if n == 0 or step == depth else 1
            for k in range(n * step + depth - new, n * step + depth):
                self.change(frames, k, k - depth if new == 1 else -1)
            self.finish(maps.part(n, n + 1))

    def forget(self) -> None:
        """Begin a new window of frames."""
        assert self._sequence is not None
        for plane in self._sequence:
            plane[...] = 0

    def change(self, frames: Array, new: int, old: int) -> None:
        """Add a frame to the window and drop another one, by their numbers; -1 for neither."""
        with cpu_threads():
            windows.change_sums(self._sequence, self._samples(frames), new, old, int(self.recipe.settings.mask))

    def finish(self, maps: Maps) -> None:
        """Fill one map from the frames of the window."""
        with cpu_threads():
            windows.fill_from_sums(self._sequence, self._planes, self.recipe.rule, 0, self._band, outputs(maps))

    def _fill_directly(self, frames: Array, maps: Maps) -> None:
        with cpu_threads():
            direct.fill_directly(
                with_margins(frames, self.recipe), saturated_samples(frames, self.recipe), self._planes,
                self.recipe.rule, self.recipe.settings.step, outputs(maps),
            )  # fmt: skip


def _read_only(frames: Array) -> Array:
    """A view of frames in C order that is not written to; Numba compiles anew for what may be."""
    view = np.ascontiguousarray(frames).view(np.ndarray)
    view.flags.writeable = False
    return view


def outputs(maps: Maps) -> Outputs:
    """Maps as the Numba functions take them: what is not wanted is empty."""
    nothing = np.empty((0, 0, 0), np.float32), np.empty((0, 0, 0), np.uint8)
    return Outputs(
        maps.contrast,
        nothing[0] if maps.indices is None else maps.indices,
        nothing[1] if maps.mask is None else maps.mask,
    )


def saturated_samples(frames: Array, recipe: Recipe) -> npt.NDArray[np.uint8]:
    """Which samples of floating-point frames are saturated, with margins; no frame where no level is known."""
    if not (recipe.settings.mask and recipe.saturated):
        return np.empty((0, 0, 0), np.uint8)
    found = (frames >= recipe.saturated).view(np.uint8)
    radius = recipe.settings.width // 2
    margins = [(0, 0), (radius, radius), (radius, radius)]
    return np.pad(found, margins, mode="symmetric" if recipe.settings.edges == "reflect" else "constant")


def with_margins(frames: Array, recipe: Recipe) -> npt.NDArray[np.float64]:
    """Floating-point frames less their dark level, with what windows see beyond the border; NaN for no sample."""
    signal = frames.astype(np.float64) if recipe.dark is None else frames - recipe.dark
    radius, edges = recipe.settings.width // 2, recipe.settings.edges
    margins = [(0, 0), (radius, radius), (radius, radius)]
    if edges == "reflect":
        return np.pad(signal, margins, mode="symmetric")
    return np.pad(signal, margins, constant_values=np.nan if edges == EDGES[2] else 0.0)


class Run:
    """A stack on the CPU; items are maps."""

    def __init__(self, problem: Problem, *, device: Device = CPU) -> None:
        self.device = device
        self._problem, self._maker = problem, Maker(problem.recipe)

    def bytes_per_item(self) -> int:
        """Memory that one map takes on the device: not asked for on the CPU."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Make the maps ``start`` to ``start + count - 1``."""
        self._maker.fill(self._problem.load(start, count), self._problem.maps.part(start, start + count))
        self._problem.reached[start : start + count] = True

    def snapshot(self) -> Maps:
        """Views of all maps; see ``Problem.reached``."""
        return self._problem.maps

    def close(self) -> None:
        """Nothing to free on the CPU."""


class Live:
    """Frames of a camera, one after another, on the CPU; see `napari_gpubio.speckle.stream.ContrastStream`."""

    def __init__(self, recipe: Recipe, device: Device, results: int) -> None:  # noqa: ARG002 - as its backend
        self._recipe, self._maker, self._count = recipe, Maker(recipe), 0
        self._ring = np.zeros((recipe.settings.depth + 1, *recipe.shape), recipe.dtype)
        self._rooms = [recipe.empty_maps(1) for _ in range(results)]

    def slot(self) -> Array:
        """Memory of the next frame."""
        return self._ring[self._count % len(self._ring)]

    def push(self, frame: Array, *, wanted: bool) -> Maps | None:
        """Take a frame; return the maps if they are wanted."""
        room, depth = self._rooms[self._count % len(self._rooms)], self._recipe.settings.depth
        if depth == 1:
            self._maker.fill(frame[None], room)
        else:
            self._keep(frame)
            if wanted:
                self._make(room)
        self._count += 1
        return room if wanted else None

    def _keep(self, frame: Array) -> None:
        """Put a frame into the ring, and its samples into the sums."""
        slots, new = len(self._ring), self._count % len(self._ring)
        if frame is not self._ring[new]:
            np.copyto(self._ring[new], frame)
        if not self._recipe.is_real:
            old = (new + 1) % slots if self._count >= slots - 1 else -1
            self._maker.change(self._ring, new, old)

    def _make(self, room: Maps) -> None:
        if not self._recipe.is_real:
            self._maker.finish(room)
            return
        slots = len(self._ring)
        order = [(self._count + 1 + k) % slots for k in range(1, slots)]  # from the oldest frame on
        self._maker.fill(self._ring[order], room)

    def forget(self) -> None:
        """Begin a new window of frames."""
        self._count = 0
        if self._recipe.settings.depth > 1 and not self._recipe.is_real:
            self._maker.forget()

    def close(self) -> None:
        """Nothing to free on the CPU."""
