"""What every source of live frames is."""

import threading
from collections.abc import Generator
from typing import Protocol

import numpy.typing as npt

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.speckle.live.frame import Frame


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

    @property
    def bits(self) -> int:
        """Bits of a pixel: the largest value, 2^bits - 1, counts as saturated."""

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
