"""Sums over finished batches, and fluence with its error from them, in Numba.

The counterpart of `fold_batch` is ``fold_batches`` of ``fold.cuh``; the others run on the CPU only.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import helper, kernel, leaf, run_blocks
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.optics.batches import FEWEST_BATCHES, Words, freedom

Floats = npt.NDArray[np.float32]
_L = np.uint64
_WORD = 18446744073709551616.0  # 2^64
_MIN_CELLS = 65536  # to fold, worth a call: half a millisecond


class Absorbers(NamedTuple):
    """What turns a tally into absorbed energy: media rows, their table, mu_a of each voxel (or nothing), the scale."""

    rows: npt.NDArray[Any]
    media: Floats
    mua: Floats
    scale: float


class Fold(NamedTuple):
    """A finished batch, and the sums that it is added to.

    Parameters
    ----------
    path, sums
        Tally of the batch, and that of the whole batches, shape (halves * gates * cells,).
    squares
        Sums of squares as two words, shape (gates * cells, 2), or ((gates + 1) * cells, 2) with more than one gate: the
        last part is that of all gates together.
    absorbers, absorbed
        What each media row absorbed is added to ``absorbed``, in units of 1 / ``absorbers.scale``.
    """

    path: Words
    sums: Words
    squares: Words
    cells: int
    gates: int
    halves: int
    absorbers: Absorbers
    absorbed: Words


class Spread(NamedTuple):
    """Tallies of one gate, and the fluence and standard error to be made of them.

    Parameters
    ----------
    total, whole
        Tally of all photons, and of those in whole batches, flat with the rim.
    squares
        Sum of the squares of the batches' tallies, two words of each cell, flat.
    ny, nz
        Size without the rim.
    per_photon
        Fluence per photon of one quantum.
    batches, batch_size, rest_photons
        Number of whole batches, photons of one of them, and photons that are left over.
    in_batches, largest
        Photons in whole batches, at least 1; and the larger of a batch's and those that are left over.
    freedom
        See `optics.batches.freedom`; not a number where there are too few batches for an error.
    mean, error
        Shape (nx, ny, nz).
    """

    total: Words
    whole: Words
    squares: Words
    ny: int
    nz: int
    per_photon: float
    batches: int
    batch_size: int
    rest_photons: int
    in_batches: float
    largest: int
    freedom: float
    mean: Floats
    error: Floats


@leaf
def add_square(squares, place, value):
    """Add the square of a 64-bit number to a sum of 128 bits, kept as two words, low and high."""
    mask = _L(0xFFFFFFFF)
    a, b = value >> _L(32), value & mask
    middle = a * b
    low = value * value
    carried = ((b * b) >> _L(32)) + (middle & mask) + (middle & mask)
    high = a * a + (middle >> _L(32)) + (middle >> _L(32)) + (carried >> _L(32))
    before = squares[place, 0]
    total = before + low
    squares[place, 0] = total
    squares[place, 1] += high + (_L(1) if total < low else _L(0))


@leaf
def absorbed_of(value, row, cell, absorbers):
    """Absorbed energy of a voxel's tally: mu_a times it, in units of 1 / scale."""
    absorption = absorbers.mua[cell] if len(absorbers.mua) else absorbers.media[row, 0]
    return _L(np.float64(value) * np.float64(absorption) * absorbers.scale + 0.5)


@leaf
def _clear(gathered):
    for i in range(len(gathered)):
        gathered[i] = _L(0)


@helper
def _add_rows(gathered, absorbed):
    for row in range(len(gathered)):
        if gathered[row]:
            atomic_add(absorbed, row, gathered[row])


@kernel
def add_absorbed(start, stop, tally, cells, parts, absorbers, absorbed):
    """Add what each media row absorbed by a tally of several parts (halves and gates), cells ``start`` to ``stop``."""
    gathered, rows = np.empty(len(absorbers.media), np.uint64), absorbers.rows
    _clear(gathered)
    for cell in range(start, stop):
        whole = _L(0)
        for part in range(parts):
            whole += tally[part * cells + cell]
        if whole:
            row = np.int64(rows[cell])
            gathered[row] += absorbed_of(whole, row, cell, absorbers)
    _add_rows(gathered, absorbed)


@kernel
def fold_batch(start, stop, fold):
    """Add a batch to the sums and, squared, to the sums of squares, and clear it: cells ``start`` to ``stop - 1``."""
    # Arrays of a named tuple are read once: in a loop, each reading would count a reference.
    tally, sums, squares, absorbers = fold.path, fold.sums, fold.squares, fold.absorbers
    cells, gates, halves, rows = fold.cells, fold.gates, fold.halves, fold.absorbers.rows
    gathered = np.empty(len(absorbers.media), np.uint64)
    _clear(gathered)
    for cell in range(start, stop):
        whole = _L(0)
        for g in range(gates):
            batch = _L(0)
            for h in range(halves):
                place = (h * gates + g) * cells + cell
                value = tally[place]
                if value == _L(0):
                    continue
                tally[place] = _L(0)
                sums[place] += value
                batch += value
            whole += batch
            if batch:
                add_square(squares, g * cells + cell, batch)
        if whole == _L(0):
            continue
        if gates > 1:
            add_square(squares, gates * cells + cell, whole)
        row = np.int64(rows[cell])
        gathered[row] += absorbed_of(whole, row, cell, absorbers)
    _add_rows(gathered, fold.absorbed)


