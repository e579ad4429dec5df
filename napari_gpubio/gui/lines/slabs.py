"""Which segments lie in a slab around a slice: sorted along an axis once, found by two additions ever after.

A slice of a head cuts a few percent of its fibers. Segments are sorted by the bin that their middle lies in (a counting
sort), and the bins of a slab are one stretch of that order.
"""

from typing import Any

import numpy as np

from napari_gpubio.core.jit import helper, kernel
from napari_gpubio.gui.lines.packed import Lines, Segments

BIN = 0.5  # data units, mm as a rule
_LONGEST = 4 * BIN  # segments longer than this, of which there are few, come with every slab


class SegmentOrder:
    """The segments of lines in their order along one axis.

    Parameters
    ----------
    lines
        All of their segments are sorted, whether their lines are shown or not.
    axis
        0, 1 or 2 for x, y or z of the vertices.
    """

    def __init__(self, lines: Lines, axis: int) -> None:
        low, high = lines.lows[:, axis].min(initial=np.inf), lines.highs[:, axis].max(initial=-np.inf)
        self._low = float(low)
        self._bins = int((high - low) / BIN) + 1 if high >= low else 0
        self._first = np.zeros(self._bins + 2, np.int64)
        self._sorted = np.empty_like(lines.segments)
        if len(lines.segments):
            _sort(lines.vertices, lines.segments, axis, self._low, self._first, self._sorted)

    def within(self, low: float, high: float) -> Segments:
        """Return the segments that come between two positions on the axis, and few others, shape (S, 2)."""
        if not self._bins:
            return self._sorted
        start = int(np.clip(np.floor((low - _LONGEST / 2 - self._low) / BIN), 0, self._bins))
        stop = int(np.clip(np.floor((high + _LONGEST / 2 - self._low) / BIN) + 1, start, self._bins))
        near, long = self._sorted[self._first[start] : self._first[stop]], self._sorted[self._first[self._bins] :]
        return np.concatenate([near, long]) if len(long) else near


def shown_only(lines: Lines, segments: Segments) -> Segments:
    """Return those of some segments whose lines are shown."""
    if lines.shown.all():
        return segments
    return segments[np.repeat(lines.shown, lines.counts)[segments[:, 0]]]


@helper
def _bin_of(a: float, b: float, low: float, bins: int) -> Any:
    """The bin of the middle of a segment; long ones lie behind all bins."""
    if abs(b - a) > _LONGEST:
        return bins
    return min(bins - 1, np.int64((0.5 * (a + b) - low) / BIN))


@kernel
def _sort(vertices: Any, segments: Any, axis: int, low: float, first: Any, out: Any) -> None:
    """Sort segments by bin; ``first``, zeros at first, takes where each bin begins, and where the long ones do."""
    bins = len(first) - 2
    for n in range(len(segments)):
        at = _bin_of(vertices[segments[n, 0], axis], vertices[segments[n, 1], axis], low, bins)
        first[at + 1] += 1
    for n in range(bins + 1):
        first[n + 1] += first[n]
    for n in range(len(segments) - 1, -1, -1):  # from the back, so that each bin's end moves to its beginning
        at = _bin_of(vertices[segments[n, 0], axis], vertices[segments[n, 1], axis], low, bins)
        first[at + 1] -= 1
        out[first[at + 1], 0] = segments[n, 0]
        out[first[at + 1], 1] = segments[n, 1]
    for n in range(bins + 1):
        first[n] = first[n + 1]
    first[bins + 1] = len(segments)
