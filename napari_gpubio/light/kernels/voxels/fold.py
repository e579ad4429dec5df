"""Folding a finished batch into the sums, in Numba. Counterpart: ``fold_batches`` of ``voxels.cu``."""

import numba as nb
import numpy as np

from napari_gpubio.core.intrinsics import atomic_add

_L = np.uint64
_CELLS_PER_BLOCK = 16384


@nb.njit(inline="always")
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


@nb.njit(inline="always")
def _energy_of(value, row, cell, media, mua, energy_scale):
    """Absorbed energy of a voxel's tally: mu_a times it, in units of 1 / energy_scale."""
    absorption = mua[cell] if len(mua) else media[row, 0]
    return _L(np.float64(value) * np.float64(absorption) * energy_scale + 0.5)


@nb.njit(parallel=True, nogil=True, cache=True)
def row_energy(tally, cells, parts, rows, media, mua, energy_scale, energy):
    """Add what each media row absorbed by a tally of several parts (halves and gates); see `fold_batch`."""
    for b in nb.prange((cells + _CELLS_PER_BLOCK - 1) // _CELLS_PER_BLOCK):
        gathered = np.zeros(len(media), np.uint64)
        for cell in range(b * _CELLS_PER_BLOCK, min((b + 1) * _CELLS_PER_BLOCK, cells)):
            whole = _L(0)
            for part in range(parts):
                whole += tally[part * cells + cell]
            if whole:
                row = int(rows[cell])
                gathered[row] += _energy_of(whole, row, cell, media, mua, energy_scale)
        for row in range(len(media)):
            if gathered[row]:
                atomic_add(energy, row, gathered[row])


@nb.njit(parallel=True, nogil=True, cache=True)
def fold_batch(tally, cells, gates, halves, sums, squares, rows, media, mua, energy_scale, energy):
    """Add a batch to the sums and, squared, to the sums of squares, and clear it.

    Parameters
    ----------
    tally, sums
        Shape (halves * gates * cells,), uint64.
    cells
        Voxels of the padded grid.
    squares
        Shape (gates * cells, 2), or ((gates + 1) * cells, 2) with more than one gate: the last part is that of all
        gates together.
    rows, media, mua
        Media row of each voxel, the table, and mu_a of each voxel (empty without continuous media).
    energy_scale, energy
        What each row absorbed (mu_a times the tally) is added to ``energy``, in units of 1 / ``energy_scale``.
    """
    for b in nb.prange((cells + _CELLS_PER_BLOCK - 1) // _CELLS_PER_BLOCK):
        gathered = np.zeros(len(media), np.uint64)
        for cell in range(b * _CELLS_PER_BLOCK, min((b + 1) * _CELLS_PER_BLOCK, cells)):
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
            row = int(rows[cell])
            gathered[row] += _energy_of(whole, row, cell, media, mua, energy_scale)
        for row in range(len(media)):
            if gathered[row]:
                atomic_add(energy, row, gathered[row])
