"""Rigid registration of frames by whole pixels.

Shifts are whole pixels, since interpolation would lower the contrast.
"""

import functools
import math
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.speckle.model import EDGE, ContrastMaps, FrameStack, MapTaker, Recording
from napari_gpubio.speckle.stored import StoredFrames

Array = npt.NDArray[Any]
LARGEST_SHIFT = 1.0 / 3.0  # of an edge of what is compared: beyond it frames overlap too little
_MAX_PIXELS = 960  # along an edge of what is compared; more would take longer and add little
_SMOOTHING = 1.0  # pixels: finer detail is speckle, most of which changes from frame to frame
_MIN_HEIGHT = 12.0  # of a peak, in standard deviations of the correlation of unrelated frames, which reaches 10
_SPECKLE_LEVELS = 100.0  # times the speckle that structure must have to get nearly full weight
_MAX_PASSES = 4  # two are enough, but for unrelated frames
_NEAR = 1.0 / 64.0  # of an edge: up to there the window moves the peak by a small part of a pixel
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Registered(Recording, ShortRepr):
    """Frames that were shifted, and by how much (rows, columns), shape (T, 2).

    ``unmatched`` are the numbers of the frames that share no detail with the reference and were not shifted;
    ``complete`` is False if the run was stopped, and the last frames were not shifted either.
    """

    shifts: npt.NDArray[np.int64]
    unmatched: tuple[int, ...] = ()
    complete: bool = True

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, in sentences."""
        if not self.unmatched:
            return ()
        which = ", ".join(map(str, self.unmatched[:5])) + (", ..." if len(self.unmatched) > 5 else "")
        note = (
            f"{len(self.unmatched)} of {len(self.shifts)} frames ({which}) have no detail in common with the reference "
            "(the first frame, unless one is given) and were not shifted; choose another reference, or leave "
            "registration out"
        )
        return (note,)

    def clear_outside(self, maps: ContrastMaps) -> None:
        """Clear the maps in place where a window includes pixels that lay outside of one of the frames."""
        radius = maps.settings.width // 2
        outside = np.ones(self.frames.shape[1:], bool)
        first = np.maximum(self.shifts.max(axis=0), 0)
        end = np.array(outside.shape) + np.minimum(self.shifts.min(axis=0), 0)
        reach = [np.where(ends, radius, 0) for ends in (first > 0, end < outside.shape)]
        (top, left), (bottom, right) = first + reach[0], end - reach[1]
        outside[top : max(top, bottom), left : max(left, right)] = False
        for values in (maps.signed, maps.contrast, maps.index):
            if values is not None:
                values[..., outside] = np.nan
        if maps.mask is not None:
            maps.mask[..., outside] |= EDGE


class ClearingTaker:
    """Clears maps of registered frames outside, and hands them on; see `Registered.clear_outside` and `MapTaker`."""

    def __init__(self, registered: Registered, into: Sequence[MapTaker]) -> None:
        self._registered, self._into = registered, into

    def take(self, first: int, maps: ContrastMaps) -> None:
        """Clear some maps and hand them on."""
        self._registered.clear_outside(maps)
        for taker in self._into:
            taker.take(first, maps)

    def finish(self, made: ContrastMaps, count: int) -> None:
        """Hand on what is said of them."""
        for taker in self._into:
            taker.finish(made, count)


class ShiftFinder:
    """Finds the shift in whole pixels that aligns frames with a reference.

    The shift is the peak of a correlation of both, windowed toward their borders. Spatial frequencies have the same
    weight where structure is stronger than the speckle, as in a phase correlation (Kuglin and Hines 1975), and less
    where it is not. A frame that is far off is compared again after a shift: its window had not moved with it, which
    biases the peak of broad structure toward no shift.

    For unrelated frames every frequency has a random phase, so the correlation is noise of a known standard deviation;
    a peak that is not far above it is rejected. Only the middle of large frames is compared.

    Parameters
    ----------
    reference
        Frame (Y, X).

    Raises
    ------
    InvalidInput
        If the reference is not a frame.
    """

    def __init__(self, reference: npt.ArrayLike) -> None:
        self.shape = np.shape(reference)
        if len(self.shape) != 2 or 0 in self.shape:
            raise InvalidInput(f"the reference has shape {self.shape}; give one frame (y, x)")
        self._middle = tuple(_middle(n) for n in self.shape)
        self._size = tuple(part.stop - part.start for part in self._middle)
        self._fading, self._low_pass = _fading(self._size), _low_pass(self._size)
        self._kept = tuple(slice(0, max(2, n // 4)) for n in self._size)  # frequencies that it lets pass
        self._twice = _twice(self._size)
        self._reference = np.conj(self._spectrum(np.asarray(reference), (0, 0)))

    def find(self, frame: npt.ArrayLike) -> tuple[int, int] | None:
        """Return the shift (rows, columns) of a frame, or None if it shares no detail with the reference.

        Shifts of up to a third of the edges of what is compared are found, that is of frames of up to 960 pixels. They
        are exact where structure is finer than about 30 pixels, and may be off by one where it is broader. Frames of
        less than about 40 x 40 pixels hold too little detail.

        Raises
        ------
        InvalidInput
            If the frame has another size.
        """
        if np.shape(frame) != self.shape:
            raise InvalidInput(
                f"the reference has shape {self.shape} and a frame {np.shape(frame)}; give one of its size"
            )
        image, shift = np.asarray(frame), (0, 0)
        for _ in range(_MAX_PASSES):
            more, height = self._peak(image, shift)
            shift = shift[0] + more[0], shift[1] + more[1]
            if any(abs(d) > LARGEST_SHIFT * n for d, n in zip(shift, self._size, strict=True)):
                return None
            if all(abs(d) <= max(1.0, _NEAR * n) for d, n in zip(more, self._size, strict=True)):
                return shift if height >= _MIN_HEIGHT else None
        return None

    def _peak(self, frame: Array, shift: tuple[int, int]) -> tuple[tuple[int, int], float]:
        """Return the rest of a shift, and the height of the correlation's peak in standard deviations of noise."""
        from scipy import fft

        product = self._spectrum(frame, shift)
        product *= self._reference
        size = np.abs(product)
        level = np.float32(_SPECKLE_LEVELS * float(np.median(size[self._kept])) + _TINY * float(size.max()))
        if level == 0.0:
            return (0, 0), 0.0  # one of them is uniform
        weight = self._low_pass / (size + level)
        product *= weight
        size *= weight
        correlation = fft.irfft2(product, s=self._size, overwrite_x=True)
        place = np.unravel_index(int(np.argmax(correlation)), correlation.shape)
        noise = math.sqrt(float(np.einsum("ij,ij,j->", size, size, self._twice))) / math.prod(self._size)
        rows, columns = (n - int(p) if p > n // 2 else -int(p) for p, n in zip(place, self._size, strict=True))
        return (rows, columns), float(correlation[place]) / noise

    def _spectrum(self, frame: Array, shift: tuple[int, int]) -> npt.NDArray[np.complex64]:
        """Return the spectrum of the middle of a shifted frame, padded with its mean."""
        from scipy import fft

        image, source, target = np.zeros(self._size, np.float32), [], []
        for part, n, d in zip(self._middle, frame.shape, shift, strict=True):
            first, end = max(0, part.start - d), min(n, part.stop - d)
            source.append(slice(first, end))
            target.append(slice(first - part.start + d, end - part.start + d))
        there = image[tuple(target)]
        there[...] = frame[tuple(source)]
        there -= np.float32(there.mean(dtype=np.float64))
        image *= self._fading
        return np.asarray(fft.rfft2(image, overwrite_x=True))


def _middle(pixels: int) -> slice:
    """Return the largest middle part whose length suits a Fourier transform."""
    from scipy import fft

    size = min(pixels, _MAX_PIXELS)
    while fft.next_fast_len(size, real=True) != size:
        size -= 1
    return slice((pixels - size) // 2, (pixels - size) // 2 + size)


@functools.lru_cache(maxsize=2)
def _fading(size: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return a Hann window along both axes."""
    rows, columns = (np.hanning(n + 2)[1:-1].astype(np.float32) for n in size)
    return np.outer(rows, columns)


@functools.lru_cache(maxsize=2)
def _low_pass(size: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return the spectrum of the Gaussian that smooths a correlation."""
    rows, columns = np.fft.fftfreq(size[0])[:, None], np.fft.rfftfreq(size[1])[None, :]
    return np.exp(-2.0 * (np.pi * _SMOOTHING) ** 2 * (rows**2 + columns**2)).astype(np.float32)


def _twice(size: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return how many frequencies each column of half a spectrum represents: itself, and its conjugate."""
    twice = np.full(size[1] // 2 + 1, 2.0, np.float32)
    twice[0] = 1.0
    if size[1] % 2 == 0:
        twice[-1] = 1.0
    return twice


def shift_frame(frame: Array, shift: tuple[int, int]) -> Array:
    """Return a frame shifted by whole pixels; what comes in from outside is 0, see `Registered.clear_outside`."""
    moved = np.zeros_like(frame)
    source, target = [], []
    for n, d in zip(frame.shape, shift, strict=True):
        source.append(slice(max(0, -d), n - max(0, d)))
        target.append(slice(max(0, d), n - max(0, -d)))
    moved[tuple(target)] = frame[tuple(source)]
    return moved


def _shifted(stack: FrameStack, shifts: npt.NDArray[np.int64]) -> StoredFrames:
    """Return frames that are shifted by whole pixels, (T, 2) rows and columns, when they are read."""

    def read(first: int, end: int) -> Array:
        pairs = zip(stack.load(first, end), shifts[first:end].tolist(), strict=True)
        return np.stack([shift_frame(*one) for one in pairs]) if end > first else np.empty((0, *stack.shape))

    return StoredFrames((stack.count, *stack.shape), stack.dtype, read)


def register(frames: Any, reference: npt.ArrayLike | None = None) -> Registered:
    """Shift every frame by whole pixels to align it with a reference; see `register_steps` for the arguments."""
    found = drive(register_steps(frames, reference))
    moved = np.empty(found.frames.shape, found.frames.dtype)
    for n in range(len(moved)):  # one at a time: the stack may be as large as the memory that is left
        moved[n] = found.frames[n]
    return replace(found, frames=moved)


def register_steps(
    frames: Any, reference: npt.ArrayLike | None = None, *, stop: threading.Event | None = None
) -> Generator[Step, None, Registered]:
    """Find the shifts that align frames with a reference, step by step; frames are shifted when they are read.

    Parameters
    ----------
    frames
        Stack (T, Y, X).
    reference
        Frame (Y, X); the first one of the stack if None.
    stop
        Set it to stop early; the other frames are then not shifted.

    Raises
    ------
    InvalidInput
        If the reference has another size.
    """
    stack = FrameStack(frames)
    first = stack.load(0, 1)[0] if reference is None else np.asarray(reference)
    if first.shape != stack.shape:
        raise InvalidInput(f"the reference has shape {first.shape} and a frame {stack.shape}; give one of its size")
    finder, shifts, unmatched = ShiftFinder(first), np.zeros((stack.count, 2), np.int64), []
    for n in range(1 if reference is None else 0, stack.count):
        if stop is not None and stop.is_set():
            break
        shift = finder.find(stack.load(n, n + 1)[0])
        shifts[n] = shift or (0, 0)
        if shift is None:
            unmatched.append(n)
        yield Step(n + 1, stack.count, "registration")
    else:
        return Registered(_shifted(stack, shifts), shifts, tuple(unmatched))
    return Registered(_shifted(stack, shifts), shifts, tuple(unmatched), complete=False)
