"""Contrast in CUDA, the counterpart of ``cpu.py``; kernels: ``windows.cu``, ``sequences.cu`` and ``direct.cu``."""

from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.speckle.kernels.contrast.maker import Maker
from napari_gpubio.speckle.kernels.contrast.problem import Array, Maps, Problem, Recipe

_BATCH_BYTES = 64 << 20  # of device memory for the maps of a batch and what they are made of
_LANES = 2  # batches on their way at once: one is copied while another is computed


class Room(NamedTuple):
    """Memory for maps, one after another in one piece, so that one copy moves them all."""

    whole: Any
    maps: Maps


def make_room(whole: Any, recipe: Recipe, count: int) -> Room:
    """Lay maps out in bytes of the host or of a GPU."""
    pixels = count * int(np.prod(recipe.shape))
    parts: list[Any] = []
    begin = 0
    for size, wanted in ((4, True), (4, recipe.settings.index != "none"), (1, recipe.settings.mask)):
        end = begin + size * pixels * wanted
        kind = np.float32 if size == 4 else np.uint8
        parts.append(whole[begin:end].view(kind).reshape(count, *recipe.shape) if wanted else None)
        begin = end
    contrast, indices, mask = parts
    return Room(whole, Maps(contrast, indices, mask))


def bytes_of(recipe: Recipe, count: int) -> int:
    """Bytes of so many maps."""
    per_pixel = 4 + 4 * (recipe.settings.index != "none") + recipe.settings.mask
    return count * int(np.prod(recipe.shape)) * per_pixel


def pinned(count: int, dtype: Any = np.uint8) -> Array:
    """Page-locked host memory, which a GPU copies to and from by itself."""
    import cupy

    dtype = np.dtype(dtype)
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(count * dtype.itemsize), dtype, count)


class _Lane:
    """A stream with memory of its own for a batch of maps."""

    def __init__(self, recipe: Recipe, most: int) -> None:
        import cupy

        s = recipe.settings
        self._recipe, self._most = recipe, most
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._frames = cupy.empty(((most - 1) * s.step + s.depth, *recipe.shape), recipe.dtype)
        self._device, self._host = cupy.empty(bytes_of(recipe, most), np.uint8), pinned(bytes_of(recipe, most))
        self._target: Maps | None = None

    def begin(self, maker: Maker, frames: Array, target: Maps) -> None:
        """Send frames and have them worked on; `end` waits for it and puts the maps into their place."""
        self._target, count = target, len(target.contrast)
        size = bytes_of(self._recipe, count)
        with self._stream:
            on_device = self._frames[: len(frames)]
            on_device.set(frames, self._stream)
            maker.fill(on_device, make_room(self._device[:size], self._recipe, count).maps)
            self._device[:size].get(self._stream, "C", self._host[:size], False)

    def end(self) -> None:
        """Wait for what was begun, if anything was."""
        if self._target is None:
            return
        self._stream.synchronize()
        count = len(self._target.contrast)
        made = make_room(self._host[: bytes_of(self._recipe, count)], self._recipe, count).maps
        for source, place in zip(made, self._target, strict=True):
            if place is not None:
                np.copyto(place, source)
        self._target = None


class Run:
    """A stack on one GPU; items are maps."""

    def __init__(self, problem: Problem, *, device: Device) -> None:
        import cupy

        self.device = device
        self._problem = problem
        with cupy.cuda.Device(device.indices[0]):
            self._maker: Any = Maker(problem.recipe, device)
            self._most = min(problem.items, max(1, _BATCH_BYTES // self._maker.bytes_per_map()))
            lanes = min(_LANES, -(-problem.items // self._most))
            self._lanes = [_Lane(problem.recipe, self._most) for _ in range(lanes)]

    def bytes_per_item(self) -> int:
        """Nothing beyond what is resident."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Make the maps ``start`` to ``start + count - 1``."""
        import cupy

        p = self._problem
        with cupy.cuda.Device(self.device.indices[0]):
            for number, first in enumerate(range(start, start + count, self._most)):
                maps = min(self._most, start + count - first)
                lane = self._lanes[number % len(self._lanes)]
                frames = p.load(first, maps)
                lane.end()
                lane.begin(self._maker, frames, p.maps.part(first, first + maps))
            for lane in self._lanes:
                lane.end()
        p.reached[start : start + count] = True

    def snapshot(self) -> Maps:
        """Views of all maps; see ``Problem.reached``."""
        return self._problem.maps

    def close(self) -> None:
        """Let the device arrays go."""
        self._lanes, self._maker = [], None


class Live:
    """Frames of a camera, one after another, on one GPU; see `napari_gpubio.speckle.stream.ContrastStream`."""

    def __init__(self, recipe: Recipe, device: Device, results: int) -> None:
        import cupy

        self._device, self._recipe, self._count = device, recipe, 0
        pixels, depth = int(np.prod(recipe.shape)), recipe.settings.depth
        with cupy.cuda.Device(device.indices[0]):
            self._maker: Any = Maker(recipe, device)
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._ring = cupy.empty((depth, *recipe.shape), recipe.dtype)
            self._made: Any = make_room(cupy.empty(bytes_of(recipe, 1), np.uint8), recipe, 1)
            self._slots = [pinned(pixels, recipe.dtype).reshape(recipe.shape) for _ in range(2)]
            self._rooms = [make_room(pinned(bytes_of(recipe, 1)), recipe, 1) for _ in range(results)]

    def slot(self) -> Array:
        """Page-locked memory of the next frame."""
        return self._slots[self._count % len(self._slots)]

    def push(self, frame: Array, *, wanted: bool) -> Maps | None:
        """Take a frame; return the maps if they are wanted."""
        import cupy

        slot, place = self.slot(), self._count % len(self._ring)
        if frame is not slot:
            np.copyto(slot, frame)
        room = self._rooms[self._count % len(self._rooms)]
        with cupy.cuda.Device(self._device.indices[0]), self._stream:
            self._ring[place].set(slot, self._stream)
            if wanted:
                self._maker.fill(self._ring, self._made.maps)
                self._made.whole.get(self._stream, "C", room.whole, False)
            self._stream.synchronize()
        self._count += 1
        return room.maps if wanted else None

    def forget(self) -> None:
        """Begin a new window of frames; the ring is filled again before anything is made of it."""
        self._count = 0

    def close(self) -> None:
        """Let the device arrays go."""
        self._ring = self._made = self._maker = None
