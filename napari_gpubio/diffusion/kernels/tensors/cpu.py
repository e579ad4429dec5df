"""Tensor fit and eigen-decomposition in Numba, the counterpart of ``gpu.py`` and ``tensors.cu``.

Tensors here are in um^2/ms (= 1e-3 mm^2/s), so that numbers are near 1; components in the order xx, yy, zz, xy, xz, yz.
Kernels compute in double precision; arrays of single precision are converted on the way in and out.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import helper, kernel, leaf, run_blocks
from napari_gpubio.diffusion.kernels.tensors.problem import FitProblem, Fitted

Array = npt.NDArray[Any]
Row = tuple[float, float, float]
_PIECE = 4096  # tensors that are converted to double precision at a time


@helper
def rotate(
    app: float, aqq: float, apq: float, arp: float, arq: float, vp: Row, vq: Row
) -> tuple[float, float, float, float, float, Row, Row]:
    """One Jacobi rotation that makes a[p, q] zero; vp and vq, rows of v, collect the eigenvectors."""
    if apq == 0.0:
        return app, aqq, apq, arp, arq, vp, vq
    theta = (aqq - app) / (2.0 * apq)
    t = 1.0 / (abs(theta) + math.sqrt(theta * theta + 1.0))
    if theta < 0.0:
        t = -t
    c = 1.0 / math.sqrt(t * t + 1.0)
    s = t * c
    p0, p1, p2 = vp
    q0, q1, q2 = vq
    new_vp = (c * p0 - s * q0, c * p1 - s * q1, c * p2 - s * q2)
    new_vq = (s * p0 + c * q0, s * p1 + c * q1, s * p2 + c * q2)
    return app - t * apq, aqq + t * apq, 0.0, c * arp - s * arq, s * arp + c * arq, new_vp, new_vq


@leaf
def in_order(wi: float, wj: float, vi: Row, vj: Row) -> tuple[float, float, Row, Row]:
    """Put the larger of two eigenvalues first, with its eigenvector."""
    if wi < wj:
        return wj, wi, vj, vi
    return wi, wj, vi, vj


@kernel
def eigen_rows(start: int, stop: int, tensors: Array, values: Array, vectors: Array) -> None:
    """Eigenvalues (descending) and eigenvectors (rows) of tensors (M, 6).

    Cyclic Jacobi (Golub and Van Loan, Matrix Computations, section 8.5): exact to rounding also where eigenvalues
    are nearly equal, which the closed formula is not.
    """
    for n in range(start, stop):
        xx, yy, zz = tensors[n, 0], tensors[n, 1], tensors[n, 2]
        xy, xz, yz = tensors[n, 3], tensors[n, 4], tensors[n, 5]
        v0, v1, v2 = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
        for _ in range(16):
            off = abs(xy) + abs(xz) + abs(yz)
            if not off > 1e-17 * (abs(xx) + abs(yy) + abs(zz)):
                break
            xx, yy, xy, xz, yz, v0, v1 = rotate(xx, yy, xy, xz, yz, v0, v1)
            xx, zz, xz, xy, yz, v0, v2 = rotate(xx, zz, xz, xy, yz, v0, v2)
            yy, zz, yz, xy, xz, v1, v2 = rotate(yy, zz, yz, xy, xz, v1, v2)
        xx, yy, v0, v1 = in_order(xx, yy, v0, v1)
        xx, zz, v0, v2 = in_order(xx, zz, v0, v2)
        yy, zz, v1, v2 = in_order(yy, zz, v1, v2)
        values[n, 0], values[n, 1], values[n, 2] = xx, yy, zz
        vectors[n, 0, 0], vectors[n, 0, 1], vectors[n, 0, 2] = v0
        vectors[n, 1, 0], vectors[n, 1, 1], vectors[n, 1, 2] = v1
        vectors[n, 2, 0], vectors[n, 2, 1], vectors[n, 2, 2] = v2


def eigen_decompose(tensors: Array) -> tuple[Array, Array]:
    """Eigenvalues (..., 3), descending, and eigenvectors (..., 3, 3) of tensors (..., 6).

    ``vectors[..., n, :]`` belongs to ``values[..., n]``.
    """
    rows = np.ascontiguousarray(tensors).reshape(-1, 6)
    values = np.empty((len(rows), 3), rows.dtype)
    vectors = np.empty((len(rows), 3, 3), rows.dtype)

    def decompose(start: int, stop: int) -> None:
        for first in range(start, stop, _PIECE):
            part = slice(first, min(first + _PIECE, stop))
            doubles = rows[part].astype(np.float64)
            found, axes = np.empty((len(doubles), 3)), np.empty((len(doubles), 3, 3))
            eigen_rows(0, len(doubles), doubles, found, axes)
            values[part], vectors[part] = found, axes

    run_blocks(decompose, len(rows), least=1024)
    return values.reshape(*tensors.shape[:-1], 3), vectors.reshape(*tensors.shape[:-1], 3, 3)


@kernel
def compose_rows(start: int, stop: int, values: Array, vectors: Array, change: Array, tensors: Array) -> None:
    """``tensors[n] = C (sum_i w_i v_i v_i^T) C^T`` with C = ``change``."""
    for n in range(start, stop):
        xx = yy = zz = xy = xz = yz = 0.0
        for i in range(3):
            a, b, c, w = vectors[n, i, 0], vectors[n, i, 1], vectors[n, i, 2], values[n, i]
            x = change[0, 0] * a + change[0, 1] * b + change[0, 2] * c
            y = change[1, 0] * a + change[1, 1] * b + change[1, 2] * c
            z = change[2, 0] * a + change[2, 1] * b + change[2, 2] * c
            xx += w * x * x
            yy += w * y * y
            zz += w * z * z
            xy += w * x * y
            xz += w * x * z
            yz += w * y * z
        tensors[n, 0], tensors[n, 1], tensors[n, 2] = xx, yy, zz
        tensors[n, 3], tensors[n, 4], tensors[n, 5] = xy, xz, yz


def compose(values: Array, vectors: Array, change: Array | None = None) -> Array:
    """Tensors (..., 6) with given eigenvalues and eigenvectors, as `eigen_decompose` gives them.

    ``change``: a 3 x 3 matrix C for tensors ``C D C^T`` in another frame.
    """
    matrix = np.eye(3) if change is None else np.array(change, np.float64, order="C")
    rows = np.ascontiguousarray(values).reshape(-1, 3)
    axes = np.ascontiguousarray(vectors).reshape(-1, 3, 3)
    tensors = np.empty((len(rows), 6), rows.dtype)

    def put_together(start: int, stop: int) -> None:
        for first in range(start, stop, _PIECE):
            part = slice(first, min(first + _PIECE, stop))
            made = np.empty((part.stop - first, 6))
            compose_rows(0, len(made), rows[part].astype(np.float64), axes[part].astype(np.float64), matrix, made)
            tensors[part] = made

    run_blocks(put_together, len(rows), least=4096)
    return tensors.reshape(*values.shape[:-1], 6)


@helper
def solve_cholesky(normal: Array, x: Array) -> bool:
    """Solve ``normal x = b`` in place for a 7 x 7 positive definite matrix (lower half used); x holds b on entry."""
    for j in range(7):
        for k in range(j):
            normal[j, j] -= normal[j, k] * normal[j, k]
        if not normal[j, j] > 0.0:
            return False
        normal[j, j] = math.sqrt(normal[j, j])
        for i in range(j + 1, 7):
            for k in range(j):
                normal[i, j] -= normal[i, k] * normal[j, k]
            normal[i, j] /= normal[j, j]
    for i in range(7):
        for k in range(i):
            x[i] -= normal[i, k] * x[k]
        x[i] /= normal[i, i]
    for i in range(6, -1, -1):
        for k in range(i + 1, 7):
            x[i] -= normal[k, i] * x[k]
        x[i] /= normal[i, i]
    return True


class FitArrays(NamedTuple):
    """What `fit_rows` reads: signals (M, N), the design (N, 7), its pseudo-inverse (7, N), and the weighted fits."""

    signals: Array
    design: Array
    solver: Array
    rounds: int


class FitScratch(NamedTuple):
    """Memory of one call of `fit_rows`."""

    log_signal: Array
    weight: Array
    normal: Array
    answer: Array


@kernel
def fit_rows(start: int, stop: int, arrays: FitArrays, scratch: FitScratch, out: Array, raised: Array) -> None:
    """Fit the logarithm of the signals: ordinary least squares, then weighted ones by the signals and by the fit.

    Signals are raised to 1e-6 of a voxel's largest first. Where a weighted fit fails, the last good answer stays.
    """
    signals, design, solver = arrays.signals, arrays.design, arrays.solver
    y, weight, normal, x = scratch.log_signal, scratch.weight, scratch.normal, scratch.answer
    for n in range(start, stop):
        largest = np.float64(0.0)
        for v in range(len(y)):
            value = np.float64(signals[n, v])
            if value > largest:
                largest = value
        least = 1e-6 * largest
        raised[n] = False
        for v in range(len(y)):
            value = np.float64(signals[n, v])
            if not value >= least:
                value = least
                raised[n] = True
            weight[v] = value
            y[v] = math.log(value)
        for i in range(7):
            total = 0.0
            for v in range(len(y)):
                total += solver[i, v] * y[v]
            out[n, i] = total
        for done in range(arrays.rounds):
            if done > 0:
                for v in range(len(y)):
                    log_signal = 0.0
                    for i in range(7):
                        log_signal += design[v, i] * out[n, i]
                    weight[v] = math.exp(log_signal)
            for i in range(7):
                x[i] = 0.0
                for j in range(i + 1):
                    normal[i, j] = 0.0
            for v in range(len(y)):
                w2 = weight[v] * weight[v]
                for i in range(7):
                    wb = w2 * design[v, i]
                    x[i] += wb * y[v]
                    for j in range(i + 1):
                        normal[i, j] += wb * design[v, j]
            if not solve_cholesky(normal, x):
                break
            for i in range(7):
                out[n, i] = x[i]


class Run(drivers.Run):
    """The fit of one problem on the CPU; items are the voxels of the mask."""

    def __init__(self, problem: FitProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._arrays = FitArrays(problem.signals, problem.design, problem.solver, problem.rounds)
        self._out = np.full((len(problem.signals), 7), np.nan)
        self._raised = np.zeros(len(problem.signals), bool)

    def advance(self, start: int, count: int) -> None:
        """Fit the voxels ``start`` to ``start + count - 1``."""

        def fit(first: int, stop: int) -> None:
            volumes = len(self._arrays.design)
            scratch = FitScratch(np.empty(volumes), np.empty(volumes), np.empty((7, 7)), np.empty(7))
            fit_rows(start + first, start + stop, self._arrays, scratch, self._out, self._raised)

        run_blocks(fit, count, least=64)

    def snapshot(self) -> Fitted:
        """Return what has been fitted so far."""
        return Fitted(self._out, self._raised)
