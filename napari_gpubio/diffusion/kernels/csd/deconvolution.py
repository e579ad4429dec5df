"""Constrained spherical deconvolution in Numba; the counterpart of ``csd.cu``: same names, same order of operations.

The matrix of a voxel is the packed upper triangle, row by row: entry (i, k) at ``i N - i (i + 1) / 2 + k``.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel

Array = npt.NDArray[Any]


class CsdArrays(NamedTuple):
    """What `deconvolve_rows` reads: see `CsdProblem`; triangles of ``gram`` and ``full``; ``columns`` = penalty^T."""

    signals: Array
    forward: Array
    gram: Array
    full: Array
    penalty: Array
    columns: Array
    start: Array
    iterations: int


class CsdScratch(NamedTuple):
    """Memory of one call of `deconvolve_rows`."""

    system: Array
    factor: Array
    right: Array
    fod: Array
    amplitude: Array
    negative: Array
    changed: Array


@helper
def change_system(system, penalty, changed, count):
    """Add or take away the outer products of rows of the penalty: rows ``k`` or ``~k`` in ``changed``, four at a time.

    Rows beyond the last count as zero.
    """
    n = penalty.shape[1]
    real = system.dtype.type
    for first in range(0, count, 4):
        k0 = changed[first]
        k1 = changed[first + 1] if first + 1 < count else k0
        k2 = changed[first + 2] if first + 2 < count else k0
        k3 = changed[first + 3] if first + 3 < count else k0
        s0 = real(1.0) if k0 >= 0 else real(-1.0)
        s1 = (real(1.0) if k1 >= 0 else real(-1.0)) if first + 1 < count else real(0.0)
        s2 = (real(1.0) if k2 >= 0 else real(-1.0)) if first + 2 < count else real(0.0)
        s3 = (real(1.0) if k3 >= 0 else real(-1.0)) if first + 3 < count else real(0.0)
        h0, h1 = penalty[k0 if k0 >= 0 else ~k0], penalty[k1 if k1 >= 0 else ~k1]
        h2, h3 = penalty[k2 if k2 >= 0 else ~k2], penalty[k3 if k3 >= 0 else ~k3]
        for i in range(n):
            a0, a1, a2, a3 = s0 * h0[i], s1 * h1[i], s2 * h2[i], s3 * h3[i]
            at = i * n - i * (i - 1) // 2
            row, t0, t1, t2, t3 = system[at : at + n - i], h0[i:], h1[i:], h2[i:], h3[i:]
            for k in range(n - i):
                value = multiply_add(a1, t1[k], multiply_add(a0, t0[k], row[k]))
                row[k] = multiply_add(a3, t3[k], multiply_add(a2, t2[k], value))


@helper
def factorize(factor, n):
    """Cholesky's U with U^T U = the matrix, in place; false if it is not positive definite."""
    at = 0
    for j in range(n):
        pivot_row = factor[at : at + n - j]
        if not pivot_row[0] > 0.0:
            return False
        root = math.sqrt(pivot_row[0])
        for k in range(n - j):
            pivot_row[k] = pivot_row[k] / root
        at += n - j
        below = at
        for i in range(1, n - j):
            row, beside, f = factor[below : below + n - j - i], pivot_row[i:], -pivot_row[i]
            for k in range(n - j - i):
                row[k] = multiply_add(f, beside[k], row[k])
            below += n - j - i
    return True


@helper
def solve_factorized(factor, x):
    """Solve U^T U x = b in place; x holds b on entry."""
    n = len(x)
    at = 0
    for j in range(n):
        row, rest = factor[at : at + n - j], x[j:]
        rest[0] = rest[0] / row[0]
        f = -rest[0]
        for k in range(1, n - j):
            rest[k] = multiply_add(f, row[k], rest[k])
        at += n - j
    for j in range(n - 1, -1, -1):
        x[j] = x[j] / factor[j * n - j * (j + 1) // 2 + j]
        f = -x[j]
        for i in range(j):
            x[i] = multiply_add(f, factor[i * n - i * (i + 1) // 2 + j], x[i])


@kernel
def deconvolve_rows(start, stop, arrays, scratch, out, took):
    """FODs (M, N) of signals, and the iterations that each took; NaN where the matrix is not positive definite."""
    signals, forward, penalty, columns = arrays.signals, arrays.forward, arrays.penalty, arrays.columns
    first, gram, full = arrays.start, arrays.gram, arrays.full
    system, factor, right, fod = scratch.system, scratch.factor, scratch.right, scratch.fod
    amplitude, negative, changed = scratch.amplitude, scratch.negative, scratch.changed
    real = system.dtype.type
    directions, n = forward.shape
    rows = len(amplitude)
    for voxel in range(start, stop):
        for i in range(n):
            right[i] = fod[i] = real(0.0)
        for v in range(directions):
            s = real(signals[voxel, v])
            for i in range(n):
                right[i] = multiply_add(s, forward[v, i], right[i])
        for i in range(len(first)):
            for v in range(directions):
                fod[i] = multiply_add(first[i, v], real(signals[voxel, v]), fod[i])
        took[voxel] = 0
        for iteration in range(arrays.iterations + 1):
            for k in range(rows):
                amplitude[k] = real(0.0)
            for i in range(n):
                f = fod[i]
                for k in range(rows):
                    amplitude[k] = multiply_add(f, columns[i, k], amplitude[k])
            count = 0
            for k in range(rows):
                count += amplitude[k] < real(0.0)
            if iteration == 0:  # begin with all or none of the directions, whichever is nearer
                begins_full = 2 * count > rows
                for k in range(rows):
                    negative[k] = begins_full
                for e in range(len(system)):
                    system[e] = full[e] if begins_full else gram[e]
            count = 0
            for k in range(rows):
                now = amplitude[k] < real(0.0)
                if now != negative[k]:
                    negative[k] = now
                    changed[count] = k if now else ~k
                    count += 1
            if (count == 0 and iteration > 0) or iteration == arrays.iterations:
                break
            change_system(system, penalty, changed, count)
            for e in range(len(system)):
                factor[e] = system[e]
            for i in range(n):
                fod[i] = right[i]
            took[voxel] = iteration + 1
            if not factorize(factor, n):
                for i in range(n):
                    fod[i] = real(np.nan)
                break
            solve_factorized(factor, fod)
        for i in range(n):
            out[voxel, i] = fod[i]
