"""Sums over finished batches, and fluence with its error from them, in Numba.

The counterpart of `fold_batch` is ``fold_batches`` of ``voxels.cu``; the others run on the CPU only.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import helper, kernel, leaf, run_blocks
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.structs import Absorbers, Fold, Spread, Words

_L = np.uint64
_WORD = 18446744073709551616.0  # 2^64
_CELLS_AT_LEAST = 65536  # worth a call: half a millisecond


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
    """Fluence and its standard error in the planes ``start`` to ``stop - 1``, without the rim; see `light.tallies`."""
    total, whole, squares, ny, nz = spread.total, spread.whole, spread.squares, spread.ny, spread.nz
    mean, error, per_photon = spread.mean, spread.error, spread.per_photon
    batches, batch_size, rest_photons = spread.batches, spread.batch_size, spread.rest_photons
    largest, freedom = spread.largest, spread.freedom
    photons = batches * batch_size + rest_photons
    rest_per_whole = rest_photons / spread.in_batches
    known = not math.isnan(freedom)
    for i in range(start, stop):
        for j in range(ny):
            for k in range(nz):
                cell = ((i + 1) * (ny + 2) + j + 1) * (nz + 2) + k + 1
                mean[i, j, k] = np.float64(total[cell]) * per_photon
                if not known:
                    error[i, j, k] = np.nan
                    continue
                in_whole = np.float64(whole[cell])
                square = np.float64(squares[cell, 1]) * _WORD + np.float64(squares[cell, 0])
                variance = max(0.0, square - in_whole * in_whole / batches) / batch_size
                off = np.float64(total[cell] - whole[cell]) - rest_per_whole * in_whole
                variance += off * off / largest
                error[i, j, k] = math.sqrt(variance / freedom * photons) * per_photon


# -- called by host code ----------------------------------------------------------------------------------------------


def writable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that can be written, since Numba compiles a kernel again for one that cannot."""
    return array if array.flags.writeable else array.copy()


def fold(problem: VoxelProblem, path: Words, sums: Words, squares: Words) -> Words:
    """Add a finished batch to the sums and clear it; returns what each media row absorbed."""
    p, absorbed = problem, np.zeros(problem.media_rows, np.uint64)
    batch = Fold(path, sums, squares, p.cells, p.gates, p.halves, _absorbers(p), absorbed)
    run_blocks(fold_batch, p.cells, batch, least=_CELLS_AT_LEAST)
    return absorbed


def absorbed_by_rows(problem: VoxelProblem, path: Words) -> Words:
    """Energy that each media row has absorbed by a tally, in units of 1 / (scale * absorbed_scale)."""
    p, absorbed = problem, np.zeros(problem.media_rows, np.uint64)
    run_blocks(add_absorbed, p.cells, path, p.cells, p.gates * p.halves, _absorbers(p), absorbed, least=_CELLS_AT_LEAST)
    return absorbed


def _absorbers(problem: VoxelProblem) -> Absorbers:
    return Absorbers(writable(problem.rows), writable(problem.media), writable(problem.mua), problem.absorbed_scale)


def write_fluence(spread: Spread) -> None:
    """Write the fluence and its standard error of one gate."""
    spread = spread._replace(
        total=writable(spread.total), whole=writable(spread.whole), squares=writable(spread.squares)
    )
    planes = len(spread.mean)
    run_blocks(mean_and_error, planes, spread, least=max(1, _CELLS_AT_LEAST // (spread.ny * spread.nz)))
