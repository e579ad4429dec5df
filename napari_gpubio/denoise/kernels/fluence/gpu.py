"""Denoising of fluence in CUDA, the counterpart of ``cpu.py``; the kernels are in ``fluence.cu``."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.denoise.kernels.fluence.problem import ONE_VOXEL, FluenceProblem, Regions, Smoothed, Taps, Window
from napari_gpubio.denoise.kernels.fluence.scale_selection import KEEP, Comparison, Pass, ScaleSelection, Update

SOURCE = Path(__file__).with_name("fluence.cu")
_THREADS = 256  # of a block
_VOXELS_PER_THREAD = 4
COMPARISON, UPDATE = (
    struct_layout({name: POINTER if kind is Any else kind for name, kind in fields.__annotations__.items()})
    for fields in (Comparison, Update)
)  # as the structs of the same names in fluence.cu


class _Launch(NamedTuple):
    """How a window is launched along an axis."""

    suffix: str
    grid: tuple[int, int, int]  # for one volume; as many times along the last axis for several
    block: tuple[int, int]
    text: Any  # the window on the GPU, see `_text_of`


class Run(ScaleSelection):
    """The denoising of one volume on one GPU; items are candidates."""

    def __init__(self, problem: FluenceProblem, *, device: Device) -> None:
        import cupy

        self._launches: dict[tuple[int, int, bool], _Launch] = {}  # by the taps' number, axis, is_cut
        self._kernels: dict[str, Any] = {}
        self._voxels = math.prod(problem.shape)
        with device.current():
            self._nothing = cupy.zeros(1, np.uint8)  # which kernels do not read
            super().__init__(problem, device=device)

    def advance(self, start: int, count: int) -> None:
        """Try the candidates ``start`` to ``start + count - 1``."""
        with self.device.current() as here:
            super().advance(start, count)
            here.synchronize()

    def values(self) -> Any:
        """The best so far, as NumPy."""
        with self.device.current():
            return super().values()

    def snapshot(self) -> Smoothed:
        """The best so far, and its noise, as NumPy."""
        with self.device.current():
            return super().snapshot()

    def _upload(self, array: Any) -> Any:
        import cupy

        return cupy.array(array)

    def _download(self, array: Any) -> Any:
        return to_host(array)

    def _segments_of(self, regions: Regions) -> Any:
        import cupy

        shape, labels = self.problem.shape, cupy.asarray(regions.labels)
        segments = cupy.empty((3, 2, *shape), np.uint8)
        for axis, (below, above) in enumerate(segments):
            before, n, behind = _lengths(shape, axis)
            same, lines = cupy.zeros((before, n, behind), np.uint8), labels.reshape(before, n, behind)
            same[:, 1:] = lines[:, 1:] == lines[:, :-1]  # as the voxel before it
            self._do_for(before * behind, "count_equal", np.int32(n), np.int32(behind), same, below, above)
        return segments

    def empty(self, *volumes: int) -> Any:
        """A volume of this device, or several behind one another, float32."""
        import cupy

        return cupy.empty((*volumes, *self.problem.shape), np.float32)

    def smooth(self, source: Any, window: Window, rooms: tuple[Any, Any], segments: Any, end: Pass = KEEP) -> Any:
        """Smooth one volume or both halves along x, y, z, and do the pass at the end."""
        here, there, axes = source, rooms, axes_of(window)
        for axis, taps in axes[:-1]:
            self._smooth_axis(here, axis, taps, there[0], segments, KEEP)
            here, there = there[0], there[::-1]
        self._smooth_axis(here, *axes[-1], there[0], segments, end)
        return there[0]

    def _smooth_axis(self, source: Any, axis: int, taps: Taps, out: Any, segments: Any, end: Pass) -> None:
        """Smooth along an axis, and do what comes at the end with every voxel."""
        how = self._launch_of(axis, taps, is_cut=segments is not None)
        sides = self._nothing if segments is None else segments[axis]
        volumes = source.size // self._voxels if end is KEEP else 1
        arguments = (source, sides, how.text, out, *map(_packed, end.arguments))
        x, y, z = how.grid
        self._kernel(end.name + how.suffix)((x, y, z * volumes), how.block, arguments)

    def _launch_of(self, axis: int, taps: Taps, *, is_cut: bool) -> "_Launch":
        if not self._launches:
            self._prepare()
        return self._launches[id(taps), axis, is_cut]

    def _prepare(self) -> None:
        """Upload all windows in one piece, since every upload takes its time."""
        shape = self.problem.shape
        needed = {
            (id(taps), axis, is_cut): taps for window, is_cut in self._windows() for axis, taps in axes_of(window)
        }
        texts = [_text_of(shape, axis, taps, is_cut=is_cut) for (_, axis, is_cut), taps in needed.items()]
        ends = np.cumsum([len(text) for text in texts])
        whole = self._upload(np.concatenate(texts))
        for key, text, end in zip(needed, texts, ends, strict=True):
            self._launches[key] = _launch(shape, key[1], whole[end - len(text) : end])

    def _do(self, name: str, *arguments: Any) -> None:
        self._do_for(self._voxels, name, *arguments)

    def _do_for(self, count: int, name: str, *arguments: Any) -> None:
        self._kernel(name)((-(-count // _THREADS),), (_THREADS,), (np.int64(count), *arguments))

    def _kernel(self, name: str) -> Any:
        """A kernel that rounds as the CPU does: where two windows are as good, rounding decides for one of them."""
        if name not in self._kernels:
            self._kernels[name] = kernel(SOURCE, name, strict=True)
        return self._kernels[name]


def _packed(argument: Any) -> Any:
    """A pass's argument as kernels take it."""
    if isinstance(argument, Comparison | Update):
        return struct(COMPARISON if isinstance(argument, Comparison) else UPDATE, **argument._asdict())
    return argument


def axes_of(window: Window) -> list[tuple[int, Taps]]:
    """Axes along which a window smooths, at least one."""
    return [(axis, taps) for axis, taps in enumerate(window) if taps is not None] or [(2, ONE_VOXEL)]


def _lengths(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _text_of(shape: tuple[int, ...], axis: int, taps: Taps, *, is_cut: bool) -> npt.NDArray[np.int32]:
    """A window as kernels read it, see ``Pass`` in ``smoothing.cuh``: integers, and then the bits of others."""
    numbers = np.array([is_cut, *_lengths(shape, axis), taps.reach, taps.is_sloped, 0], np.int32)
    weights = np.zeros(1 + -(-taps.reach // _VOXELS_PER_THREAD) * _VOXELS_PER_THREAD, np.float32)
    weights[: len(taps.weights)] = taps.weights
    return np.concatenate([numbers, *(array.ravel().view(np.int32) for array in (weights, taps.gains, taps.slopes))])


def _launch(shape: tuple[int, ...], axis: int, text: Any) -> _Launch:
    """How many threads smooth along an axis."""
    before, n, behind = _lengths(shape, axis)
    fours, most = -(-n // _VOXELS_PER_THREAD), _THREADS
    if behind > 1:
        lanes = min(behind, most)
        rows = most // lanes
        return _Launch("_across", (-(-behind // lanes), -(-fours // rows), before), (lanes, rows), text)
    lanes = min(fours, most)
    lines = most // lanes
    return _Launch("_along", (-(-before // lines), -(-fours // lanes), 1), (lanes, lines), text)