@kernel
def mean_and_error(start, stop, spread):
    """Fluence and its standard error in the planes ``start`` to ``stop - 1``, without the rim; see `mean_error`."""
    ny, nz, per_photon = spread.ny, spread.nz, spread.per_photon
    all_total, all_whole, all_squares, means, errors = (
        spread.total, spread.whole, spread.squares, spread.mean, spread.error,
    )  # fmt: skip
    batches, batch_size, rest_photons = spread.batches, spread.batch_size, spread.rest_photons
    largest, freedom = spread.largest, spread.freedom
    photons = batches * batch_size + rest_photons
    rest_per_whole = rest_photons / spread.in_batches
    known = not math.isnan(freedom)
    for i in range(start, stop):
        for j in range(ny):
            # Rows of the volume as contiguous views, without which the inner loop is not vectorized.
            first = ((i + 1) * (ny + 2) + j + 1) * (nz + 2) + 1
            total, whole = all_total[first : first + nz], all_whole[first : first + nz]
            squares, mean, error = all_squares[2 * first : 2 * (first + nz)], means[i, j], errors[i, j]
            for k in range(nz):
                mean[k] = np.float64(total[k]) * per_photon
                if not known:
                    error[k] = np.nan
                    continue
                in_whole = np.float64(whole[k])
                square = np.float64(squares[2 * k + 1]) * _WORD + np.float64(squares[2 * k])
                variance = max(0.0, square - in_whole * in_whole / batches) / batch_size
                off = np.float64(total[k] - whole[k]) - rest_per_whole * in_whole
                variance += off * off / largest
                error[k] = math.sqrt(variance / freedom * photons) * per_photon


@kernel
def add_by_label(labels, fluence, threshold, counts, sums, highest, places, above):
    """Count voxels by label, add their fluence up, find the first of the highest, count those from a threshold on."""
    for voxel in range(len(labels)):
        label, value = labels[voxel], fluence[voxel]
        counts[label] += 1
        sums[label] += value
        if value > highest[label]:
            highest[label] = value
            places[label] = voxel
        if value >= threshold:
            above[label] += 1


# -- called by host code ----------------------------------------------------------------------------------------------


def writable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that can be written, since Numba compiles a kernel again for one that cannot."""
    return array if array.flags.writeable else array.copy()


def fold(problem: VoxelProblem, path: Words, sums: Words, squares: Words) -> Words:
    """Add a finished batch to the sums and clear it; returns what each media row absorbed, for each pattern."""
    p, absorbed = problem, np.zeros((problem.patterns, problem.media_rows), np.uint64)
    tallies = path.reshape(-1, p.patterns).T  # those of patterns lie side by side, their sums one after another
    parts = sums.reshape(p.patterns, -1), squares.reshape(p.patterns, -1, 2), absorbed
    for tally, total, square, rows in zip(tallies, *parts, strict=True):
        batch = Fold(np.ascontiguousarray(tally), total, square, p.cells, p.gates, p.halves, _absorbers(p), rows)
        run_blocks(fold_batch, p.cells, batch, least=_MIN_CELLS)
    if p.patterns > 1:
        path[:] = 0  # a copy was folded
    return absorbed.ravel()


def absorbed_by_rows(problem: VoxelProblem, path: Words) -> Words:
    """Energy that each media row has absorbed by a tally, in units of 1 / (scale * absorbed_scale)."""
    p, absorbed = problem, np.zeros(problem.media_rows, np.uint64)
    run_blocks(add_absorbed, p.cells, path, p.cells, p.gates * p.halves, _absorbers(p), absorbed, least=_MIN_CELLS)
    return absorbed


def _absorbers(problem: VoxelProblem) -> Absorbers:
    return Absorbers(writable(problem.rows), writable(problem.media), writable(problem.mua), problem.absorbed_scale)


def write_fluence(
    problem: VoxelProblem, batches: int, launched: int, tallies: tuple[Words, Words, Words], out: tuple[Floats, Floats]
) -> None:
    """Write the fluence of some planes in one gate, and its standard error, to ``out``.

    ``tallies`` are those of all photons launched, of those in whole batches, and the sums of the batches' squares, flat
    and with the rim: one more plane on either side.
    """
    size = problem.batch_size
    rest = launched - batches * size
    _, ny, nz = problem.size
    spread = Spread(
        total=writable(tallies[0]),
        whole=writable(tallies[1]),
        squares=writable(tallies[2]),
        ny=ny,
        nz=nz,
        per_photon=problem.fluence_of_quantum(launched),
        batches=batches,
        batch_size=size,
        rest_photons=rest,
        in_batches=max(1.0, float(batches * size)),
        largest=max(size, rest),
        freedom=float(freedom(batches, size, rest)) if batches >= FEWEST_BATCHES else math.nan,
        mean=out[0],
        error=out[1],
    )
    mean_and_error(0, len(out[0]), spread)
