"""Which segments lie in a slab around a slice: sorted along an axis once, found by two additions ever after.

A slice of a head cuts a few percent of its fibers. Segments are sorted by the bin that their middle lies in (a counting
sort), and the bins of a slab are one stretch of that order.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel, run_blocks
from napari_gpubio.gui.lines.packed import Lines, Segments

BIN = 0.5  # data units, mm as a rule
_MIN_SEGMENTS_FOR_THREAD = 20_000
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
        self._line_of = np.empty(len(lines.segments), np.uint32)
        if len(lines.segments):
            _sort(lines.vertices, lines.offsets, axis, self._low, self._first, self._sorted, self._line_of)

    def within(self, low: float, high: float, shown: npt.NDArray[np.bool_] | None = None) -> Segments:
        """Return the segments that come between two positions on the axis, and few others, shape (S, 2).

        ``shown`` leaves only those of some lines, shape (F,).
        """
        if not self._bins:
            return self._sorted
        start = int(np.clip(np.floor((low - _LONGEST / 2 - self._low) / BIN), 0, self._bins))
        stop = int(np.clip(np.floor((high + _LONGEST / 2 - self._low) / BIN) + 1, start, self._bins))
        near, long = slice(self._first[start], self._first[stop]), slice(self._first[self._bins], None)
        return np.concatenate([self._part(near, shown), self._part(long, shown)])

    def _part(self, part: slice, shown: npt.NDArray[np.bool_] | None) -> Segments:
        segments = self._sorted[part]
        return segments if shown is None or shown.all() else segments[shown[self._line_of[part]]]


def ends_of(segments: Segments, vertices: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the vertices (x, y, z, color) of segments, one after another, shape (2 S, 4)."""
    ends = np.empty((2 * len(segments), 4), np.float32)
    run_blocks(_copy_ends, len(segments), segments, vertices, ends, least=_MIN_SEGMENTS_FOR_THREAD)
    return ends


@kernel
def _copy_ends(start: int, stop: int, segments: Any, vertices: Any, ends: Any) -> None:
    for n in range(start, stop):
        for end in range(2):
            vertex = segments[n, end]
            for part in range(4):
                ends[2 * n + end, part] = vertices[vertex, part]


@helper
def _bin_of(a: float, b: float, low: float, bins: int) -> Any:
    """The bin of the middle of a segment; long ones lie behind all bins."""
    if abs(b - a) > _LONGEST:
        return bins
    return min(bins - 1, np.int64((0.5 * (a + b) - low) / BIN))


@kernel
def _sort(vertices: Any, offsets: Any, axis: int, low: float, first: Any, out: Any, line_of: Any) -> None:
    """Sort segments by bin; ``first``, zeros at first, takes where each bin begins, and where the long ones do."""
    bins = len(first) - 2
    for line in range(len(offsets) - 1):
        for n in range(offsets[line], offsets[line + 1] - 1):
            first[_bin_of(vertices[n, axis], vertices[n + 1, axis], low, bins) + 1] += 1
    for n in range(bins + 1):
        first[n + 1] += first[n]
    for line in range(len(offsets) - 2, -1, -1):  # from the back, so that each bin's end moves to its beginning
        for n in range(offsets[line + 1] - 2, offsets[line] - 1, -1):
            at = _bin_of(vertices[n, axis], vertices[n + 1, axis], low, bins) + 1
            first[at] -= 1
            out[first[at], 0] = n
            out[first[at], 1] = n + 1
            line_of[first[at]] = line
    total = out.shape[0]
    for n in range(bins + 1):
        first[n] = first[n + 1]
    first[bins + 1] = total
