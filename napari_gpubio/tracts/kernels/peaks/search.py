"""The search for maxima of FODs in Numba; the counterpart of ``peaks.cu``: same names, same order of operations."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel
from napari_gpubio.tracts.kernels.harmonics import NEWTON, climb

Array = npt.NDArray[Any]


class PeakArrays(NamedTuple):
    """What `find_rows` reads; see `PeakProblem`. ``pairs``: coefficients (M, P) as `paired` orders them."""

    pairs: Array
    directions: Array
    neighbors: Array
    columns: Array
    table: Array
    lmax: int
    least_fraction: float
    least_amplitude: float
    least_cosine: float


@helper
def insert(row, count, peak, least_cosine):
    """Put a peak (x, y, z, amplitude) in its place among the highest of a row, unless a higher one is near.

    Lower ones that are near it are taken out. Returns how many there are.
    """
    x, y, z, value = peak
    for n in range(count):
        if row[n, 3] >= value and abs(x * row[n, 0] + y * row[n, 1] + z * row[n, 2]) > least_cosine:
            return count
    kept = 0
    for n in range(count):
        if row[n, 3] >= value or abs(x * row[n, 0] + y * row[n, 1] + z * row[n, 2]) <= least_cosine:
            for a in range(4):
                row[kept, a] = row[n, a]
            kept += 1
    if kept == len(row):
        if row[kept - 1, 3] >= value:
            return kept
        kept -= 1
    at = kept
    while at > 0 and row[at - 1, 3] < value:
        for a in range(4):
            row[at, a] = row[at - 1, a]
        at -= 1
    row[at, 0], row[at, 1], row[at, 2], row[at, 3] = x, y, z, value
    return kept + 1


@kernel
def find_rows(start, stop, arrays, amplitude, out, counts):
    """Peaks of each voxel, the highest first: (x, y, z, amplitude), shape (M, most, 4), and their number."""
    pairs, directions, neighbors, columns, table, lmax, least_fraction, least_amplitude, least_cosine = arrays
    for voxel in range(start, stop):
        fod, row = pairs[voxel], out[voxel]
        for k in range(len(amplitude)):
            amplitude[k] = 0.0
        for i in range(len(fod)):
            f, column = np.float64(fod[i]), columns[i]
            for k in range(len(amplitude)):
                amplitude[k] = multiply_add(f, column[k], amplitude[k])
        count = 0
        for k in range(len(amplitude)):
            value = amplitude[k]
            largest = value > 0.0
            for n in range(neighbors.shape[1]):
                other = neighbors[k, n]
                largest = largest and (value > amplitude[other] or (value == amplitude[other] and k < other))
            if largest:
                u = directions[k, 0], directions[k, 1], directions[k, 2]
                found, value, at = climb(fod, table, lmax, u, NEWTON)
                if found and value > 0.0:
                    x, y, z = at
                    count = insert(row, count, (x, y, z, value), least_cosine)
        least = least_fraction * row[0, 3] if count > 0 else 0.0
        kept = 0
        while kept < count and row[kept, 3] >= least and row[kept, 3] >= least_amplitude:
            kept += 1
        counts[voxel] = kept
