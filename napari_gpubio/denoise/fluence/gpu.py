"""Denoising of fluence in CUDA, the twin of ``cpu.py``; the kernels are in ``fluence.cu``."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import kernel
from napari_gpubio.denoise.fluence.ladder import Taps, Window
from napari_gpubio.denoise.fluence.problem import FluenceProblem, Smoothed
from napari_gpubio.denoise.fluence.tournament import Tournament

_SOURCE = Path(__file__).with_name("fluence.cu")
_THREADS, _LANES, _HEIGHT, _ROWS = 256, 32, 16, 4  # of a block; the last as in the kernel


class Run(Tournament):
    """The denoising of one volume on one GPU; items are challengers."""

    def __init__(self, problem: FluenceProblem, *, device: Device) -> None:
        import cupy

        self.device = device
        self._taps: dict[int, tuple[Taps, tuple[Any, ...]]] = {}
        self._kernels: dict[str, Any] = {}
        with cupy.cuda.Device(device.indices[0]):
            self._no_segments: tuple[Any, ...] = (cupy.zeros(1, np.uint8),) * 2  # which kernels do not read
            super().__init__(problem)

    def advance(self, start: int, count: int) -> None:
        """Let the challengers ``start`` to ``start + count - 1`` try."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]) as here:
            super().advance(start, count)
            here.synchronize()

    def values(self) -> Any:
        """What has won so far, as NumPy."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            return super().values()

    def snapshot(self) -> Smoothed:
        """What has won so far, and its noise, as NumPy."""
        import cupy

        with cupy.cuda.Device(self.device.indices[0]):
            return super().snapshot()

    def close(self) -> None:
        """Let the device arrays go."""
        super().close()
        self._taps.clear()
        self._no_segments = ()

    def _upload(self, array: Any) -> Any:
        import cupy

        return cupy.array(array)

    def _download(self, array: Any) -> Any:
        return to_host(array)

    def _empty(self) -> Any:
        import cupy

        return cupy.empty(self._problem.shape, np.float32)

    def _smooth(self, source: Any, window: Window, room: Any, out: Any, *, is_cut: bool) -> None:
        axes = [(axis, taps) for axis, taps in enumerate(window) if taps is not None]
        targets = [out, room, out][3 - len(axes) :]
        if targets and targets[0] is source:  # two axes, and the source is all the room there is
            targets.reverse()
        here = source
        for (axis, taps), there in zip(axes, targets, strict=True):
            self._smooth_axis(here, axis, taps, there, is_cut=is_cut)
            here = there
        if here is not out:
            out[...] = here

    def _smooth_axis(self, source: Any, axis: int, taps: Taps, out: Any, *, is_cut: bool) -> None:
        """Smooth a volume along an axis into another one."""
        shape, i = self._problem.shape, np.int32
        before, n, behind = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        lanes, rows, planes = (n, before, 1) if behind == 1 else (behind, n, before)
        grid = -(-lanes // _LANES), -(-rows // (_HEIGHT * _ROWS)), planes
        segments = self._no_segments
        if is_cut and self._segments is not None:
            segments = self._segments[axis]
        arguments = (
            source, *segments, i(is_cut), i(before), i(n), i(behind), *self._on_device(taps), i(taps.reach),
            i(taps.is_sloped), out,
        )  # fmt: skip
        self._kernel("smooth_axis")(grid, (_LANES, _HEIGHT), arguments)

    def _on_device(self, taps: Taps) -> tuple[Any, ...]:
        """The arrays of a window, uploaded once."""
        if id(taps) not in self._taps:  # kept with their arrays, so that the number stays theirs
            arrays = tuple(self._upload(array) for array in (taps.weights, taps.gains, taps.slopes))
            self._taps[id(taps)] = taps, arrays
        return self._taps[id(taps)][1]

    def _do(self, name: str, *arguments: Any) -> None:
        size = math.prod(self._problem.shape)
        self._kernel(name)((-(-size // _THREADS),), (_THREADS,), (np.int64(size), *arguments))

    def _kernel(self, name: str) -> Any:
        """A kernel that rounds as the CPU does: where two windows are as good, rounding decides for one of them."""
        if name not in self._kernels:
            self._kernels[name] = kernel(_SOURCE, name, strict=True)
        return self._kernels[name]
