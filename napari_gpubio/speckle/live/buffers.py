"""Buffers between threads: a ring of frames, and the newest result."""

import dataclasses
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.frame import Frame, Pixels

MIN_SLOTS = 3  # one is written, one is read, one waits


class FrameMode(StrEnum):
    """Which frames are taken.

    With EVERY_FRAME they come in order and none is passed over; when the ring is full, the oldest waiting frame is
    *dropped*. With MAX_RECENT the newest is taken and those that wait before it are *skipped*.
    """

    EVERY_FRAME = "every frame"
    MAX_RECENT = "most recent"


@dataclass(frozen=True, slots=True, kw_only=True)
class RingCounts:
    """Counts of frames: ``received == taken + dropped + skipped + waiting`` at every moment.

    Frames are dropped because the ring was full ("every frame"), and skipped on purpose ("most recent").
    """

    received: int = 0
    taken: int = 0
    dropped: int = 0
    skipped: int = 0
    waiting: int = 0


class Ring:
    """A ring of slots between one thread that puts frames in and one that takes them out.

    The slots are allocated with the first frame (`Ring.nbytes`) and never grow. Waiting threads sleep.

    Parameters
    ----------
    slots
        Number of slots, at least 3.
    mode
        Which frames are taken.

    Raises
    ------
    InvalidInput
        If there are too few slots, or the mode is unknown.
    """

    def __init__(self, slots: int = 16, mode: FrameMode | str = FrameMode.EVERY_FRAME) -> None:
        if slots < MIN_SLOTS:
            raise InvalidInput(f"the ring has {slots} slots; it must have at least {MIN_SLOTS}")
        if mode not in list(FrameMode):
            raise InvalidInput(f"mode is {mode!r}; choose one of {', '.join(repr(str(each)) for each in FrameMode)}")
        self.slots = slots
        self.mode = FrameMode(mode)
        self._changed = threading.Condition()
        self._memory: Pixels | None = None
        self._free: deque[int] = deque()
        self._waiting: deque[tuple[int, Frame]] = deque()
        self._counts: Counter[str] = Counter()  # as `RingCounts`, without those that wait
        self._closed = self._discarded = False

    @property
    def nbytes(self) -> int:
        """Memory of the slots; 0 before the first frame."""
        return 0 if self._memory is None else self._memory.nbytes

    @property
    def counts(self) -> RingCounts:
        """Counts of frames at this moment."""
        with self._changed:
            return RingCounts(**self._counts, waiting=len(self._waiting))

    @property
    def ended(self) -> bool:
        """Whether it is closed and nothing more can be taken."""
        with self._changed:
            return self._closed and not self._takeable

    def put(self, frame: Frame, *, can_wait: bool = False) -> bool:
        """Copy a frame into a slot.

        Parameters
        ----------
        frame
            A frame of the same size and type as the first one.
        can_wait
            Wait for a free slot instead of dropping a frame (every frame); for sources that lose nothing meanwhile.

        Returns
        -------
        bool
            False if the ring is closed; the frame is then not counted.

        Raises
        ------
        InvalidInput
            If the frame's size or type changed.
        """
        memory = self._memory_for(frame.pixels)
        slot = self._slot(can_wait=can_wait and self.mode is FrameMode.EVERY_FRAME)
        if slot is None:
            return False
        np.copyto(memory[slot], frame.pixels)  # outside the lock: it takes a while, and no other thread uses this slot
        with self._changed:
            self._waiting.append((slot, dataclasses.replace(frame, pixels=memory[slot])))
            self._counts["received"] += 1
            self._changed.notify_all()
        return True

    @contextmanager
    def take(self, timeout_s: float | None = None) -> Iterator[Frame | None]:
        """Yield a frame, or None if the ring is closed and empty or the time is over.

        The frame's pixels are memory of the ring, valid within the block only.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._takeable or self._closed, timeout_s)
            taken = self._next() if self._takeable else None
        try:
            yield taken[1] if taken else None
        finally:
            if taken:
                with self._changed:
                    self._free.append(taken[0])
                    self._changed.notify_all()

    def close(self, *, discard: bool = False) -> None:
        """Accept no more frames. Waiting frames can still be taken, unless ``discard``; they stay counted."""
        with self._changed:
            self._closed = True
            self._discarded = self._discarded or discard
            self._changed.notify_all()

    def _memory_for(self, pixels: Pixels) -> Pixels:
        if self._memory is None:
            self._memory = np.empty((self.slots, *pixels.shape), pixels.dtype)
            self._free.extend(range(self.slots))
        elif self._memory.shape[1:] != pixels.shape or self._memory.dtype != pixels.dtype:
            raise InvalidInput(
                f"the frames changed from {_size(self._memory[0])} to {_size(pixels)}; "
                "stop and start again after a change of the camera's region, binning or pixel type"
            )
        return self._memory

    def _slot(self, *, can_wait: bool) -> int | None:
        """Return a slot to write to; if none is free, that of the oldest waiting frame."""
        with self._changed:
            if can_wait:
                self._changed.wait_for(lambda: self._free or self._closed)
            if self._closed:
                return None
            if self._free:
                return self._free.popleft()
            self._counts["dropped" if self.mode is FrameMode.EVERY_FRAME else "skipped"] += 1
            return self._waiting.popleft()[0]

    @property
    def _takeable(self) -> bool:
        return bool(self._waiting) and not self._discarded

    def _next(self) -> tuple[int, Frame]:
        if self.mode is FrameMode.MAX_RECENT:
            while len(self._waiting) > 1:
                self._free.append(self._waiting.popleft()[0])
                self._counts["skipped"] += 1
        self._counts["taken"] += 1
        return self._waiting.popleft()


def _size(pixels: Pixels) -> str:
    height, width = pixels.shape
    return f"{width} x {height} {pixels.dtype}"


Result = TypeVar("Result")


class Latest(Generic[Result]):
    """The newest result, for a reader that comes at any time: a triple buffer.

    A worker publishes, a GUI's timer takes; neither waits for the other. At most three results are in use: the one
    being computed, the newest, and the one that the reader still shows. The memory of any other can be reused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: Result | None = None
        self._shown: Result | None = None
        self._spare: list[Result] = []  # two at most

    def publish(self, result: Result) -> None:
        """Replace the newest result; one that was not taken becomes spare."""
        with self._lock:
            self._give_back(self._newest)
            self._newest = result

    def take(self) -> Result | None:
        """Return the newest result, or None if there is none since the last call.

        The result taken before becomes spare.
        """
        with self._lock:
            if self._newest is None:
                return None
            self._give_back(self._shown)
            self._shown, self._newest = self._newest, None
            return self._shown

    def spare(self) -> Result | None:
        """Return a result that is no longer used, whose memory may be reused, or None."""
        with self._lock:
            return self._spare.pop() if self._spare else None

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._newest = self._shown = None
            self._spare.clear()

    def _give_back(self, result: Result | None) -> None:
        if result is not None:
            self._spare = [result, *self._spare[:1]]
