"""Frames, the sources that they come from, and the clock that everything live is timed by."""

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import GpuBioError, InvalidInput


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Seconds on a clock that never goes back; its zero means nothing."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait so long, or until the event is set; return whether it is."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds on a clock that never goes back; its zero means nothing."""
        return time.perf_counter()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait so long, or until the event is set; return whether it is."""
        return stop.wait(max(0.0, seconds))


CLOCK: Clock = SystemClock()


Pixels = npt.NDArray[Any]
CAMERA_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16))
_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One raw frame.

    Parameters
    ----------
    pixels
        Shape (H, W), uint8 or uint16. It may be memory that is used again for the next frame: copy what you keep.
    number
        Counts the frames of the source from 0; a gap tells of frames that were lost before they came here.
    timestamp_s
        When it was taken, in seconds since the source began, on the source's own clock.
    arrived_s
        When it came here, in seconds on the loop's clock.
    """

    pixels: Pixels
    number: int
    timestamp_s: float
    arrived_s: float


def camera_pixels(array: npt.ArrayLike, what: str) -> Pixels:
    """Return a frame's pixels as uint8 or uint16, shape (H, W), without a change of any value.

    Parameters
    ----------
    array
        The frame. Other integers become uint16 where they fit.
    what
        The frame as the user knows it, for the error.

    Raises
    ------
    InvalidInput
        If it is not one channel of integers of 8 to 16 bits.
    """
    pixels = np.asarray(array)
    if pixels.ndim != 2 or 0 in pixels.shape:
        color = "; it looks like a color image" if pixels.ndim == 3 and pixels.shape[-1] in (3, 4) else ""
        raise InvalidInput(f"{what} has shape {pixels.shape}{color}; give frames of one channel, (height, width)")
    check_camera_type(pixels.dtype, what)
    if pixels.dtype in CAMERA_TYPES:
        return pixels
    if pixels.min() < 0 or pixels.max() > _MOST:
        raise InvalidInput(
            f"{what} has values from {pixels.min()} to {pixels.max()}; give raw frames of 8 to 16 bits (0 to {_MOST})"
        )
    return pixels.astype(np.uint16)


def check_camera_type(dtype: npt.DTypeLike, what: str) -> None:
    """Raise InvalidInput unless the type is one of integers."""
    if np.dtype(dtype).kind not in "iu":
        raise InvalidInput(
            f"{what} holds {np.dtype(dtype)} values; live imaging needs raw integers of 8 to 16 bits, "
            "for instance stack.round().astype('uint16')"
        )


def bits_of(dtype: npt.DTypeLike) -> int:
    """Bits of the type that frames of this type are handed on in: 8 or 16."""
    return 8 if np.dtype(dtype) == np.uint8 else 16


class SourceFailed(GpuBioError, RuntimeError):
    """A source that worked has stopped working; the message says what to look at."""


class Source(Protocol):
    """Gives frames, one after the other, all of one size.

    Everything is called from one thread of the loop. A GUI may read the attributes at any time.
    """

    name: str
    """The source as the user knows it."""
    shape: tuple[int, int] | None
    """(H, W); None until it is known, which is with the first frame at the latest."""
    dtype: npt.DTypeLike | None
    """uint8 or uint16; known when the shape is."""
    bits: int
    """Bits of a pixel: the largest value, 2^bits - 1, counts as saturated."""
    rate_hz: float | None
    """Frames per second as asked for; None where the source sets its own pace."""
    exposure_ms: float | None
    """Exposure time, where the source knows it."""
    patient: bool
    """Whether it loses nothing by waiting: then a slow process delays it, instead of costing frames."""
    lost: int
    """Frames known to have been lost before they came here."""
    message: str
    """A sentence for the status line, or nothing."""

    def open(self) -> None:
        """Get ready.

        Raises
        ------
        InvalidInput, SourceFailed
            With a sentence.
        """

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        """Give frames until there are no more or the event is set, which is looked at while waiting."""

    def close(self) -> None:
        """Let go of what was opened; harmless when repeated."""


MOST_LATE_S = 1.0


def checked_rate(rate_hz: float) -> float:
    """Return the rate, or raise InvalidInput unless it is positive and finite."""
    if not 0 < rate_hz < float("inf"):
        raise InvalidInput(f"the rate is {rate_hz} frames/s; give a positive number")
    return float(rate_hz)


def paced(rate_hz: float, clock: Clock, stop: threading.Event) -> Iterator[int]:
    """Yield 0, 1, 2 … , number k at k / rate after the first, until the event is set.

    A number that comes late makes no other late: its listeners catch up, as the times are counted from the first. Who
    is more than `MOST_LATE_S` late (the machine slept) begins counting anew, so that no burst follows.
    """
    begun, number = clock.now(), 0
    while not stop.is_set():
        late_s = clock.now() - (begun + number / rate_hz)
        if late_s < 0:
            clock.wait(stop, -late_s)
            continue  # a wait may end early
        if late_s > MOST_LATE_S:
            begun += late_s
        yield number
        number += 1
