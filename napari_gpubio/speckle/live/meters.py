"""What a live status shows: rates, latencies, light levels."""

import threading
from collections import deque

import numpy as np

from napari_gpubio.speckle.live.clock import Clock
from napari_gpubio.speckle.live.frame import Pixels

_EVENTS = 64  # about two seconds of a camera, a blink of a fast one
_LEVEL_PERIOD_S = 0.1


class RateMeter:
    """The rate of the last events, and the mean of the values that came with them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._times: deque[float] = deque(maxlen=_EVENTS)
        self._values: deque[float] = deque(maxlen=_EVENTS)

    def add(self, value: float = 0.0) -> None:
        """Note an event that happens now."""
        with self._lock:
            self._times.append(self._clock.now())
            self._values.append(value)

    @property
    def rate_hz(self) -> float:
        """Events per second; it falls toward 0 when no more come."""
        with self._lock:
            n = len(self._times)
            if n < 2:
                return 0.0
            first, last = self._times[0], self._times[-1]
        # of n regular events the next one is due n periods after the first; after that moment the second term is larger
        elapsed = max(last - first, (self._clock.now() - first) * (n - 1) / n)
        return (n - 1) / elapsed if elapsed > 0 else 0.0

    @property
    def mean(self) -> float:
        """Mean of the last values, or NaN."""
        with self._lock:
            return sum(self._values) / len(self._values) if self._values else float("nan")


class LevelMeter:
    """Mean level and saturated share of frames, ten times a second at most: a look costs about 1 ms a megapixel."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_s = -float("inf")
        self.mean_level = float("nan")
        self.saturated_percent = float("nan")

    def look(self, pixels: Pixels, bits: int) -> None:
        """Measure a frame of so many bits, if it is time to."""
        if self._clock.now() - self._looked_s < _LEVEL_PERIOD_S:
            return
        self._looked_s = self._clock.now()
        self.mean_level = float(pixels.mean(dtype=np.float64))
        self.saturated_percent = 100.0 * int(np.count_nonzero(pixels >= 2**bits - 1)) / pixels.size
