"""Rigid registration of frames by whole pixels.

Frames may be shifted by whole pixels only before contrast is taken: what is interpolated has less contrast.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import fft

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.frames import FrameStack
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.validity import EDGE

Array = npt.NDArray[Any]
_SMOOTHING = 1.0  # pixels: finer detail is speckle, most of which changes from frame to frame
_TINY = 1e-12


class Registered(NamedTuple):
    """Frames that were shifted, and by how much (rows, columns), shape (T, 2)."""

    frames: Array
    shifts: npt.NDArray[np.int64]

    def clear_outside(self, maps: ContrastMaps) -> None:
        """Take contrast away, in place, where a window reaches to what came in from outside in any of the frames."""
        radius = maps.settings.width // 2
        outside = np.ones(self.frames.shape[1:], bool)
        first = np.maximum(self.shifts.max(axis=0), 0)
        end = np.array(outside.shape) + np.minimum(self.shifts.min(axis=0), 0)
        reach = [np.where(ends, radius, 0) for ends in (first > 0, end < outside.shape)]
        (top, left), (bottom, right) = first + reach[0], end - reach[1]
        outside[top : max(top, bottom), left : max(left, right)] = False
        maps.contrast[..., outside] = np.nan
        if maps.index is not None:
            maps.index[..., outside] = np.nan
        if maps.mask is not None:
            maps.mask[..., outside] |= EDGE


def find_shift(frame: npt.ArrayLike, reference: npt.ArrayLike) -> tuple[int, int]:
    """Return the whole pixels (rows, columns) that a frame must be shifted by to lie on the reference.

    The highest place of the phase correlation (Kuglin and Hines 1975) of both, smoothed, and with the jumps at their
    borders faded out.
    """
    one, other = _spectrum(frame), _spectrum(reference)
    product = other * np.conj(one)
    whitened = product / (np.abs(product) + _TINY * np.abs(product).max(initial=_TINY))
    correlation = fft.irfft2(whitened * _low_pass(np.shape(frame)), s=np.shape(frame))
    place = np.unravel_index(int(np.argmax(correlation)), correlation.shape)
    rows, columns = (int(p) if p <= n // 2 else int(p) - n for p, n in zip(place, correlation.shape, strict=True))
    return rows, columns


def _spectrum(frame: npt.ArrayLike) -> Array:
    image = np.asarray(frame, np.float64)
    windows = (np.hanning(n + 2)[1:-1] for n in image.shape)
    return np.asarray(fft.rfft2((image - image.mean()) * np.outer(*windows)))


def _low_pass(shape: tuple[int, ...]) -> Array:
    """Spectrum of the Gaussian that smooths a correlation."""
    rows, columns = fft.fftfreq(shape[0])[:, None], fft.rfftfreq(shape[1])[None, :]
    return np.asarray(np.exp(-2.0 * (np.pi * _SMOOTHING) ** 2 * (rows**2 + columns**2)))


def shift_frame(frame: Array, shift: tuple[int, int]) -> Array:
    """Return a frame shifted by whole pixels; what comes in from outside is 0, see `Registered.clear_outside`."""
    moved = np.zeros_like(frame)
    source, target = [], []
    for n, d in zip(frame.shape, shift, strict=True):
        source.append(slice(max(0, -d), n - max(0, d)))
        target.append(slice(max(0, d), n - max(0, -d)))
    moved[tuple(target)] = frame[tuple(source)]
    return moved


def register(frames: Any, reference: npt.ArrayLike | None = None) -> Registered:
    """Shift every frame by whole pixels so that it lies on a reference.

    Parameters
    ----------
    frames
        Stack (T, Y, X).
    reference
        Frame (Y, X); the first one of the stack if None.

    Raises
    ------
    InvalidInput
        If the reference has another size.
    """
    stack = FrameStack(frames)
    first = stack.load(0, 1)[0] if reference is None else np.asarray(reference)
    if first.shape != stack.shape:
        raise InvalidInput(f"the reference has shape {first.shape} and a frame {stack.shape}; give one of its size")
    shifts = np.array([find_shift(stack.load(n, n + 1)[0], first) for n in range(stack.count)], np.int64)
    moved = [shift_frame(stack.load(n, n + 1)[0], (int(s[0]), int(s[1]))) for n, s in enumerate(shifts)]
    return Registered(np.stack(moved), shifts)
