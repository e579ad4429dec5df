"""The search for maxima of FODs in Numba; the counterpart of ``peaks.cu``: same names, same order of operations."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel
from napari_gpubio.diffusion.kernels.harmonics import NEWTON, climb

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
def take_highest(maxima, count, row, least_cosine):
    """Copy maxima (x, y, z, amplitude), the highest first, to a row, without those near a higher one that was copied.

    The amplitudes of maxima that were looked at become 0. Returns how many were copied.
    """
    taken = highest = 0
    for n in range(1, count):
        if maxima[n, 3] > maxima[highest, 3]:
            highest = n
    while taken < len(row) and count > 0 and maxima[highest, 3] > 0.0:
        x, y, z, value = maxima[highest, 0], maxima[highest, 1], maxima[highest, 2], maxima[highest, 3]
        row[taken, 0], row[taken, 1], row[taken, 2], row[taken, 3] = x, y, z, value
        taken += 1
        maxima[highest, 3] = 0.0
        for n in range(count):
            if abs(x * maxima[n, 0] + y * maxima[n, 1] + z * maxima[n, 2]) > least_cosine:
                maxima[n, 3] = 0.0
            elif maxima[n, 3] > maxima[highest, 3]:
                highest = n
    return taken


@kernel
def find_rows(start, stop, arrays, memory, out, counts):
    """Peaks of each voxel, the highest first: (x, y, z, amplitude), shape (M, most, 4), and their number.

    ``memory``: amplitudes in all directions, and as many maxima (x, y, z, amplitude).
    """
    amplitude, maxima = memory
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
                    maxima[count, 0], maxima[count, 1], maxima[count, 2], maxima[count, 3] = x, y, z, value
                    count += 1
        count = take_highest(maxima, count, row, least_cosine)
        least = least_fraction * row[0, 3] if count > 0 else 0.0
        kept = 0
        while kept < count and row[kept, 3] >= least and row[kept, 3] >= least_amplitude:
            kept += 1
        counts[voxel] = kept
