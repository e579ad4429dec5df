"""Buffers on the graphics card that are filled piece by piece, so that many lines do not stop the window.

Each frame that goes to the screen uploads one piece and draws what is there. A frame that goes into a picture (a
screenshot, an exported figure) uploads everything first: a picture is always complete.
"""

import time
from bisect import bisect_left
from typing import Any, Protocol

import numpy.typing as npt
from vispy import gloo

PIECE_ROWS = 2**20  # 24 MB of vertices and segments: about 15 ms
_SLOW_FRAME_SECONDS = 0.2


class Screen(Protocol):
    """A window; ``painting``: whether what is being drawn now goes to the screen, and not into a picture."""

    painting: bool

    def paint_again(self) -> None:
        """Ask for another frame."""


class FrontIndexBuffer(gloo.IndexBuffer):
    """An index buffer of which only the first ``front`` indices are drawn."""

    front = 0

    @property
    def size(self) -> int:
        """Number of indices to draw."""
        return self.front


class Upload:
    """A vispy buffer, empty at first, and the array that goes into it, from the front.

    ``there`` are the rows that the graphics card has, and can draw; ``spare`` rows more can be read and are not drawn.
    """

    def __init__(self, buffer: Any, spare: int = 0) -> None:
        self.buffer = buffer
        self._spare = spare
        self.there = 0
        self.array: Any = ()
        self._sent = 0

    @property
    def pending(self) -> int:
        """Rows that still have to be sent."""
        return len(self.array) - self._sent

    def replace(self, array: npt.NDArray[Any]) -> None:
        """Take another array, contiguous in memory; nothing of the old one is drawn any more."""
        self.array, self._sent, self.there = array, 0, 0
        if len(array):
            self.buffer.set_data(array[:1])  # sets the buffer's row type
            self.buffer.resize_bytes(array.nbytes + self._spare * array.strides[0])

    def renew(self, array: npt.NDArray[Any]) -> None:
        """Take an array of the same size; old rows are drawn until new ones have taken their place."""
        self.array, self._sent = array, 0

    def send(self, rows: int) -> None:
        """Hand the next rows to vispy, which uploads them with the next draw."""
        piece = self.array[self._sent : self._sent + rows]
        if len(piece):
            self.buffer.set_subdata(piece, offset=self._sent * piece.strides[0] // self.buffer.itemsize)
            self._sent += len(piece)
            self.there = max(self.there, self._sent)


class Pace:
    """How much of an upload goes with one frame: a piece, or everything if pieces are of no use.

    Where drawing is slow (a software renderer), every further frame costs more than the upload.
    """

    def __init__(self) -> None:
        self._slow = False
        self.begin()

    def begin(self) -> None:
        """Begin an upload: the time since the last one is not that of a frame."""
        self._last = float("inf")

    def rows(self, *, on_screen: bool) -> int:
        """Return how many rows to send with this frame."""
        now = time.perf_counter()
        self._slow = self._slow or now - self._last > _SLOW_FRAME_SECONDS
        self._last = now
        return PIECE_ROWS if on_screen and not self._slow else 2**62


def drawable(segments: Upload, vertices: Upload) -> int:
    """Count the segments, from the front, that are there and whose vertices are."""
    if vertices.there == len(vertices.array):
        return segments.there
    return min(segments.there, bisect_left(segments.array[:, 1], vertices.there))
