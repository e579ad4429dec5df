"""Sums over groups of photons, and derivatives with their errors from them, in Numba. Counterpart: ``fold.cu``."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import kernel
from napari_gpubio.optics.batches import Words

SUMS = 4  # of a derivative over groups: itself, its square, and times its own and its partner's share
_D, _I, _L = np.float64, np.int64, np.uint64


class Fold(NamedTuple):
    """Tallies of finished groups, and the sums that they are added to.

    Parameters
    ----------
    tally
        Of each group, shape (groups * V * cells,); it is cleared.
    groups, volumes, cells
        How many there are.
    units
        Size of a quantum of each derivative, shape (V,).
    shares
        Of these groups, shape (groups, V, 2).
    sums
        Shape (SUMS * V * cells,).
    rows, media_rows
        Media row of each cell.
    labels
        Sums over each media row in quanta, shape (groups * V * rows,).
    """

    tally: Words
    groups: int
    volumes: int
    cells: int
    units: npt.NDArray[np.float64]
    shares: npt.NDArray[np.float64]
    sums: npt.NDArray[np.float64]
    rows: npt.NDArray[Any]
    media_rows: int
    labels: Words


class Finish(NamedTuple):
    """Sums over all groups, and the derivatives and errors that are made of them.

    ``products`` are sums over groups: own share squared, own times partner's, and partner's squared, shape (V, 3);
    ``freedom`` is the number of groups over one less.
    """

    sums: npt.NDArray[np.float64]
    volumes: int
    cells: int
    partners: npt.NDArray[np.int64]
    products: npt.NDArray[np.float64]
    freedom: float
    values: npt.NDArray[np.float32]
    errors: npt.NDArray[np.float32]


@kernel
def fold_groups(start, stop, fold):
    """Add groups to the sums and clear them, cells ``start`` to ``stop - 1``."""
    tally, sums, units, shares, rows, labels = (
        fold.tally, fold.sums, fold.units, fold.shares, fold.rows, fold.labels,
    )  # fmt: skip
    volumes, cells, media_rows = fold.volumes, fold.cells, fold.media_rows
    for group in range(fold.groups):
        for v in range(volumes):
            first = (group * volumes + v) * cells
            unit, own, partner = units[v], shares[group, v, 0], shares[group, v, 1]
            label = (group * volumes + v) * media_rows
            row, gathered = -1, _L(0)
            for cell in range(start, stop):
                amount = tally[first + cell]
                if amount == _L(0):
                    continue
                tally[first + cell] = _L(0)
                x = _D(_I(amount)) * unit
                place = v * cells + cell
                sums[place] += x
                sums[volumes * cells + place] += x * x
                sums[2 * volumes * cells + place] += x * own
                sums[3 * volumes * cells + place] += x * partner
                here = _I(rows[cell])
                if here != row:
                    if gathered:
                        atomic_add(labels, label + row, gathered)
                    row, gathered = here, _L(0)
                gathered += amount
            if gathered:
                atomic_add(labels, label + row, gathered)


@kernel
def finish_cells(start, stop, finish):
    """Derivatives and their standard errors from the sums, cells ``start`` to ``stop - 1``."""
    sums, partners, products, values, errors = (
        finish.sums, finish.partners, finish.products, finish.values, finish.errors,
    )  # fmt: skip
    volumes, cells = finish.volumes, finish.cells
    for v in range(volumes):
        p = partners[v]
        for cell in range(start, stop):
            place = v * cells + cell
            q, r = sums[place], sums[p * cells + cell]
            if p == v:
                r = 0.0
            squares = sums[volumes * cells + place]
            own, other = sums[2 * volumes * cells + place], sums[3 * volumes * cells + place]
            spread = squares - 2.0 * (q * own + r * other)
            spread += q * q * products[v, 0] + 2.0 * (q * r) * products[v, 1] + r * r * products[v, 2]
            values[place] = np.float32(q)
            errors[place] = np.float32(math.sqrt(max(spread, 0.0) * finish.freedom))
