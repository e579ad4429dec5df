"""Compiled sampling of a volume on another grid, and at points."""

from typing import Any

import numpy as np

from napari_gpubio.core.jit import helper, kernel, leaf


@kernel
def sample_linear(start: int, stop: int, source: Any, matrix: Any, fill: Any, out: Any) -> None:
    """Write rows of ``out`` by trilinear interpolation, and ``fill`` outside of the source.

    Up to half a voxel beyond the centers of the outermost voxels their values continue. Voxels that are NaN take no
    part, and what is nearest to one of them is NaN: the edge of a masked map stays where it is.

    Parameters
    ----------
    start, stop
        Rows, counted over the first two axes of ``out``.
    source
        Shape (X, Y, Z).
    matrix
        Index of ``out`` to index of ``source``, 3 x 4.
    fill
        Value outside, of the type of ``source``: NaN of floating-point values; integers are rounded.
    out
        Shape (a, b, c), the type of ``source``.
    """
    rows, columns = out.shape[1], out.shape[2]
    for row in range(start, stop):
        a, b = row // rows, row % rows
        x = matrix[0, 0] * a + matrix[0, 1] * b + matrix[0, 3]
        y = matrix[1, 0] * a + matrix[1, 1] * b + matrix[1, 3]
        z = matrix[2, 0] * a + matrix[2, 1] * b + matrix[2, 3]
        for c in range(columns):
            px, py, pz = x + matrix[0, 2] * c, y + matrix[1, 2] * c, z + matrix[2, 2] * c
            if _is_outside(source, px, py, pz):
                out[a, b, c] = fill
                continue
            value = _interpolated(source, px, py, pz)
            out[a, b, c] = value if fill != fill or value != value else np.floor(value + 0.5)


@kernel
def sample_points(start: int, stop: int, source: Any, matrix: Any, points: Any, out: Any) -> None:
    """Write to ``out``, shape (P,), the values of a volume at points by the rules of `sample_linear`; NaN outside.

    Parameters
    ----------
    start, stop
        Points.
    source
        Shape (X, Y, Z), floating-point.
    matrix
        From points to the index of ``source``, 3 x 4.
    points
        Shape (P, 3 or more): x, y, z and what is ignored.
    """
    for n in range(start, stop):
        x, y, z = points[n, 0], points[n, 1], points[n, 2]
        px, py, pz = mapped(matrix, x, y, z)
        out[n] = np.nan if _is_outside(source, px, py, pz) else _interpolated(source, px, py, pz)


@leaf
def mapped(matrix: Any, x: Any, y: Any, z: Any) -> Any:
    """A place through a matrix, 3 x 4."""
    return (
        matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2] * z + matrix[0, 3],
        matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2] * z + matrix[1, 3],
        matrix[2, 0] * x + matrix[2, 1] * y + matrix[2, 2] * z + matrix[2, 3],
    )


@helper
def _is_outside(source: Any, px: Any, py: Any, pz: Any) -> Any:
    nx, ny, nz = source.shape
    ni, nj, nk = np.int64(np.floor(px + 0.5)), np.int64(np.floor(py + 0.5)), np.int64(np.floor(pz + 0.5))
    return ni < 0 or nj < 0 or nk < 0 or ni >= nx or nj >= ny or nk >= nz


@helper
def _interpolated(source: Any, px: Any, py: Any, pz: Any) -> Any:
    nx, ny, nz = source.shape
    i, j, k = np.int64(np.floor(px)), np.int64(np.floor(py)), np.int64(np.floor(pz))
    fx, fy, fz = px - i, py - j, pz - k
    if 0 <= i < nx - 1 and 0 <= j < ny - 1 and 0 <= k < nz - 1:
        low = (1.0 - fy) * ((1.0 - fx) * source[i, j, k] + fx * source[i + 1, j, k])
        low += fy * ((1.0 - fx) * source[i, j + 1, k] + fx * source[i + 1, j + 1, k])
        high = (1.0 - fy) * ((1.0 - fx) * source[i, j, k + 1] + fx * source[i + 1, j, k + 1])
        high += fy * ((1.0 - fx) * source[i, j + 1, k + 1] + fx * source[i + 1, j + 1, k + 1])
        value = (1.0 - fz) * low + fz * high
        if value == value:  # no voxel is NaN
            return value
    nearest = source[np.int64(np.floor(px + 0.5)), np.int64(np.floor(py + 0.5)), np.int64(np.floor(pz + 0.5))]
    if nearest != nearest:
        return np.nan
    total, weights = 0.0, 0.0
    for corner in range(8):
        di, dj, dk = corner & 1, (corner >> 1) & 1, corner >> 2
        value = source[min(max(i + di, 0), nx - 1), min(max(j + dj, 0), ny - 1), min(max(k + dk, 0), nz - 1)]
        weight = (fx if di else 1.0 - fx) * (fy if dj else 1.0 - fy) * (fz if dk else 1.0 - fz)
        if value == value:
            total += weight * value
            weights += weight
    return total / weights


@kernel
def sample_nearest(start: int, stop: int, source: Any, matrix: Any, fill: Any, out: Any) -> None:
    """As `sample_linear`, with the value of the nearest voxel."""
    nx, ny, nz = source.shape
    rows, columns = out.shape[1], out.shape[2]
    for row in range(start, stop):
        a, b = row // rows, row % rows
        x = matrix[0, 0] * a + matrix[0, 1] * b + matrix[0, 3] + 0.5
        y = matrix[1, 0] * a + matrix[1, 1] * b + matrix[1, 3] + 0.5
        z = matrix[2, 0] * a + matrix[2, 1] * b + matrix[2, 3] + 0.5
        for c in range(columns):
            i = np.int64(np.floor(x + matrix[0, 2] * c))
            j = np.int64(np.floor(y + matrix[1, 2] * c))
            k = np.int64(np.floor(z + matrix[2, 2] * c))
            inside = 0 <= i < nx and 0 <= j < ny and 0 <= k < nz
            out[a, b, c] = source[i, j, k] if inside else fill
