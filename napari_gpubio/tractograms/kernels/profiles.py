"""Compiled parts of profiles along bundles: even points, one direction for all fibers, statistics of each node."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel

Array = npt.NDArray[Any]
MOMENTS = 11  # of a node: fibers, mean x, y, z, covariance xx, yy, zz, xy, xz, yz, and whether it can be inverted
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
        rate = 1.0 / step if step > 0.0 else 0.0
        for node in range(nodes):
            wanted = total * node / (nodes - 1)
            while before < last - 1 and begin + step <= wanted:
                begin += step
                before += 1
                step = _step(points, before)
                rate = 1.0 / step if step > 0.0 else 0.0
            share = min(max((wanted - begin) * rate, 0.0), 1.0)
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
def find_turned(start: int, stop: int, lines: Array, line: Array, turned: Array) -> None:
    """Tell which fibers are nearer to a line when they are reversed, by the mean distance of points (MDF).

    Parameters
    ----------
    lines
        Shape (F, K, 3), mm.
    line
        Shape (K, 3).
    turned
        Shape (F,), booleans that are written.
    """
    last = lines.shape[1] - 1
    for f in range(start, stop):
        same, opposite = 0.0, 0.0
        for k in range(last + 1):
            x = lines[f, k, 0] - line[k, 0]
            y = lines[f, k, 1] - line[k, 1]
            z = lines[f, k, 2] - line[k, 2]
            same += np.sqrt(x * x + y * y + z * z)
            x = lines[f, last - k, 0] - line[k, 0]
            y = lines[f, last - k, 1] - line[k, 1]
            z = lines[f, last - k, 2] - line[k, 2]
            opposite += np.sqrt(x * x + y * y + z * z)
        turned[f] = opposite < same


@kernel
def by_nodes(start: int, stop: int, lines: Array, turned: Array, nodes: Array) -> None:
    """Write the points of fibers node by node, reversed ones from their last point on: shape (K, F, 3)."""
    last = lines.shape[1] - 1
    for f in range(start, stop):
        for k in range(last + 1):
            at = last - k if turned[f] else k
            nodes[k, f, 0], nodes[k, f, 1], nodes[k, f, 2] = lines[f, at, 0], lines[f, at, 1], lines[f, at, 2]


@kernel
def node_moments(start: int, stop: int, nodes: Array, values: Array, moments: Array) -> None:
    """Write number, mean position and covariance (over N) of the fibers that have a value at each node.

    Parameters
    ----------
    start, stop
        Nodes.
    nodes
        Shape (K, F, 3), mm.
    values
        Shape (K, F); NaN where a fiber has none.
    moments
        Shape (K, `MOMENTS`).
    """
    for k in range(start, stop):
        count, x, y, z = 0.0, 0.0, 0.0, 0.0
        for f in range(values.shape[1]):
            if values[k, f] == values[k, f]:
                count += 1.0
                x += nodes[k, f, 0]
                y += nodes[k, f, 1]
                z += nodes[k, f, 2]
        x, y, z = x / count, y / count, z / count
        xx, yy, zz, xy, xz, yz = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for f in range(values.shape[1]):
            if values[k, f] == values[k, f]:
                dx, dy, dz = nodes[k, f, 0] - x, nodes[k, f, 1] - y, nodes[k, f, 2] - z
                xx += dx * dx
                yy += dy * dy
                zz += dz * dz
                xy += dx * dy
                xz += dx * dz
                yz += dy * dz
        xx, yy, zz, xy, xz, yz = xx / count, yy / count, zz / count, xy / count, xz / count, yz / count
        det = xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
        size = (xx + yy + zz) / 3.0
        moments[k, 0], moments[k, 1], moments[k, 2], moments[k, 3] = count, x, y, z
        moments[k, 4], moments[k, 5], moments[k, 6] = xx, yy, zz
        moments[k, 7], moments[k, 8], moments[k, 9] = xy, xz, yz
        moments[k, 10] = 1.0 if count > 2.5 and det > _FLAT * size * size * size else 0.0


@kernel
def node_statistics(
    start: int, stop: int, nodes: Array, values: Array, moments: Array, forms: Array, weights: Array, out: Array
) -> None:
    """Write mean, standard deviation and standard error of each node, weighted by 1 / sqrt(d' form d).

    Parameters
    ----------
    start, stop
        Nodes.
    nodes, values, moments
        As `node_moments` has them.
    forms
        Of each node the coefficients of xx, yy, zz, xy, xz, yz in the square of the distance from the mean position,
        shape (K, 6); NaN where all fibers have the same weight.
    weights
        Shape (K, F); written: their sum at a node is 1, and those without a value have 0.
    out
        Shape (K, 3): mean, standard deviation, standard error.
    """
    for k in range(start, stop):
        x, y, z = moments[k, 1], moments[k, 2], moments[k, 3]
        xx, yy, zz, xy, xz, yz = forms[k, 0], forms[k, 1], forms[k, 2], forms[k, 3], forms[k, 4], forms[k, 5]
        total, squares, mean, spread = 0.0, 0.0, 0.0, 0.0
        for f in range(values.shape[1]):
            weight = 0.0
            if values[k, f] == values[k, f]:
                dx, dy, dz = nodes[k, f, 0] - x, nodes[k, f, 1] - y, nodes[k, f, 2] - z
                square = xx * dx * dx + yy * dy * dy + zz * dz * dz + xy * dx * dy + xz * dx * dz + yz * dy * dz
                weight = 1.0 / np.sqrt(max(square, NEAREST * NEAREST)) if square == square else 1.0
                total += weight
                squares += weight * weight
                mean += weight * values[k, f]
            weights[k, f] = weight
        mean, squares = mean / total, squares / (total * total)
        for f in range(values.shape[1]):
            if weights[k, f] > 0.0:
                weights[k, f] /= total
                spread += weights[k, f] * (values[k, f] - mean) * (values[k, f] - mean)
        spread = np.sqrt(spread / (1.0 - squares)) if moments[k, 0] > 1.5 else np.nan
        out[k, 0], out[k, 1], out[k, 2] = mean, spread, spread * np.sqrt(squares)
