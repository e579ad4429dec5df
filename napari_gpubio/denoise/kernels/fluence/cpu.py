"""Denoising of fluence on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.denoise.kernels.fluence import passes, smoothing
from napari_gpubio.denoise.kernels.fluence.problem import FluenceProblem
from napari_gpubio.denoise.kernels.fluence.scale_selection import KEEP, End, Tournament
from napari_gpubio.denoise.kernels.fluence.scales import Taps, Window
from napari_gpubio.denoise.kernels.fluence.smoothing import Segments, Weights

_NONE = np.zeros((1, 0), np.float32)
_ANYWHERE = np.zeros((3, 2, 1, 1, 1), np.uint8)  # segments that are not looked at
_VOXELS_PER_THREAD = 32768


class Run(Tournament):
    """The denoising of one volume on the CPU; items are challengers."""

    def __init__(self, problem: FluenceProblem, *, device: Device = CPU) -> None:
        self.device = device
        super().__init__(problem)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """As many threads as are worth their coming together after every pass."""
        before = numba.get_num_threads()
        with cpu_threads():
            numba.set_num_threads(max(1, min(before, self._problem.halves[0].size // _VOXELS_PER_THREAD)))
            try:
                yield
            finally:
                numba.set_num_threads(before)

    def _upload(self, array: Any) -> Any:
        return array.copy()

    def _download(self, array: Any) -> Any:
        return array.copy()

    def _empty(self, *volumes: int) -> Any:
        return np.empty((*volumes, *self._problem.shape), np.float32)

    def _smooth(self, source: Any, window: Window, rooms: tuple[Any, Any], *, is_cut: bool, end: End = KEEP) -> Any:
        first, middle, last = (_weights(taps) for taps in window)
        segments = self._segments if is_cut and self._segments is not None else _ANYWHERE
        x, y, z = (Segments(below, above, is_cut) for below, above in segments)
        volumes = zip(*(array.reshape(-1, *self._problem.shape) for array in (source, rooms[0])), strict=True)
        with self._threads():
            for volume, out in volumes:
                if len(first.weights):
                    flat = [array.reshape(len(array), -1) for array in (volume, x.below, x.above, out)]
                    smoothing.smooth_first_axis(flat[0], first, Segments(flat[1], flat[2], is_cut), flat[3])
                between = out if len(first.weights) else volume
                if len(middle.weights) or len(last.weights) or between is volume:
                    smoothing.smooth_planes(between, middle, last, y, z, out)
        if end is not KEEP:
            self._do(end.name, rooms[0], *end.arguments)
        return rooms[0]

    def _do(self, name: str, *arguments: Any) -> None:
        with self._threads():
            getattr(passes, name)(*(_rows(a) if isinstance(a, np.ndarray) else a for a in arguments))


def _rows(array: Any) -> Any:
    """A volume as (rows, n), both halves as (2, rows, n)."""
    return array.reshape(*array.shape[:-3], -1, array.shape[-1])


def _weights(taps: Taps | None) -> Weights:
    """Taps as the Numba functions take them."""
    if taps is None:
        return Weights(_NONE[0], _NONE, _NONE, is_sloped=False)
    return Weights(*taps)
