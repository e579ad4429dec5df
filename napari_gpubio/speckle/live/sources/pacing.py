"""Frames at a steady pace, without drift."""

import threading
from collections.abc import Iterator

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.clock import Clock

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
