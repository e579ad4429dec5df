"""Samples of structures, their dose and its bins (Numba), the counterpart of ``dvh.cu``: same order of operations.

Every thread counts into copies of its own: ``counts`` of shape (threads, organs, bins + 2), int64, holds the weight in
each bin, the sum of weight times dose in fine steps, and the weight outside the dose; ``extremes`` of shape (threads,
organs, 3), float32, the least value, the largest, and 1 if one of them was taken off since, so that they are no more
than bounds. Strips of labels that will be painted have extremes of their own instead, shape (strips, organs, 3), which
only the thread with that strip writes to. Weights and sums are integers, so the order of samples means nothing. Tasks
are functions of their own, not inlined into the parallel loops: there Numba would take some of what is written to parts
of arrays for dead code.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.kernels.histogram import lattice
from napari_gpubio.dose.kernels.histogram.bins import BinRule
from napari_gpubio.dose.kernels.histogram.chords import row_y
from napari_gpubio.dose.kernels.histogram.interpolate import Volume, bin_of, dose_at, fine_dose
from napari_gpubio.dose.kernels.histogram.lattice import fraction, multiple

Array = npt.NDArray[Any]
_jit_task = nb.njit(cache=True, nogil=True, error_model="numpy")
_jit = nb.njit(inline="always")  # a call would count references to every array
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
_F, _U = np.float32, np.uint32
_ZERO, _HALF, _ONE = _F(0.0), _F(0.5), _F(1.0)
_NONE = np.int64(0)
LEAST, LARGEST, LOST = 0, 1, 2  # columns of extremes


class Rows(NamedTuple):
    """Rows of sheets, their chords and their tasks; see `napari_gpubio.dose.kernels.histogram.work.ContourWork`."""

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
    """A label volume, see `napari_gpubio.dose.kernels.histogram.work.LabelWork`, and the extremes of all strips."""

    labels: Array
    organs: Array
    divisions: Array
    frame: Array
    strip_extremes: Array


class Found(NamedTuple):
    """Sum of dose, weight outside the dose, least and largest value of some samples."""

    total: np.int64
    outside: np.int64
    low: np.float32
    high: np.float32


@_jit
def nothing() -> Found:
    """Before the first sample."""
    return Found(_NONE, _NONE, _F(np.inf), _ZERO)


@_jit
def tally_sample(volume: Volume, rule: BinRule, place: Any, weight: int, counts: Array, found: Found) -> Found:
    """Count one sample at a voxel index of the dose."""
    value = dose_at(volume, place[0], place[1], place[2])
    if value < _ZERO:
        return Found(found.total, found.outside + weight, found.low, found.high)
    counts[bin_of(rule, value)] += weight
    total = found.total + weight * fine_dose(rule, value)
    return Found(total, found.outside, min(found.low, value), max(found.high, value))


@_jit
def add_sums(found: Found, counts: Array) -> None:
    """Add the sum of dose and the weight outside the dose to a thread's counts of an organ."""
    bins = len(counts) - 2
    counts[bins] += found.total
    counts[bins + 1] += found.outside


@_jit
def keep(found: Found, counts: Array, extremes: Array) -> None:
    """Add what was found in samples of an organ to a thread's counts and extremes of that organ."""
    add_sums(found, counts)
    extremes[LEAST] = min(extremes[LEAST], found.low)
    extremes[LARGEST] = max(extremes[LARGEST], found.high)


@_jit
def let_go(found: Found, counts: Array, extremes: Array) -> None:
    """The same for samples of weight -1; an extreme that goes with them is lost."""
    add_sums(found, counts)
    if found.low <= found.high and (found.low <= extremes[LEAST] or found.high >= extremes[LARGEST]):
        extremes[LOST] = _ONE


@_jit
def scaled(direction: Array, factor: float) -> Any:
    """A direction times a length, as float32."""
    return _F(direction[0] * factor), _F(direction[1] * factor), _F(direction[2] * factor)


@_jit
def origin(frame: Array, x: float, y: float, z: float) -> Any:
    """Dose index of a place in a frame, as float32."""
    return (
        _F(frame[0, 0] + x * frame[1, 0] + y * frame[2, 0] + z * frame[3, 0]),
        _F(frame[0, 1] + x * frame[1, 1] + y * frame[2, 1] + z * frame[3, 1]),
        _F(frame[0, 2] + x * frame[1, 2] + y * frame[2, 2] + z * frame[3, 2]),
    )


