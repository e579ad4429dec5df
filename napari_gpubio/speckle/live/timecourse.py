"""Live time courses of regions: K^2, flow relative to a baseline, and events."""

import math
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import write_rows
from napari_gpubio.speckle.indices import relative_flow

Array = npt.NDArray[np.float64]
_BLOCK = 1024  # samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A marked event.

    Parameters
    ----------
    time_s
        Time, on the clock of the samples.
    label
        Text.
    """

    time_s: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The time interval in which flow is 1, both ends included.

    Parameters
    ----------
    start_s, stop_s
        Start and end, on the clock of the samples.
    """

    start_s: float
    stop_s: float


class TimeCourse:
    """K^2 of regions over time; one thread may append while another reads.

    Flow relative to the baseline is K_0^2 / K^2, where K_0^2 is the mean of K^2 over the baseline: not of its inverse,
    whose mean is biased by noise. A region is NaN before it is added and after it is removed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._baseline: Baseline | None = None
        self._clear()

    def __len__(self) -> int:
        return self._length

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions, in the order of their addition."""
        with self._lock:
            return tuple(self._values)

    @property
    def times_s(self) -> Array:
        """Times of the samples, a copy."""
        with self._lock:
            return self._times[: self._length].copy()

    @property
    def events(self) -> tuple[Event, ...]:
        """Marked events, in the order of time."""
        with self._lock:
            return tuple(sorted(self._events, key=lambda event: event.time_s))

    @property
    def baseline(self) -> Baseline | None:
        """The interval in which flow is 1."""
        return self._baseline

    def append(self, time_s: float, contrast_squared: Mapping[str, float]) -> None:
        """Add a sample.

        Parameters
        ----------
        time_s
            Time of the sample, not before the last one.
        contrast_squared
            K^2 of each region now; NaN where it has none. New names are new regions.

        Raises
        ------
        InvalidInput
            If the time is not finite or goes back.
        """
        with self._lock:
            if not math.isfinite(time_s) or (self._length and time_s < self._times[self._length - 1]):
                raise InvalidInput(f"the sample's time is {time_s} s; it must not be before the last one")
            self._reserve([name for name in contrast_squared if name not in self._values])
            self._times[self._length] = time_s
            for name, value in contrast_squared.items():
                self._values[name][self._length] = value
            self._length += 1

    def contrast_squared(self, region: str) -> Array:
        """K^2 of a region at every sample, a copy.

        Raises
        ------
        InvalidInput
            If there is no such region.
        """
        with self._lock:
            return self._of(region).copy()

    def mark(self, time_s: float, label: str) -> None:
        """Mark an event, at any time."""
        if not math.isfinite(time_s):
            raise InvalidInput(f"the event's time is {time_s} s; give a finite number")
        with self._lock:
            self._events.append(Event(time_s=time_s, label=label))

    def set_baseline(self, start_s: float, stop_s: float) -> None:
        """Set the time interval in which flow is 1.

        Raises
        ------
        InvalidInput
            If it ends before it starts, or has no sample.
        """
        if not start_s <= stop_s:
            raise InvalidInput(
                f"the baseline goes from {start_s} s to {stop_s} s; its end must not be before its start"
            )
        with self._lock:
            if not _within(self._times[: self._length], start_s, stop_s).any():
                raise InvalidInput(f"the baseline from {start_s:g} s to {stop_s:g} s holds no sample; make it longer")
            self._baseline = Baseline(start_s=start_s, stop_s=stop_s)

    def relative_flow(self, region: str) -> Array:
        """K_0^2 / K^2 of a region at every sample; NaN without values in a baseline or where K^2 < 0, inf where 0."""
        with self._lock:
            values, times = self._of(region), self._times[: self._length]
            if self._baseline is None:
                return np.full(self._length, np.nan)
            inside = values[_within(times, self._baseline.start_s, self._baseline.stop_s)]
            inside = inside[np.isfinite(inside)]
            if not inside.size:
                return np.full(self._length, np.nan)
            return relative_flow(values, inside.mean())

    def clear(self) -> None:
        """Remove all samples, events and the baseline."""
        with self._lock:
            self._clear()

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all samples and events in the order of time; an event has a row of its own, without values.

        Raises
        ------
        InvalidInput
            If the file cannot be written; an existing file is then unchanged.
        """
        write_rows(path, self._rows())

    def _rows(self) -> list[list[Any]]:
        times, regions = self.times_s, self.regions
        columns = [self.contrast_squared(name) for name in regions] + [self.relative_flow(name) for name in regions]
        samples = [
            (times[i], [f"{times[i]:.6f}", *(repr(float(c[i])) for c in columns), ""]) for i in range(len(times))
        ]
        blank = [""] * len(columns)
        marked = [(event.time_s, [f"{event.time_s:.6f}", *blank, event.label]) for event in self.events]
        head = ["time_s", *(f"{name} K^2" for name in regions), *(f"{name} relative flow" for name in regions), "event"]
        return [head, *(row for _, row in sorted(samples + marked, key=lambda pair: pair[0]))]

    def _clear(self) -> None:
        self._length = 0
        self._times: Array = np.full(_BLOCK, np.nan)
        self._values: dict[str, Array] = {}
        self._events: list[Event] = []
        self._baseline = None

    def _reserve(self, new_regions: list[str]) -> None:
        """Reserve memory for one more sample of old and new regions."""
        if self._length == self._times.size:
            more = np.full(max(_BLOCK, self._length // 2), np.nan)  # by half: a long run copies each sample few times
            self._times = np.concatenate([self._times, more])
            self._values = {name: np.concatenate([values, more]) for name, values in self._values.items()}
        for name in new_regions:
            self._values[name] = np.full(self._times.size, np.nan)

    def _of(self, region: str) -> Array:
        if region not in self._values:
            raise InvalidInput(f"there is no region {region!r}; there are {', '.join(self._values) or 'none'}")
        return self._values[region][: self._length]


def _within(times: Array, start_s: float, stop_s: float) -> npt.NDArray[np.bool_]:
    return np.asarray((times >= start_s) & (times <= stop_s))
