"""Compiled parts of profiles along bundles: even points, one direction for all fibers, statistics of each node."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel

Array = npt.NDArray[Any]
MOMENTS = 11  # of a node: fibers, mean x, y, z, covariance xx, yy, zz, xy, xz, yz, and whether it can be inverted
COMPARED = 12  # points of two fibers whose distances tell which way they run
NEAREST = 0.01  # Mahalanobis distance below which no fiber gets a larger weight
_FLAT = 1e-10  # determinant of a covariance, relative to that of a round one, below which it counts as singular


@kernel
def interpolate_evenly(start: int, stop: int, points: Array, offsets: Array, values: Array, out: Array) -> None:
    """Write values at equal distances along fibers, the two ends included; linear between the fibers' own points.

    Parameters
    ----------
    start, stop
        Fibers, each of at least one point.
    points
        Shape (P, 3), mm.
    offsets
        First point of each fiber, shape (F + 1,).
    values
        Of each point, shape (P, k).
    out
        Shape (F, n, k), n at least 2.
    """
    nodes, columns = out.shape[1], out.shape[2]
    for f in range(start, stop):
        last = offsets[f + 1] - 1
        total = 0.0
        for p in range(offsets[f], last):
            total += _step(points, p)
        before = offsets[f]
        begin, step = 0.0, _step(points, before) if before < last else 0.0
        for node in range(nodes):
            wanted = total * node / (nodes - 1)
            while before < last - 1 and begin + step <= wanted:
                begin += step
                before += 1
                step = _step(points, before)
            share = min(max((wanted - begin) / step, 0.0), 1.0) if step > 0.0 else 0.0
            after = min(before + 1, last)
            for column in range(columns):
                out[f, node, column] = (1.0 - share) * values[before, column] + share * values[after, column]


@helper
def _step(points: Array, p: int) -> Any:
    x = np.float64(points[p + 1, 0]) - np.float64(points[p, 0])
    y = np.float64(points[p + 1, 1]) - np.float64(points[p, 1])
    z = np.float64(points[p + 1, 2]) - np.float64(points[p, 2])
    return np.sqrt(x * x + y * y + z * z)


@kernel
def run_like(start: int, stop: int, lines: Array, line: Array, turned: Array) -> None:
    """Reverse the fibers that are then nearer to a line, by the mean of the distances of some of their points (MDF).

    Parameters
    ----------
    lines
        Shape (F, K, 3), mm; changed in place.
    line
        Shape (K, 3).
    turned
        Shape (F,), booleans that are written: which fibers were reversed.
    """
    last = lines.shape[1] - 1
    pairs = min(last, COMPARED - 1)
    for f in range(start, stop):
        same, opposite = 0.0, 0.0
        for n in range(pairs + 1):
            k = n * last // pairs
            x = lines[f, k, 0] - line[k, 0]
            y = lines[f, k, 1] - line[k, 1]
            z = lines[f, k, 2] - line[k, 2]
            same += np.sqrt(x * x + y * y + z * z)
            x = lines[f, last - k, 0] - line[k, 0]
            y = lines[f, last - k, 1] - line[k, 1]
            z = lines[f, last - k, 2] - line[k, 2]
            opposite += np.sqrt(x * x + y * y + z * z)
        turned[f] = opposite < same
        if turned[f]:
            for k in range((last + 1) // 2):
                for axis in range(3):
                    kept = lines[f, k, axis]
                    lines[f, k, axis] = lines[f, last - k, axis]
                    lines[f, last - k, axis] = kept


@kernel
def node_moments(start: int, stop: int, lines: Array, values: Array, moments: Array) -> None:
    """Write number, mean position and covariance (over N) of the fibers that have a value at each node.

    Parameters
    ----------
    start, stop
        Nodes.
    lines
        Shape (F, K, 3), mm.
    values
        Shape (F, K); NaN where a fiber has none.
    moments
        Shape (K, `MOMENTS`), zero.
    """
    for f in range(lines.shape[0]):
        for k in range(start, stop):
            if values[f, k] == values[f, k]:
                moments[k, 0] += 1.0
                for axis in range(3):
                    moments[k, 1 + axis] += lines[f, k, axis]
    for k in range(start, stop):
        for axis in range(3):
            moments[k, 1 + axis] /= moments[k, 0]
    for f in range(lines.shape[0]):
        for k in range(start, stop):
            if values[f, k] == values[f, k]:
                x = lines[f, k, 0] - moments[k, 1]
                y = lines[f, k, 1] - moments[k, 2]
                z = lines[f, k, 2] - moments[k, 3]
                moments[k, 4] += x * x
                moments[k, 5] += y * y
                moments[k, 6] += z * z
                moments[k, 7] += x * y
                moments[k, 8] += x * z
                moments[k, 9] += y * z
    for k in range(start, stop):
        for n in range(4, 10):
            moments[k, n] /= moments[k, 0]
        xx, yy, zz = moments[k, 4], moments[k, 5], moments[k, 6]
        xy, xz, yz = moments[k, 7], moments[k, 8], moments[k, 9]
        det = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
        size = (xx + yy + zz) / 3.0
        moments[k, 10] = 1.0 if moments[k, 0] > 2.5 and det > _FLAT * size * size * size else 0.0


@kernel
def node_statistics(
    start: int, stop: int, lines: Array, values: Array, moments: Array, forms: Array, weights: Array, out: Array
) -> None:
    """Write mean, standard deviation and standard error of each node, weighted by 1 / sqrt(d' form d).

    Parameters
    ----------
    start, stop
        Nodes.
    lines, values, moments
        As `node_moments` has them.
    forms
        Of each node the coefficients of xx, yy, zz, xy, xz, yz in the square of the distance from the mean position,
        shape (K, 6); NaN where all fibers have the same weight.
    weights
        Shape (F, K); written: their sum at a node is 1, and those without a value have 0.
    out
        Shape (K, 4), zero: mean, standard deviation and standard error are written to the first three columns.
    """
    fibers = lines.shape[0]
    for f in range(fibers):  # sums of weights, of their squares, of values
        for k in range(start, stop):
            value = values[f, k]
            if value == value:
                x = lines[f, k, 0] - moments[k, 1]
                y = lines[f, k, 1] - moments[k, 2]
                z = lines[f, k, 2] - moments[k, 3]
                square = forms[k, 0] * x * x + forms[k, 1] * y * y + forms[k, 2] * z * z
                square += forms[k, 3] * x * y + forms[k, 4] * x * z + forms[k, 5] * y * z
                weight = 1.0 / np.sqrt(max(square, NEAREST * NEAREST)) if square == square else 1.0
                weights[f, k] = weight
                out[k, 1] += weight * weight
                out[k, 2] += weight
                out[k, 0] += weight * value
    for k in range(start, stop):
        out[k, 0] /= out[k, 2]
        out[k, 1] /= out[k, 2] * out[k, 2]
    for f in range(fibers):
        for k in range(start, stop):
            if weights[f, k] > 0.0:
                weights[f, k] /= out[k, 2]
                away = values[f, k] - out[k, 0]
                out[k, 3] += weights[f, k] * away * away
    for k in range(start, stop):
        squares = out[k, 1]
        out[k, 1] = np.sqrt(out[k, 3] / (1.0 - squares)) if moments[k, 0] > 1.5 else np.nan
        out[k, 2] = out[k, 1] * np.sqrt(squares)
