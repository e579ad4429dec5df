"""Least squares under linear inequalities in Numba; the counterpart of ``constrained.cu``.

Same names, same order of operations. The passive normals are ``Q R``: the rows of ``basis`` are Q's columns, and
``factor`` has the columns of R one after another, entry (i, j) at ``j (j + 1) / 2 + i``.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel

Array = npt.NDArray[Any]
DEPENDENT = 1e-9  # what is left of a normal of length 1 without its part in the span of others
TOLERANCE = 1e-11  # of the length of g: an amplitude above minus that is not negative
MAX_CHANGES = 4  # of each constraint, after which a voxel is given up


class ConstrainedArrays(NamedTuple):
    """What `solve_rows` reads: see `ConstrainedProblem`; ``columns`` is the transpose of the normals."""

    signals: Array
    white: Array
    normals: Array
    columns: Array
    back: Array


class ConstrainedScratch(NamedTuple):
    """Memory of one call of `solve_rows`."""

    goal: Array
    point: Array
    amplitude: Array
    passive: Array
    basis: Array
    factor: Array
    half: Array
    solved: Array
    multiplier: Array
    is_passive: Array


@helper
def add_normal(normal, goal, basis, factor, half, count):
    """Extend the orthonormal basis and R by a normal; false if it lies in the span already.

    Gram-Schmidt, twice, since normals of neighboring directions are nearly parallel. ``half`` = R times the
    multipliers, which is minus the basis times the goal.
    """
    n, column = len(normal), factor[count * (count + 1) // 2 :]
    new = basis[count]
    for i in range(n):
        new[i] = normal[i]
    for j in range(count):
        column[j] = 0.0
    for _ in range(2):
        for j in range(count):
            other, product = basis[j], 0.0
            for i in range(n):
                product = multiply_add(other[i], new[i], product)
            column[j] += product
            for i in range(n):
                new[i] = multiply_add(-product, other[i], new[i])
    square = 0.0
    for i in range(n):
        square = multiply_add(new[i], new[i], square)
    root = math.sqrt(square)
    if not root > DEPENDENT:
        return False
    column[count] = root
    right = 0.0
    for i in range(n):
        new[i] = new[i] / root
        right = multiply_add(-new[i], goal[i], right)
    half[count] = right
    return True


@helper
def solve_back(factor, half, count, solved):
    """Multipliers: solve R x = half."""
    for j in range(count):
        solved[j] = half[j]
    for j in range(count - 1, -1, -1):
        column = factor[j * (j + 1) // 2 :]
        x = solved[j] / column[j]
        solved[j] = x
        for i in range(j):
            solved[i] = multiply_add(-column[i], x, solved[i])


@helper
def drop_normal(basis, factor, half, dropped, count):
    """Take a normal out of the basis: R without its column is made triangular by rotations of rows."""
    n = basis.shape[1]
    for j in range(dropped, count - 1):
        row, other = basis[j], basis[j + 1]
        column = factor[(j + 1) * (j + 2) // 2 :]
        a, b = column[j], column[j + 1]
        size = math.sqrt(multiply_add(a, a, b * b))
        c, s = a / size, b / size
        for k in range(j + 1, count):
            upper, lower = factor[k * (k + 1) // 2 + j], factor[k * (k + 1) // 2 + j + 1]
            factor[k * (k + 1) // 2 + j] = multiply_add(c, upper, s * lower)
            factor[k * (k + 1) // 2 + j + 1] = multiply_add(c, lower, -s * upper)
        for i in range(n):
            upper, lower = row[i], other[i]
            row[i] = multiply_add(c, upper, s * lower)
            other[i] = multiply_add(c, lower, -s * upper)
        upper, lower = half[j], half[j + 1]
        half[j] = multiply_add(c, upper, s * lower)
        half[j + 1] = multiply_add(c, lower, -s * upper)
        for i in range(j + 1):
            factor[j * (j + 1) // 2 + i] = column[i]


@helper
def first_blocking(solved, multiplier, count):
    """Go towards the solution as far as no multiplier gets negative; return the place of that which gets to zero."""
    part, blocking = 2.0, 0
    for j in range(count):
        if not solved[j] > 0.0:
            at = multiplier[j] / (multiplier[j] - solved[j])
            if at < part:
                part, blocking = at, j
    for j in range(count):
        multiplier[j] = multiply_add(part, solved[j] - multiplier[j], multiplier[j])
    return blocking


@kernel
def solve_rows(start, stop, arrays, scratch, out, took):
    """Solutions (M, N) of each voxel's problem, and the constraints that were taken up; NaN where none was found."""
    signals, white, normals, columns, back = arrays
    goal, point, amplitude, passive = scratch.goal, scratch.point, scratch.amplitude, scratch.passive
    basis, factor, half, solved = scratch.basis, scratch.factor, scratch.half, scratch.solved
    multiplier, is_passive = scratch.multiplier, scratch.is_passive
    volumes, n = white.shape
    rows = len(amplitude)
    for voxel in range(start, stop):
        for i in range(n):
            goal[i] = 0.0
        for v in range(volumes):
            s = np.float64(signals[voxel, v])
            for i in range(n):
                goal[i] = multiply_add(s, white[v, i], goal[i])
        square = 0.0
        for i in range(n):
            point[i] = goal[i]
            square = multiply_add(goal[i], goal[i], square)
        least = -TOLERANCE * math.sqrt(square)
        for k in range(rows):
            is_passive[k] = False
        count, changes, failed = 0, 0, False
        while True:
            for k in range(rows):
                amplitude[k] = 0.0
            for i in range(n):
                y = point[i]
                for k in range(rows):
                    amplitude[k] = multiply_add(y, columns[i, k], amplitude[k])
            worst, value = -1, least
            for k in range(rows):
                if amplitude[k] < value and not is_passive[k]:
                    worst, value = k, amplitude[k]
            if worst < 0 or count == n:
                break
            failed = changes == MAX_CHANGES * rows
            if failed or not add_normal(normals[worst], goal, basis, factor, half, count):
                break
            changes += 1
            passive[count], multiplier[count], is_passive[worst] = worst, 0.0, True
            count += 1
            while True:
                solve_back(factor, half, count, solved)
                all_positive = True
                for j in range(count):
                    all_positive = all_positive and solved[j] > 0.0
                if all_positive:
                    break
                blocking = first_blocking(solved, multiplier, count)
                drop_normal(basis, factor, half, blocking, count)
                count -= 1
                is_passive[passive[blocking]] = False
                for j in range(blocking, count):
                    passive[j], multiplier[j] = passive[j + 1], multiplier[j + 1]
            for i in range(n):
                point[i] = goal[i]
            for j in range(count):
                h, row = half[j], basis[j]
                multiplier[j] = solved[j]
                for i in range(n):
                    point[i] = multiply_add(h, row[i], point[i])
        took[voxel] = changes
        for i in range(n):
            f = 0.0
            for k in range(i, n):
                f = multiply_add(back[i, k], point[k], f)
            out[voxel, i] = np.nan if failed else f