@_jit
def shifted(place: Any, amount: np.float32, direction: Any) -> Any:
    """A place moved along a direction."""
    return (
        place[0] + amount * direction[0],
        place[1] + amount * direction[1],
        place[2] + amount * direction[2],
    )


@_jit
def tally_row(volume: Volume, rule: BinRule, rows: Rows, row: int, counts: Array, found: Found) -> Found:
    """Count the chords of a row: boxes of equal length, as high and deep as a step, one sample somewhere in each."""
    sheet = rows.table[rows.owner[row]]
    frame, y = rows.frames[sheet.organ], row_y(sheet, row)
    y_low, y_high = max(y - 0.5 * sheet.y_step, sheet.y_low), min(y + 0.5 * sheet.y_step, sheet.y_high)
    height, depth = scaled(frame[2], y_high - y_low), scaled(frame[3], sheet.z_step)
    own = row - sheet.row_first + sheet.own_first  # so that the other structures mean nothing
    word_x, word_y, word_z = multiple(own, lattice.ROW_X), multiple(own, lattice.ROW_Y), multiple(own, lattice.ROW_Z)
    for n in range(rows.starts[row], rows.starts[row + 1], 2):
        length = rows.x[n + 1] - rows.x[n]
        pieces: Any = max(np.int64(np.ceil(length / sheet.spacing)), 1)
        piece = length / np.float64(pieces)
        weight = np.int64(piece * sheet.weight + 0.5)
        start, along = origin(frame, rows.x[n], y_low, sheet.z_low), scaled(frame[1], piece)
        for i in range(pieces):
            place = shifted(start, _F(i) + fraction(word_x), along)
            place = shifted(shifted(place, fraction(word_y), height), fraction(word_z), depth)
            found = tally_sample(volume, rule, place, weight, counts, found)
            word_x, word_y = _U(word_x + lattice.SAMPLE_X), _U(word_y + lattice.SAMPLE_Y)
            word_z = _U(word_z + lattice.SAMPLE_Z)
    return found


@_jit_task
def rows_task(volume: Volume, rule: BinRule, rows: Rows, task: int, counts: Array, extremes: Array) -> None:
    """Count rows of one structure."""
    first, end, organ = rows.tasks[task]
    found = nothing()
    for row in range(first, end):
        found = tally_row(volume, rule, rows, row, counts[organ], found)
    keep(found, counts[organ], extremes[organ])


@_jit_parallel
def tally_rows(volume: Volume, rule: BinRule, rows: Rows, work: Any, counts: Array, extremes: Array) -> None:
    """Count tasks of rows; ``work`` is the first of them and their number."""
    threads, (start, count) = len(counts), work
    for thread in nb.prange(threads):
        for task in range(start + thread, start + count, threads):
            rows_task(volume, rule, rows, task, counts[thread], extremes[thread])


@_jit_task
def points_task(volume: Volume, rule: BinRule, points: Points, task: int, counts: Array, extremes: Array) -> None:
    """Count points of one structure."""
    first, end, organ = points.tasks[task]
    found = nothing()
    for n in range(first, end):
        place = points.places[n, 0], points.places[n, 1], points.places[n, 2]
        found = tally_sample(volume, rule, place, np.int64(1), counts[organ], found)
    keep(found, counts[organ], extremes[organ])


@_jit_parallel
def tally_points(volume: Volume, rule: BinRule, points: Points, work: Any, counts: Array, extremes: Array) -> None:
    """Count tasks of points; ``work`` is the first of them and their number."""
    threads, (start, count) = len(counts), work
    for thread in nb.prange(threads):
        for task in range(start + thread, start + count, threads):
            points_task(volume, rule, points, task, counts[thread], extremes[thread])


