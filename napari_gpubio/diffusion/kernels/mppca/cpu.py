"""Marchenko-Pastur PCA on all CPU cores (Numba), the counterpart of ``gpu.py`` and ``mppca.cu``; see ``problem.py``.

Windows of neighbors overlap, so the work on them is shared along the last axis of the volume: a window is a few faces
that lie one behind the other, and a face is worked on once. For m <= n volumes it gives a sum of outer products,
else rows and columns of the Gram matrix, which so holds the faces in an order that turns round. Which faces are kept
depends on a voxel's place only, and a sum of faces is always made anew; so nothing depends on how voxels are divided
among calls.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import helper, kernel, leaf, read_only, run_blocks
from napari_gpubio.diffusion.kernels.mppca.problem import Denoised, PcaProblem
from napari_gpubio.diffusion.kernels.mppca.projection import (
    PcaScratch,
    diagonalize,
    dot,
    make_scratch,
    reduce_to_tridiagonal,
    split,
    undo_reflections,
    undo_rotations,
)

Array = npt.NDArray[Any]
_EACH = 1 << 21  # the size of matrices to the third, times how many of them are worth a call of their own


class PcaArrays(NamedTuple):
    """What `denoise_voxels` reads."""

    data: Array  # (X, Y, Z, N)
    voxels: Array  # (M, 3)
    window: tuple[int, int, int]
    scale: float  # of the signals
    exact: bool  # exp2 or exp1
    tiny: float  # relative size of an off-diagonal element that counts as 0


class PcaOutput(NamedTuple):
    """What `denoise_voxels` writes, a row for each voxel from ``start`` on; see `Denoised`."""

    start: int
    signals: Array
    sigma: Array
    rank: Array


class Corner(NamedTuple):
    """Where the window of a voxel begins."""

    x: int
    y: int
    z: int


@leaf
def first_of(center: int, edge: int, size: int) -> int:
    """Where a window begins along an axis: half of it before the voxel, but within the volume."""
    first = center - edge // 2
    if first > size - edge:
        first = size - edge
    return first if first > 0 else 0


@helper
def fill_faces(arrays: PcaArrays, s: PcaScratch, at: Corner) -> None:
    """Load the faces that the last window did not have, and make their sums of outer products."""
    ex, ey, ez = arrays.window
    for z in range(at.z, at.z + ez):
        f = z % ez
        if s.filled[f] == z:
            continue
        s.filled[f] = z
        for a in range(ex):
            for b in range(ey):
                for v in range(arrays.data.shape[3]):
                    s.faces[f, a * ey + b, v] = arrays.data[at.x + a, at.y + b, z, v] * arrays.scale
        add_outer_products(s.faces[f], s.sums[f])


@helper
def add_outer_products(face: Array, sums: Array) -> None:
    """Sum of the outer products of the rows of a face."""
    rows, padded = len(face), sums.shape[1]
    for i in range(len(sums)):
        for j in range(padded):
            sums[i, j] = face[0, i] * face[0, j]
        for n in range(2, rows, 2):
            f0, f1 = face[n - 1, i], face[n, i]
            for j in range(padded):
                sums[i, j] += f0 * face[n - 1, j] + f1 * face[n, j]
        if rows % 2 == 0:
            f0 = face[rows - 1, i]
            for j in range(padded):
                sums[i, j] += f0 * face[rows - 1, j]


@helper
def add_faces(sums: Array, matrix: Array) -> None:
    """The Gram matrix as the sum of those of its faces, in the order in which they are kept."""
    faces, size, padded = sums.shape
    for i in range(size):
        for j in range(padded):
            matrix[i, j] = sums[0, i, j]
        for f in range(1, faces):
            for j in range(padded):
                matrix[i, j] += sums[f, i, j]


@helper
def fill_columns(arrays: PcaArrays, s: PcaScratch, at: Corner) -> None:
    """Load the faces that the last window did not have, and make their rows and columns of the Gram matrix anew."""
    (ex, ey, ez), signals, gram = arrays.window, s.faces[0], s.sums[0]
    for z in range(at.z, at.z + ez):
        if s.filled[z % ez] != z:
            for a in range(ex):
                for b in range(ey):
                    j = (z % ez * ex + a) * ey + b
                    for v in range(len(signals)):
                        signals[v, j] = arrays.data[at.x + a, at.y + b, z, v] * arrays.scale
    for z in range(at.z, at.z + ez):
        if s.filled[z % ez] != z:
            s.filled[z % ez] = z
            for j in range(z % ez * ex * ey, (z % ez + 1) * ex * ey):
                add_products(signals, gram[j], j)
                for i in range(len(gram)):
                    gram[i, j] = gram[j, i]


@helper
def add_products(signals: Array, row: Array, j: int) -> None:
    """A row of the Gram matrix: products of column j of the signals with all columns."""
    volumes, padded = signals.shape
    for i in range(padded):
        row[i] = 0
    for v in range(1, volumes, 2):
        f0, f1 = signals[v - 1, j], signals[v, j]
        for i in range(padded):
            row[i] += f0 * signals[v - 1, i] + f1 * signals[v, i]
    if volumes % 2:
        f0 = signals[volumes - 1, j]
        for i in range(padded):
            row[i] += f0 * signals[volumes - 1, i]


@helper
def find_coefficients(arrays: PcaArrays, s: PcaScratch, at: Corner, center: int, z: int) -> None:
    """Make the matrix of a window, and the vector y that is projected."""
    if arrays.data.shape[3] == len(s.matrix):
        fill_faces(arrays, s, at)
        add_faces(s.sums, s.matrix)
        for i in range(len(s.matrix)):
            s.y[i] = s.faces[z % len(s.filled), center, i]
    else:
        fill_columns(arrays, s, at)
        add_faces(s.sums, s.matrix)
        for i in range(len(s.matrix)):
            s.y[i] = 0
        s.y[z % len(s.filled) * (len(s.matrix) // len(s.filled)) + center] = 1


@helper
def write_signals(arrays: PcaArrays, s: PcaScratch, signals: Array) -> None:
    """The denoised signals of a voxel, from the projected vector."""
    size = len(s.matrix)
    for v in range(len(signals)):
        value = s.y[v] if len(signals) == size else dot(s.faces[0, v], s.y, size)
        signals[v] = value / arrays.scale


@kernel
def denoise_voxels(start: int, stop: int, arrays: PcaArrays, s: PcaScratch, out: PcaOutput) -> None:
    """Denoise the voxels ``start`` to ``stop - 1``."""
    data, (ex, ey, ez), size = arrays.data, arrays.window, len(s.matrix)
    longer = data.shape[3] if data.shape[3] > ex * ey * ez else ex * ey * ez
    row_x = row_y = -1
    for n in range(start, stop):
        x, y, z = arrays.voxels[n, 0], arrays.voxels[n, 1], arrays.voxels[n, 2]
        at = Corner(first_of(x, ex, data.shape[0]), first_of(y, ey, data.shape[1]), first_of(z, ez, data.shape[2]))
        if at.x != row_x or at.y != row_y:
            row_x, row_y = at.x, at.y
            for f in range(ez):
                s.filled[f] = -1
        find_coefficients(arrays, s, at, (x - at.x) * ey + y - at.y, z)
        reduce_to_tridiagonal(s, size)
        swept = diagonalize(s, size, arrays.tiny)
        if swept < 0:
            out.sigma[n - out.start], out.rank[n - out.start] = np.nan, 0
            for v in range(data.shape[3]):
                out.signals[n - out.start, v] = data[x, y, z, v]
            continue
        count, variance = split(s, size, longer, arrays.exact)
        undo_rotations(s, swept)
        undo_reflections(s, size)
        out.sigma[n - out.start] = math.sqrt(variance) / arrays.scale
        out.rank[n - out.start] = size - count
        write_signals(arrays, s, out.signals[n - out.start])


class Run(drivers.Run):
    """The denoising of one series on the CPU; items are the voxels."""

    def __init__(self, problem: PcaProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._arrays = PcaArrays(
            read_only(problem.data),
            read_only(problem.voxels),
            problem.window,
            problem.scale,
            problem.exact,
            float(np.finfo(problem.real).eps),
        )

    def advance(self, start: int, count: int) -> None:
        """Denoise the voxels ``start`` to ``start + count - 1``."""
        out = PcaOutput(
            start,
            np.empty((count, self._problem.volumes), np.float32),
            np.empty(count, np.float32),
            np.empty(count, np.uint16),
        )

        def denoise(first: int, stop: int) -> None:
            denoise_voxels(start + first, start + stop, self._arrays, make_scratch(self._problem), out)

        run_blocks(denoise, count, least=max(1, _EACH // self._problem.size**3))
        self._finished.append(Denoised(start, out.signals, out.sigma, out.rank))
