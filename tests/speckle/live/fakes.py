"""A clock that moves only when something waits, and a source that follows a list."""

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np

from napari_gpubio.speckle.live.frame import Clock, Frame


class FakeClock(Clock):
    """Waiting moves it on, too far by ``oversleeps()``; ``meanwhile(now)`` is called after every wait."""

    def __init__(
        self, meanwhile: Callable[[float], object] = lambda now: None, oversleeps: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.time_s = 1000.0
        self.waits = 0
        self.meanwhile, self.oversleeps = meanwhile, oversleeps

    def now(self) -> float:
        return self.time_s

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        self.time_s += seconds + self.oversleeps()
        self.waits += 1
        assert self.waits < 100_000, "this clock is waited on for ever"
        self.meanwhile(self.time_s)
        return stop.is_set()


def frame(number: int, shape: tuple[int, int] = (4, 5), dtype: Any = np.uint16, arrived_s: float = 0.0) -> Frame:
    """A frame full of its number."""
    return Frame(
        pixels=np.full(shape, number % 65536, dtype), number=number, timestamp_s=0.1 * number, arrived_s=arrived_s
    )


class ListSource:
    """Gives frames of a list, calling what is callable in it."""

    name = "the list"
    shape = dtype = rate_hz = exposure_ms = None
    bits, lost, can_wait, message = 12, 0, False, ""

    def __init__(self, items: Iterable[Any], *, can_wait: bool = False) -> None:
        self.items, self.can_wait = items, can_wait
        self.opened = self.closed = 0
        self.ended = threading.Event()

    def open(self) -> None:
        self.opened += 1

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        for item in self.items:
            if stop.is_set():
                return
            if callable(item):
                item()
            else:
                yield item

    def close(self) -> None:
        self.closed += 1
        self.ended.set()
