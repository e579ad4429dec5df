"""Tensor fit and eigen-decomposition on all CPU cores (Numba), the counterpart of ``gpu.py`` and ``tensors.cu``.

Tensors here are in um^2/ms (= 1e-3 mm^2/s), so that numbers are near 1; components in the order xx, yy, zz, xy, xz, yz.
"""

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.tracts.kernels.tensors.problem import FitProblem

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)


@_jit
def _rotate(a: Array, v: Array, p: int, q: int) -> None:
    """One Jacobi rotation that makes ``a[p, q]`` zero; the rows of ``v`` collect the eigenvectors."""
    if a[p, q] == 0.0:
        return
    theta = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
    t = 1.0 / (abs(theta) + math.sqrt(theta * theta + 1.0))
    if theta < 0.0:
        t = -t
    c = 1.0 / math.sqrt(t * t + 1.0)
    s = t * c
    r = 3 - p - q
    a[p, p] -= t * a[p, q]
    a[q, q] += t * a[p, q]
    a[p, q] = 0.0
    a[q, p] = 0.0
    arp = c * a[r, p] - s * a[r, q]
    arq = s * a[r, p] + c * a[r, q]
    a[r, p] = arp
    a[p, r] = arp
    a[r, q] = arq
    a[q, r] = arq
    for k in range(3):
        vp = c * v[p, k] - s * v[q, k]
        v[q, k] = s * v[p, k] + c * v[q, k]
        v[p, k] = vp


@_jit
def _swap_if_less(w: Array, v: Array, i: int, j: int) -> None:
    if w[i] < w[j]:
        w[i], w[j] = w[j], w[i]
        for k in range(3):
            v[i, k], v[j, k] = v[j, k], v[i, k]


@_jit
def eigen3(d: Array, a: Array, w: Array, v: Array) -> None:
    """Eigenvalues ``w`` (descending) and eigenvectors (rows of ``v``) of six components ``d``; ``a`` is scratch.

    Cyclic Jacobi (Golub and Van Loan, Matrix Computations, section 8.5): exact to rounding also where eigenvalues
    are nearly equal, which the closed formula is not.
    """
    a[0, 0], a[1, 1], a[2, 2] = d[0], d[1], d[2]
    a[0, 1], a[1, 0] = d[3], d[3]
    a[0, 2], a[2, 0] = d[4], d[4]
    a[1, 2], a[2, 1] = d[5], d[5]
    for i in range(3):
        for j in range(3):
            v[i, j] = 1.0 if i == j else 0.0
    for _ in range(16):
        off = abs(a[0, 1]) + abs(a[0, 2]) + abs(a[1, 2])
        if not off > 1e-17 * (abs(a[0, 0]) + abs(a[1, 1]) + abs(a[2, 2])):
            break
        _rotate(a, v, 0, 1)
        _rotate(a, v, 0, 2)
        _rotate(a, v, 1, 2)
    for i in range(3):
        w[i] = a[i, i]
    _swap_if_less(w, v, 0, 1)
    _swap_if_less(w, v, 0, 2)
    _swap_if_less(w, v, 1, 2)


