"""The compiled functions of the CPU backend, the counterpart of ``dvh.cu``: same samples, same order of operations.

Every thread counts into a copy of its own: ``counts`` of shape (copies, organs, bins + 3), int64, holds the weight in
each bin, the sum of weight times dose in fine steps, what is below a step in parts of it, and the weight outside the
dose; ``extremes`` of shape (copies, organs, 3), float32, the least value, the largest, and 1 if one of them was taken
off since, so that they are no more than bounds. Strips of labels that will be painted have their own extremes instead,
shape (strips, organs, 3). Weights and sums are integers, so the order of samples does not matter. The items of the
counting kernels are the copies: number c of n takes every n-th task from the c-th on.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel, leaf
from napari_gpubio.dose.kernels.histogram import sampling
from napari_gpubio.dose.kernels.histogram.dose_grid import FINE_STEPS, BinRule
from napari_gpubio.dose.kernels.histogram.sampling import (
    DoseVoxels,
    Place,
    bin_of,
    dose_at,
    fraction,
    multiple,
    origin,
    scaled,
    shifted,
)

Array = npt.NDArray[Any]
LEAST, LARGEST, LOST = 0, 1, 2  # columns of extremes
_INFINITE, _ZERO, _HALF, _ONE = np.float32(np.inf), np.float32(0.0), np.float32(0.5), np.float32(1.0)
_FINE_STEPS = np.float32(FINE_STEPS)


class Rows(NamedTuple):
    """Rows of plane slices, their segments and tasks; see `napari_gpubio.dose.kernels.histogram.work.ContourWork`."""

    table: Array
    owner: Array
    starts: Array
    x: Array
    frames: Array
    tasks: Array


class Points(NamedTuple):
    """Points and their tasks; see `napari_gpubio.dose.kernels.histogram.work.PointWork`."""

    places: Array
    tasks: Array


class Voxels(NamedTuple):
    """A label volume; see `napari_gpubio.dose.kernels.histogram.work.LabelWork`."""

    labels: Array
    organs: Array
    divisions: Array
    frame: Array


class Strips(NamedTuple):
    """Strips of a label volume that are counted."""

    # slice i, first and end of the rows j, and row of the extremes (-1: those of the copy); shape (strips, 4), int64
    table: Array
    k_first: int  # columns
    k_end: int
    sign: int  # 1 to count voxels, -1 to take them off, 0 to find the extremes of organs that are marked as LOST


class Found(NamedTuple):
    """Sum of dose and its rest, weight outside the dose, least and largest value of some samples."""

    total: np.int64
    rest: np.int64
    outside: np.int64
    low: np.float32
    high: np.float32


@leaf
def row_y(plane: Any, row: int) -> float:
    """Position of a row, mm."""
    return plane.y_low + (np.float64(row - plane.row_first) + plane.y_offset) * plane.y_step


@leaf
def row_after(plane: Any, count: int, y: float, more: int) -> Any:
    """The first of the ``count`` rows of a slice beyond y, perhaps the one before, and ``more`` rows."""
    row = np.int64((y - plane.y_low) / plane.y_step - plane.y_offset) + more
    row = row if row < count else np.int64(count)
    return plane.row_first + (row if row > 0 else 0)


@kernel
def count_crossings(start: int, stop: int, table: Array, rows: Array, edges: Array, counts: Array) -> None:
    """Count the crossings of each row of the slices ``start`` to ``stop - 1``; ``counts`` are 0 before."""
    for n in range(start, stop):
        plane = table[n]
        for e in range(plane.edge_first, plane.edge_end):
            for row in range(row_after(plane, rows[n], edges[e, 0], 0), row_after(plane, rows[n], edges[e, 1], 2)):
                y = row_y(plane, row)
                if edges[e, 0] <= y and y < edges[e, 1]:
                    counts[row] += 1


@kernel
def find_crossings(
    start: int, stop: int, table: Array, rows: Array, edges: Array, starts: Array, ends: Array, x: Array
) -> None:
    """Find the crossings of each row, in ascending order; ``ends`` are ``starts`` before, and where they end after."""
    for n in range(start, stop):
        plane = table[n]
        for e in range(plane.edge_first, plane.edge_end):
            for row in range(row_after(plane, rows[n], edges[e, 0], 0), row_after(plane, rows[n], edges[e, 1], 2)):
                y = row_y(plane, row)
                if edges[e, 0] <= y and y < edges[e, 1]:
                    found = edges[e, 2] + (y - edges[e, 0]) * edges[e, 3]
                    place = ends[row]
                    while place > starts[row] and x[place - 1] > found:
                        x[place] = x[place - 1]
                        place -= 1
                    x[place] = found
                    ends[row] += 1


@kernel
def volume_of_segments(start: int, stop: int, table: Array, rows: Array, starts: Array, x: Array) -> float:
    """Volume of some slices by the segments of their rows, mm³."""
    total = 0.0
    for n in range(start, stop):
        plane, ends, begins = table[n], 0.0, 0.0
        for crossing in range(starts[plane.row_first], starts[plane.row_first + rows[n]], 2):
            begins += x[crossing]
            ends += x[crossing + 1]
        total += (ends - begins) * plane.y_step * plane.z_step
    return total


@leaf
def nothing() -> Found:
    """Before the first sample."""
    return Found(np.int64(0), np.int64(0), np.int64(0), _INFINITE, _ZERO)


@leaf
def tally_sample(volume: DoseVoxels, rule: BinRule, place: Place, weight: Any, bins: Array, found: Found) -> Found:
    """Count one sample at a voxel index of the dose."""
    value = dose_at(volume, place)
    if value < _ZERO:
        return Found(found.total, found.rest, found.outside + weight, found.low, found.high)
    bins[bin_of(rule, value)] += weight
    low = value if value < found.low else found.low
    high = value if value > found.high else found.high
    fine = np.float32(value * rule.fine)
    steps = np.int64(fine)
    rest = np.int64((fine - np.float32(steps)) * _FINE_STEPS)
    return Found(found.total + weight * steps, found.rest + weight * rest, found.outside, low, high)


@leaf
def add_found(found: Found, sign: int, bins: Array, extremes: Array) -> None:
    """Add what was found of an organ to its counts and extremes; taken off (-1), an extreme is lost with its sample."""
    count = len(bins) - 3
    bins[count] += found.total
    bins[count + 1] += found.rest
    bins[count + 2] += found.outside
    if sign >= 0:
        extremes[LEAST] = found.low if found.low < extremes[LEAST] else extremes[LEAST]
        extremes[LARGEST] = found.high if found.high > extremes[LARGEST] else extremes[LARGEST]
    elif found.low <= found.high and (found.low <= extremes[LEAST] or found.high >= extremes[LARGEST]):
        extremes[LOST] = _ONE


@kernel
def tally_rows(
    start: int, stop: int, volume: DoseVoxels, rule: BinRule, rows: Rows, tasks: Any, counts: Array, extremes: Array
) -> None:
    """Count the segments of rows: boxes of equal length, as high and deep as a step, one sample somewhere in each.

    ``tasks`` are the first of the tasks and their end.
    """
    for copy in range(start, stop):
        for task in range(tasks[0] + copy, tasks[1], len(counts)):
            organ, found = np.int64(rows.tasks[task, 2]), nothing()
            bins, frame = counts[copy, organ], rows.frames[organ]
            for row in range(np.int64(rows.tasks[task, 0]), np.int64(rows.tasks[task, 1])):
                plane = rows.table[rows.owner[row]]
                y = row_y(plane, row)
                y_low, y_high = y - 0.5 * plane.y_step, y + 0.5 * plane.y_step
                y_low = y_low if y_low > plane.y_low else plane.y_low
                y_high = y_high if y_high < plane.y_high else plane.y_high
                height, depth = scaled(frame, 2, y_high - y_low), scaled(frame, 3, plane.z_step)
                own = row - plane.row_first + plane.own_first  # so that the other structures do not matter
                word_x, word_y = multiple(own, sampling.ROW_X), multiple(own, sampling.ROW_Y)
                word_z = multiple(own, sampling.ROW_Z)
                for n in range(rows.starts[row], rows.starts[row + 1], 2):
                    length = rows.x[n + 1] - rows.x[n]
                    pieces = np.int64(np.ceil(length / plane.spacing))
                    pieces = pieces if pieces > 1 else np.int64(1)
                    piece = length / np.float64(pieces)
                    weight = np.int64(piece * plane.weight + 0.5)
                    begin, along = origin(frame, rows.x[n], y_low, plane.z_low), scaled(frame, 1, piece)
                    for i in range(pieces):
                        place = shifted(begin, np.float32(i) + fraction(word_x), along)
                        place = shifted(shifted(place, fraction(word_y), height), fraction(word_z), depth)
                        found = tally_sample(volume, rule, place, weight, bins, found)
                        word_x, word_y = np.uint32(word_x + sampling.SAMPLE_X), np.uint32(word_y + sampling.SAMPLE_Y)
                        word_z = np.uint32(word_z + sampling.SAMPLE_Z)
            add_found(found, 1, bins, extremes[copy, organ])


@kernel
def tally_points(
    start: int, stop: int, volume: DoseVoxels, rule: BinRule, points: Points, tasks: Any, counts: Array, extremes: Array
) -> None:
    """Count points; ``tasks`` are the first of the tasks and their end."""
    for copy in range(start, stop):
        for task in range(tasks[0] + copy, tasks[1], len(counts)):
            organ, found = np.int64(points.tasks[task, 2]), nothing()
            bins = counts[copy, organ]
            for n in range(np.int64(points.tasks[task, 0]), np.int64(points.tasks[task, 1])):
                place = points.places[n, 0], points.places[n, 1], points.places[n, 2]
                found = tally_sample(volume, rule, place, np.int64(1), bins, found)
            add_found(found, 1, bins, extremes[copy, organ])


@kernel
def tally_voxels(
    start: int,
    stop: int,
    volume: DoseVoxels,
    rule: BinRule,
    voxels: Voxels,
    strips: Strips,
    counts: Array,
    extremes: Array,
) -> None:
    """Count the samples of voxels: one at the center, or one somewhere in each of the voxel's parts."""
    labels, organs, divisions, frame = voxels
    table, k_first, k_end, sign = strips
    along_x, along_y, along_z = scaled(frame, 1, 1.0), scaled(frame, 2, 1.0), scaled(frame, 3, 1.0)
    for copy in range(start, stop):
        for n in range(copy, len(table), len(counts)):
            i, ends = table[n, 0], table[n, 3]
            ends = ends if ends >= 0 else copy
            current, found, a, b, c = np.int64(-1), nothing(), np.int64(1), np.int64(1), np.int64(1)
            for j in range(table[n, 1], table[n, 2]):
                line = origin(frame, np.float64(i), np.float64(j), 0.0)
                for k in range(k_first, k_end):
                    organ = np.int64(organs[labels[i, j, k]])
                    if organ < 0 or (sign == 0 and extremes[ends, organ, LOST] == _ZERO):
                        continue
                    if organ != current:
                        if current >= 0:
                            add_found(found, sign, counts[copy, current], extremes[ends, current])
                        current, found = organ, nothing()
                        a, b = np.int64(divisions[organ, 0]), np.int64(divisions[organ, 1])
                        c = np.int64(divisions[organ, 2])
                    center, bins = shifted(line, np.float32(k), along_z), counts[copy, organ]
                    number = ((i * labels.shape[1] + j) * labels.shape[2] + k) * (a * b * c)
                    for part_x in range(a):
                        for part_y in range(b):
                            for part_z in range(c):
                                place = center
                                if a * b * c > 1:
                                    u = fraction(multiple(number, sampling.SAMPLE_X))
                                    v = fraction(multiple(number, sampling.SAMPLE_Y))
                                    w = fraction(multiple(number, sampling.SAMPLE_Z))
                                    place = shifted(place, (np.float32(part_x) + u) / np.float32(a) - _HALF, along_x)
                                    place = shifted(place, (np.float32(part_y) + v) / np.float32(b) - _HALF, along_y)
                                    place = shifted(place, (np.float32(part_z) + w) / np.float32(c) - _HALF, along_z)
                                    number += 1
                                found = tally_sample(volume, rule, place, sign, bins, found)
            if current >= 0:
                add_found(found, sign, counts[copy, current], extremes[ends, current])
