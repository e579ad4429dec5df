"""The clock that everything live is timed by; tests put another in its place."""

import threading
import time
from typing import Protocol


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