@_jit_parallel
def _eigen_rows(tensors: Array, values: Array, vectors: Array) -> None:
    for block in nb.prange((len(tensors) + 255) // 256):
        a, v, w, d = np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty(6)
        for n in range(256 * block, min(256 * block + 256, len(tensors))):
            for c in range(6):
                d[c] = tensors[n, c]
            eigen3(d, a, w, v)
            for i in range(3):
                values[n, i] = w[i]
                for k in range(3):
                    vectors[n, i, k] = v[i, k]


def eigen_decompose(tensors: Array) -> tuple[Array, Array]:
    """Eigenvalues (descending) and eigenvectors of tensors of shape (..., 6).

    Returns
    -------
    values
        Shape (..., 3), in the tensors' unit and type.
    vectors
        Shape (..., 3, 3); ``vectors[..., n, :]`` belongs to ``values[..., n]``.
    """
    rows = np.ascontiguousarray(tensors).reshape(-1, 6)
    values = np.empty((len(rows), 3), rows.dtype)
    vectors = np.empty((len(rows), 3, 3), rows.dtype)
    with cpu_threads():
        _eigen_rows(rows, values, vectors)
    return values.reshape(*tensors.shape[:-1], 3), vectors.reshape(*tensors.shape[:-1], 3, 3)


@_jit_parallel
def _compose_rows(values: Array, vectors: Array, change: Array, tensors: Array) -> None:
    """``tensors[n] = C (sum_i w_i v_i v_i^T) C^T`` with C = ``change``."""
    for n in nb.prange(len(values)):
        xx = yy = zz = xy = xz = yz = 0.0
        for i in range(3):
            x = change[0, 0] * vectors[n, i, 0] + change[0, 1] * vectors[n, i, 1] + change[0, 2] * vectors[n, i, 2]
            y = change[1, 0] * vectors[n, i, 0] + change[1, 1] * vectors[n, i, 1] + change[1, 2] * vectors[n, i, 2]
            z = change[2, 0] * vectors[n, i, 0] + change[2, 1] * vectors[n, i, 1] + change[2, 2] * vectors[n, i, 2]
            w = values[n, i]
            xx += w * x * x
            yy += w * y * y
            zz += w * z * z
            xy += w * x * y
            xz += w * x * z
            yz += w * y * z
        tensors[n, 0], tensors[n, 1], tensors[n, 2] = xx, yy, zz
        tensors[n, 3], tensors[n, 4], tensors[n, 5] = xy, xz, yz


def compose(values: Array, vectors: Array, change: Array | None = None) -> Array:
    """Tensors (..., 6) with given eigenvalues and eigenvectors, seen through a change of frame.

    Parameters
    ----------
    values, vectors
        As `eigen_decompose` gives them.
    change
        3 x 3 matrix C; the result is ``C D C^T``. None leaves the frame.
    """
    matrix = np.eye(3) if change is None else np.ascontiguousarray(change, np.float64)
    flat = np.ascontiguousarray(values).reshape(-1, 3)
    tensors = np.empty((len(flat), 6), flat.dtype)
    with cpu_threads():
        _compose_rows(flat, np.ascontiguousarray(vectors).reshape(-1, 3, 3), matrix, tensors)
    return tensors.reshape(*values.shape[:-1], 6)


@_jit
def _solve_cholesky(normal: Array, x: Array) -> bool:
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


@_jit
def _weighted(design: Array, y: Array, weight: Array, normal: Array, x: Array) -> bool:
    """Least squares of ``y`` on ``design`` with squared weights ``weight``; the answer goes to ``x``."""
    for i in range(7):
        x[i] = 0.0
        for j in range(i + 1):
            normal[i, j] = 0.0
    for n in range(len(y)):
        w2 = weight[n] * weight[n]
        for i in range(7):
            wb = w2 * design[n, i]
            x[i] += wb * y[n]
            for j in range(i + 1):
                normal[i, j] += wb * design[n, j]
    return _solve_cholesky(normal, x)


@_jit
def _predict(design: Array, x: Array, weight: Array) -> None:
    for n in range(len(weight)):
        log_signal = 0.0
        for i in range(7):
            log_signal += design[n, i] * x[i]
        weight[n] = math.exp(log_signal)


@_jit
def _log_signals(signals: Array, y: Array, weight: Array) -> bool:
    """Logarithms of one voxel's signals, raised to 1e-6 of its largest; True if one had to be raised."""
    largest = 0.0
    for n in range(len(y)):
        largest = max(largest, signals[n])
    least = 1e-6 * largest
    raised = False
    for n in range(len(y)):
        value = float(signals[n])
        if not value >= least:
            value = least
            raised = True
        weight[n] = value
        y[n] = math.log(value)
    return raised


@_jit_parallel
def _fit_rows(
    signals: Array,
    design: Array,
    solver: Array,
    weighted: bool,
    iterations: int,
    start: int,
    count: int,
    out: Array,
    raised: Array,
) -> None:
    volumes = len(design)
    for block in nb.prange((count + 63) // 64):
        y, weight = np.empty(volumes), np.empty(volumes)
        normal, x, next_x = np.empty((7, 7)), np.empty(7), np.empty(7)
        for n in range(start + 64 * block, start + min(64 * block + 64, count)):
            raised[n] = _log_signals(signals[n], y, weight)
            for i in range(7):
                x[i] = 0.0
                for k in range(volumes):
                    x[i] += solver[i, k] * y[k]
            if weighted and _weighted(design, y, weight, normal, next_x):
                x[:] = next_x
                for _ in range(iterations):
                    _predict(design, x, weight)
                    if not _weighted(design, y, weight, normal, next_x):
                        break  # the last good answer stays, as the ordinary one does above
                    x[:] = next_x
            for i in range(7):
                out[n, i] = x[i]


@_jit_parallel
def _usable_rows(signals: Array, usable: Array) -> None:
    for n in nb.prange(len(signals)):
        positive, finite = False, True
        for k in range(signals.shape[1]):
            positive |= signals[n, k] > 0
            finite &= math.isfinite(signals[n, k])
        usable[n] = positive and finite


def usable_rows(signals: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Voxels whose signals are all finite, and one of them positive; from shape (M, N) to (M,)."""
    usable = np.empty(len(signals), bool)
    with cpu_threads():
        _usable_rows(signals, usable)
    return usable


class Run:
    """The fit of one problem on the CPU; items are the voxels of the mask."""

    def __init__(self, problem: FitProblem, *, device: Device = CPU) -> None:
        self.device = device
        self._problem = problem
        self._out = np.full((len(problem.signals), 7), np.nan)
        self._raised = np.zeros(len(problem.signals), bool)

    def bytes_per_item(self) -> int:
        """Bytes of output that one voxel takes."""
        return 57

    def advance(self, start: int, count: int) -> None:
        """Fit the voxels ``start`` to ``start + count - 1``."""
        p = self._problem
        with cpu_threads():
            _fit_rows(p.signals, p.design, p.solver, p.weighted, p.iterations, start, count, self._out, self._raised)

    def snapshot(self) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Return the seven coefficients of each voxel, shape (M, 7), NaN where not fitted, and who had low signals."""
        return self._out, self._raised

    def close(self) -> None:
        """Nothing to free on the CPU."""