@_jit
def tally_voxel(
    volume: Volume, rule: BinRule, voxels: Voxels, center: Any, key: int, weight: int, own: Any, found: Found
) -> Found:
    """Count the samples of one voxel: one at its center, or one somewhere in each of its parts."""
    organ, counts = own
    a, b, c = voxels.divisions[organ]
    if a * b * c == 1:
        return tally_sample(volume, rule, center, weight, counts, found)
    along_x, along_y, along_z = scaled(voxels.frame[1], 1.0), scaled(voxels.frame[2], 1.0), scaled(voxels.frame[3], 1.0)
    number = key * (a * b * c)
    for i in range(a):
        for j in range(b):
            for k in range(c):
                u, v = fraction(multiple(number, lattice.SAMPLE_X)), fraction(multiple(number, lattice.SAMPLE_Y))
                w = fraction(multiple(number, lattice.SAMPLE_Z))
                place = shifted(center, (_F(i) + u) / _F(a) - _HALF, along_x)
                place = shifted(place, (_F(j) + v) / _F(b) - _HALF, along_y)
                place = shifted(place, (_F(k) + w) / _F(c) - _HALF, along_z)
                found = tally_sample(volume, rule, place, weight, counts, found)
                number += 1
    return found


@_jit
def clear_lost(extremes: Array) -> Array:
    """Clear the extremes of organs that have lost one; returns which these are."""
    lost = extremes[:, LOST] > _ZERO
    for organ in range(len(extremes)):
        if lost[organ]:
            extremes[organ, LEAST], extremes[organ, LARGEST], extremes[organ, LOST] = _F(np.inf), _ZERO, _ZERO
    return lost


@_jit_task
def tally_strip(
    volume: Volume, rule: BinRule, voxels: Voxels, strip: Any, sign: int, counts: Array, extremes: Array
) -> None:
    """Count the voxels of a slice i, rows j and columns k, or find lost extremes with sign 0.

    The last two arrays are those of a thread or a strip.
    """
    i, j_first, j_end, k_first, k_end = strip
    _, nj, nk = voxels.labels.shape
    lost = clear_lost(extremes) if sign == 0 else np.zeros(0, np.bool_)
    if sign == 0 and not lost.any():
        return
    step = scaled(voxels.frame[3], 1.0)
    current, found = np.int64(-1), nothing()
    for j in range(j_first, j_end):
        start = origin(voxels.frame, np.float64(i), np.float64(j), 0.0)
        for k in range(k_first, k_end):
            organ = np.int64(voxels.organs[voxels.labels[i, j, k]])
            if organ < 0 or (sign == 0 and not lost[organ]):
                continue
            if organ != current:
                if current >= 0:
                    put(found, sign, counts[current], extremes[current])
                current, found = organ, nothing()
            key, center = (i * nj + j) * nk + k, shifted(start, _F(k), step)
            found = tally_voxel(volume, rule, voxels, center, key, sign, (organ, counts[organ]), found)
    if current >= 0:
        put(found, sign, counts[current], extremes[current])


@_jit
def put(found: Found, sign: int, counts: Array, extremes: Array) -> None:
    """Hand over what was found in voxels of one organ."""
    if sign < 0:
        let_go(found, counts, extremes)
    else:
        keep(found, counts, extremes)


@_jit_parallel
def tally_voxels(
    volume: Volume, rule: BinRule, voxels: Voxels, box: Any, strips: Array, sign: int, counts: Array, extremes: Array
) -> None:
    """Count the voxels of a box with weight 1, take them off with -1, or find lost extremes of whole strips with 0.

    Parameters
    ----------
    box
        First and end along i, j, k, rows of a strip, and the row of the extremes of the volume's first strip; see
        `napari_gpubio.dose.kernels.histogram.work.LabelWork`.
    strips
        Numbers of the box's strips that are meant.
    """
    threads = len(counts)
    i_first, _, j_first, j_end, k_first, k_end, height, row = box
    above, slice_strips = j_first // height, (voxels.labels.shape[1] + height - 1) // height
    in_slice = (j_end + height - 1) // height - above
    for thread in nb.prange(threads):
        for n in range(thread, len(strips), threads):
            i, number = i_first + strips[n] // in_slice, above + strips[n] % in_slice
            strip = i, max(number * height, j_first), min((number + 1) * height, j_end), k_first, k_end
            own = voxels.strip_extremes[row - 1 + i * slice_strips + number] if row > 0 else extremes[thread]
            tally_strip(volume, rule, voxels, strip, sign, counts[thread], own)
