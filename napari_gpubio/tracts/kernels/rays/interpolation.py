"""Volumes between their voxels in Numba, the counterpart of ``interpolation.cuh``: same names, same operation order.

Positions are in voxels. Volumes are read eight numbers at a time, so that those of six components need two spare
numbers behind their end (`cpu.prepare_field` sees to it).
"""

import numba as nb

from napari_gpubio.core.intrinsics import load, multiply_add, spread, unpack
from napari_gpubio.tracts.kernels.rays.symmetric import multiply

_jit = nb.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def spline_weights(t):
    """Weights of the four nodes of a cubic B-spline at fraction t, and their derivatives."""
    real = type(t)
    u, sixth, half = real(1) - t, real(1) / real(6), real(0.5)
    weights = (
        u * u * u * sixth,
        (real(4) - real(6) * t * t + real(3) * t * t * t) * sixth,
        (real(4) - real(6) * u * u + real(3) * u * u * u) * sixth,
        t * t * t * sixth,
    )
    slopes = (
        -u * u * half,
        (real(3) * t * t - real(4) * t) * half,
        (real(4) * u - real(3) * u * u) * half,
        t * t * half,
    )
    return weights, slopes


@_jit
def weighted(w, f0, f1, f2, f3):
    """Weighted sum of four nodes."""
    return multiply_add(w[3], f3, multiply_add(w[2], f2, multiply_add(w[1], f1, w[0] * f0)))


@_jit
def between(f, g, t):
    """Linear interpolation from f to g."""
    return multiply_add(g - f, t, f)


@_jit
def sample_cubic(field, x, y, z):
    """Value and gradient of the spline of six components, as four tuples; nodes are padded by one voxel."""
    real = field.dtype.type
    i, j, k = int(x), int(y), int(z)
    wx, gx = spline_weights(x - real(i))
    wy, gy = spline_weights(y - real(j))
    wz, gz = spline_weights(z - real(k))
    ny, nz = field.shape[1], field.shape[2]
    s0 = s1 = s2 = s3 = spread(real(0))
    for a in range(4):
        for b in range(4):
            row = 6 * (((i + a) * ny + j + b) * nz + k)
            f0, f1, f2, f3 = load(field, row), load(field, row + 6), load(field, row + 12), load(field, row + 18)
            value = weighted(wz, f0, f1, f2, f3)
            slope = weighted(gz, f0, f1, f2, f3)
            wab = wx[a] * wy[b]
            s0 = multiply_add(wab, value, s0)
            s1 = multiply_add(gx[a] * wy[b], value, s1)
            s2 = multiply_add(wx[a] * gy[b], value, s2)
            s3 = multiply_add(wab, slope, s3)
    return unpack(s0), unpack(s1), unpack(s2), unpack(s3)


@_jit
def cell_nodes(field, at, sz, sy, sx):
    """Eight components at each corner of a cell; ``at`` is a flat index, ``sz, sy, sx`` strides to the next nodes."""
    near, far = at + sy, at + sx + sy
    return (
        load(field, at), load(field, at + sz), load(field, near), load(field, near + sz),
        load(field, at + sx), load(field, at + sx + sz), load(field, far), load(field, far + sz),
    )  # fmt: skip


@_jit
def sample_linear(field, x, y, z):
    """Value and gradient of the trilinear interpolant of six components, as four tuples."""
    real = field.dtype.type
    ny, nz = field.shape[1], field.shape[2]
    i, j, k = min(int(x), field.shape[0] - 2), min(int(y), ny - 2), min(int(z), nz - 2)
    a, b, c = x - real(i), y - real(j), z - real(k)
    at, sx, sy = 6 * ((i * ny + j) * nz + k), 6 * ny * nz, 6 * nz
    f000, f001, f010, f011, f100, f101, f110, f111 = cell_nodes(field, at, 6, sy, sx)
    x00, x10, x01, x11 = between(f000, f100, a), between(f010, f110, a), between(f001, f101, a), between(f011, f111, a)
    y0, y1 = between(x00, x10, b), between(x01, x11, b)
    g0, g1 = between(f100 - f000, f110 - f010, b), between(f101 - f001, f111 - f011, b)
    h0, h1 = x10 - x00, x11 - x01
    return unpack(between(y0, y1, c)), unpack(between(g0, g1, c)), unpack(between(h0, h1, c)), unpack(y1 - y0)


@_jit
def eight_of_24(field, at, sx, sy, a, b, c):
    """Trilinear values of eight components of a volume of 24, as a tuple; ``at`` is the flat index of the first."""
    f000, f001, f010, f011, f100, f101, f110, f111 = cell_nodes(field, at, 24, sy, sx)
    x00, x10, x01, x11 = between(f000, f100, a), between(f010, f110, a), between(f001, f101, a), between(f011, f111, a)
    return unpack(between(between(x00, x10, b), between(x01, x11, b), c))


@_jit
def sample_four(field, x, y, z):
    """Trilinear values of W and of the three differences of g, as four tuples of six."""
    real = field.dtype.type
    ny, nz = field.shape[1], field.shape[2]
    i, j, k = min(int(x), field.shape[0] - 2), min(int(y), ny - 2), min(int(z), nz - 2)
    a, b, c = x - real(i), y - real(j), z - real(k)
    at, sx, sy = 24 * ((i * ny + j) * nz + k), 24 * ny * nz, 24 * nz
    u = eight_of_24(field, at, sx, sy, a, b, c)
    v = eight_of_24(field, at + 8, sx, sy, a, b, c)
    w = eight_of_24(field, at + 16, sx, sy, a, b, c)
    return (
        (u[0], u[1], u[2], u[3], u[4], u[5]),
        (u[6], u[7], v[0], v[1], v[2], v[3]),
        (v[4], v[5], v[6], v[7], w[0], w[1]),
        (w[2], w[3], w[4], w[5], w[6], w[7]),
    )


@_jit
def sample_guide(guide, x, y, z, ux, uy, uz, euclid):
    """Trilinear principal direction (each voxel's sign made to agree with u) and FA: four numbers."""
    real = type(x)
    i, j, k = min(int(x), guide.shape[0] - 2), min(int(y), guide.shape[1] - 2), min(int(z), guide.shape[2] - 2)
    a, b, c = x - real(i), y - real(j), z - real(k)
    mx, my, mz = multiply(euclid, ux, uy, uz)
    out0 = out1 = out2 = out3 = real(0)
    for corner in range(8):
        di, dj, dk = corner >> 2, (corner >> 1) & 1, corner & 1
        w = (a if di else real(1) - a) * (b if dj else real(1) - b) * (c if dk else real(1) - c)
        e0, e1 = real(guide[i + di, j + dj, k + dk, 0]), real(guide[i + di, j + dj, k + dk, 1])
        e2, fa = real(guide[i + di, j + dj, k + dk, 2]), real(guide[i + di, j + dj, k + dk, 3])
        signed = w if e0 * mx + e1 * my + e2 * mz >= real(0) else -w
        out0 += signed * e0
        out1 += signed * e1
        out2 += signed * e2
        out3 += w * fa
    return out0, out1, out2, out3
