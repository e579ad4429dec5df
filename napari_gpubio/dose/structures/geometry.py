"""Compiled functions of structures: voxels of labels, edges of outlines, distances, filled rows, dose at voxels."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel
from napari_gpubio.core.trilinear import mapped

Array = npt.NDArray[Any]


@kernel
def count_labels(start: int, stop: int, labels: Array, counts: Array) -> None:
    """Count the voxels of each label; copy c of n ``counts``, zero before, has those of the c-th of n equal parts.

    Runs of one label are counted instead of voxels: a counter that is written at every voxel keeps the next waiting.
    """
    for copy in range(start, stop):
        first, end = copy * len(labels) // len(counts), (copy + 1) * len(labels) // len(counts)
        for n in range(first + 1, end + 1):
            if n == end or labels[n] != labels[first]:
                counts[copy, labels[first]] += n - first
                first = n


@kernel
def fill_edges(
    start: int, stop: int, segments: Array, counts: Array, table: Array, ends: Array, extents: Array
) -> None:
    """Fill in a structure's `napari_gpubio.dose.structures.outlines.Edges`, slabs one after another."""
    first, kept = 0, 0
    for slab in range(start, stop):
        x_low, y_low, x_high, y_high = np.inf, np.inf, -np.inf, -np.inf
        for n in range(first, first + counts[slab]):
            ax, ay, bx, by = segments[n, 0], segments[n, 1], segments[n, 2], segments[n, 3]
            if ay > by:
                ax, ay, bx, by = bx, by, ax, ay
            y_low, y_high = ay if ay < y_low else y_low, by if by > y_high else y_high
            x_low, x_high = ax if ax < x_low else x_low, ax if ax > x_high else x_high
            x_low, x_high = bx if bx < x_low else x_low, bx if bx > x_high else x_high
            if ay < by:
                table[kept, 0], table[kept, 1] = ay, by
                table[kept, 2], table[kept, 3] = ax, (bx - ax) / (by - ay)
                kept += 1
        extents[slab, 0], extents[slab, 1], extents[slab, 2], extents[slab, 3] = x_low, y_low, x_high, y_high
        first += counts[slab]
        ends[slab] = kept


@kernel
def fill_distances(start: int, stop: int, segments: Array, x: Array, y: Array, out: Array) -> None:
    """Distance of each grid point to the nearest segment, negative inside (even-odd); columns ``start`` to ``stop``."""
    for i in range(start, stop):
        for j in range(len(y)):
            nearest, inside = np.inf, False
            for n in range(len(segments)):
                ax, ay = segments[n, 0], segments[n, 1]
                dx, dy = segments[n, 2] - ax, segments[n, 3] - ay
                square = dx * dx + dy * dy
                along = ((x[i] - ax) * dx + (y[j] - ay) * dy) / square if square > 0 else 0.0
                along = along if along > 0.0 else 0.0
                along = along if along < 1.0 else 1.0
                rest_x, rest_y = ax + along * dx - x[i], ay + along * dy - y[j]
                distance = rest_x * rest_x + rest_y * rest_y
                nearest = distance if distance < nearest else nearest
                if (ay <= y[j]) != (segments[n, 3] <= y[j]) and x[i] < ax + (y[j] - ay) / dy * dx:
                    inside = not inside
            out[i, j] = -np.sqrt(nearest) if inside else np.sqrt(nearest)


@kernel
def fill_inside(start: int, stop: int, origins: Array, step: float, edges: Any, layout: Array, filled: Array) -> None:
    """Mark the voxels whose center is inside, in rows A, B, C along the contours' x, ``step`` apart in a row.

    Columns of ``origins``, 3 x 4, are what one step along A, B, C adds to x, y, z of the first voxel of a row, and
    theirs at 0. ``edges`` are `napari_gpubio.dose.structures.outlines.Edges`. ``layout``, shape (2, 4), has the sizes
    along A, B, C and the row, and the same for the distances in ``filled``, bool, which is False before.
    """
    table, ends, _, low, high = edges
    count, stride = layout[0, 3], np.uintp(layout[1, 3])
    for a in range(start, stop):
        for b in range(layout[0, 1]):
            for c in range(layout[0, 2]):
                x, y, z = mapped(origins, a, b, c)
                slab, beyond = -1, len(low)  # the last slab that begins at z or below
                while beyond - slab > 1:
                    middle = (slab + beyond) >> 1
                    if low[middle] <= z:
                        slab = middle
                    else:
                        beyond = middle
                if slab < 0 or z >= high[slab]:
                    continue
                # Unsigned, so that Numba does not look for indices from the end.
                first = np.uintp(a * layout[1, 0] + b * layout[1, 1] + c * layout[1, 2])
                for e in range(np.uintp(ends[slab - 1] if slab > 0 else 0), np.uintp(ends[slab])):
                    if table[e, 0] <= y and y < table[e, 1]:
                        crossing = table[e, 2] + (y - table[e, 0]) * table[e, 3]
                        before = np.ceil((crossing - x) / step)  # voxels before the crossing
                        if before > 0:
                            last = first + stride * np.uintp((np.int64(before) if before < count else count) - 1)
                            filled[last] = not filled[last]
                odd = False
                place = first + stride * np.uintp(count)
                for _ in range(count):
                    place -= stride
                    odd = odd != filled[place]
                    filled[place] = odd


@kernel
def fill_doses(
    start: int, stop: int, values: Array, constant: int, matrix: Array, labels: Array, chosen: Array, out: Array
) -> None:
    """Fill slices ``start`` to ``stop`` with the dose at voxels of chosen labels; NaN elsewhere and outside the dose.

    ``matrix`` is index of a voxel of ``labels`` and ``out`` to index of the dose; labels beyond ``chosen`` are not. The
    dose is ``constant`` in each voxel or interpolated.
    """
    nx, ny, nz = values.shape
    for a in range(start, stop):
        for b in range(out.shape[1]):
            for c in range(out.shape[2]):
                out[a, b, c] = np.nan
                label = np.int64(labels[a, b, c])
                if label >= len(chosen) or not chosen[label]:
                    continue
                x, y, z = mapped(matrix, a, b, c)
                if not (-0.5 <= x <= nx - 0.5 and -0.5 <= y <= ny - 0.5 and -0.5 <= z <= nz - 0.5):
                    continue
                x = 0.0 if x < 0.0 else (nx - 1.0 if x > nx - 1.0 else x)
                y = 0.0 if y < 0.0 else (ny - 1.0 if y > ny - 1.0 else y)
                z = 0.0 if z < 0.0 else (nz - 1.0 if z > nz - 1.0 else z)
                if constant:
                    x, y, z = np.floor(x + 0.5), np.floor(y + 0.5), np.floor(z + 0.5)
                i, j, k = np.int64(x), np.int64(y), np.int64(z)
                fx, fy, fz = x - i, y - j, z - k
                i1 = i + 1 if i + 1 < nx else i
                j1 = j + 1 if j + 1 < ny else j
                k1 = k + 1 if k + 1 < nz else k
                low = (1 - fy) * ((1 - fz) * values[i, j, k] + fz * values[i, j, k1]) + fy * (
                    (1 - fz) * values[i, j1, k] + fz * values[i, j1, k1]
                )
                high = (1 - fy) * ((1 - fz) * values[i1, j, k] + fz * values[i1, j, k1]) + fy * (
                    (1 - fz) * values[i1, j1, k] + fz * values[i1, j1, k1]
                )
                out[a, b, c] = (1 - fx) * low + fx * high
