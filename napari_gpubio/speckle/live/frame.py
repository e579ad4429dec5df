"""Live frames: the clock, a frame, the protocol of sources, and a steady frame rate."""

import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.short_repr import ShortRepr


class Clock:
    """The machine's clock; tests use another one."""

    def now(self) -> float:
        """Return seconds on a monotonic clock with an arbitrary zero."""
        return time.perf_counter()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until the time is over or the event is set; return whether it is set."""
        return stop.wait(max(0.0, seconds))


CLOCK = Clock()
Pixels = npt.NDArray[Any]
CAMERA_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16))
_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame(ShortRepr):
    """One raw frame.

    Parameters
    ----------
    pixels
        Shape (H, W), uint8 or uint16. The memory may be reused for the next frame: copy what you keep.
    number
        Counts the frames of the source from 0; a gap means frames lost at the source.
    timestamp_s
        Time of exposure, in seconds since the start, on the source's own clock.
    arrived_s
        Time of arrival, in seconds on the loop's clock.
    """

    pixels: Pixels
    number: int
    timestamp_s: float
    arrived_s: float


def camera_pixels(array: npt.ArrayLike, what: str) -> Pixels:
    """Return a frame's pixels as uint8 or uint16, shape (H, W), without changing a value.

    Parameters
    ----------
    array
        The frame. Other integers become uint16 if they fit.
    what
        Name of the frame in error messages.

    Raises
    ------
    InvalidInput
        If the frame is not one channel of integers of 8 to 16 bits.
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
    """Raise InvalidInput unless the type is an integer type."""
    if np.dtype(dtype).kind not in "iu":
        raise InvalidInput(
            f"{what} holds {np.dtype(dtype)} values; live imaging needs raw integers of 8 to 16 bits, "
            "for instance stack.round().astype('uint16')"
        )


def bits_of(dtype: npt.DTypeLike) -> int:
    """Return the bits per pixel after `camera_pixels`: 8 or 16."""
    return 8 if np.dtype(dtype) == np.uint8 else 16


class SourceFailed(GpuBioError, RuntimeError):
    """A source stopped working; the message names what to check."""


class Source(Protocol):
    """Source of frames of one size.

    All methods are called from one thread of the loop. A GUI may read the attributes at any time.
    """

    name: str
    """Name in messages."""
    shape: tuple[int, int] | None
    """(H, W); None until it is known, at the latest with the first frame."""
    dtype: npt.DTypeLike | None
    """uint8 or uint16; known together with the shape."""
    rate_hz: float | None
    """Requested frames per second; None if the source sets its own rate."""
    exposure_ms: float | None
    """Exposure time, if known."""
    can_wait: bool
    """Whether it loses no frames by waiting: a slow process then delays it instead of dropping frames."""
    lost: int
    """Frames known to have been lost at the source."""
    message: str
    """Text for the status line, or empty."""

    @property
    def bits(self) -> int:
        """Bits of a pixel: the largest value, 2^bits - 1, counts as saturated."""

    def open(self) -> None:
        """Prepare to deliver frames.

        Raises
        ------
        InvalidInput, SourceFailed
            If the source cannot be used.
        """

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        """Yield frames until there are no more or the event is set, which is also checked while waiting."""

    def close(self) -> None:
        """Release what was opened; may be called repeatedly."""


MAX_LATE_S = 1.0


def checked_rate(rate_hz: float) -> float:
    """Return the rate, or raise InvalidInput unless it is positive and finite."""
    if not 0 < rate_hz < float("inf"):
        raise InvalidInput(f"the rate is {rate_hz} frames/s; give a positive number")
    return float(rate_hz)


def paced(rate_hz: float, clock: Clock, stop: threading.Event) -> Iterator[int]:
    """Yield 0, 1, 2, ...: number k at k / rate after the first, until the event is set.

    Times count from the first number, so that delays do not add up. After a delay of more than `MAX_LATE_S` (the
    machine slept) they count from then on, so that no burst follows.
    """
    begun, number = clock.now(), 0
    while not stop.is_set():
        late_s = clock.now() - (begun + number / rate_hz)
        if late_s < 0:
            clock.wait(stop, -late_s)
            continue  # a wait may end early
        if late_s > MAX_LATE_S:
            begun += late_s
        yield number
        number += 1
