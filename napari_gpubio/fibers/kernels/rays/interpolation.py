"""Symmetric matrices, and volumes between their voxels, in Numba; counterpart of ``interpolation.cuh``.

Same names and operation order. Matrices have six components (xx, yy, zz, xy, xz, yz), positions are in voxels. Volumes
are read eight numbers at a time, so those of six components need two spare numbers behind their end
(`cpu.prepare_field` adds them). Tuples are unpacked rather than indexed: Numba compiles a function for every index.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import numpy as np

from napari_gpubio.core.intrinsics import load, multiply_add, spread, unpack
from napari_gpubio.core.jit import helper, leaf


@leaf
def multiply(m, x, y, z):
    """Symmetric matrix (xx, yy, zz, xy, xz, yz) times a vector."""
    xx, yy, zz, xy, xz, yz = m
    return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z


@leaf
def quadratic(m, x, y, z):
    """x.M x for a symmetric matrix of six components."""
    a, b, c = multiply(m, x, y, z)
    return x * a + y * b + z * c


@leaf
def solve_symmetric(m, x, y, z):
    """M^-1 times a vector, by cofactors."""
    xx, yy, zz, xy, xz, yz = m
    c0 = yy * zz - yz * yz
    c1 = xx * zz - xz * xz
    c2 = xx * yy - xy * xy
    c3 = xz * yz - xy * zz
    c4 = xy * yz - xz * yy
    c5 = xy * xz - xx * yz
    d = xx * c0 + xy * c3 + xz * c4
    return (c0 * x + c3 * y + c4 * z) / d, (c3 * x + c1 * y + c5 * z) / d, (c4 * x + c5 * y + c2 * z) / d


@leaf
def spline_weights(t):
    """Weights of the four nodes of a cubic B-spline at fraction t, and their derivatives."""
    real = type(t)
    u, sixth, half, two_thirds = real(1) - t, real(1) / real(6), real(0.5), real(2) / real(3)
    tt, uu = t * t, u * u
    weights = (
        uu * u * sixth,
        multiply_add(tt, multiply_add(half, t, real(-1)), two_thirds),
        multiply_add(uu, multiply_add(half, u, real(-1)), two_thirds),
        tt * t * sixth,
    )
    slopes = (
        -half * uu,
        t * multiply_add(real(1.5), t, real(-2)),
        u * multiply_add(real(-1.5), u, real(2)),
        half * tt,
    )
    return weights, slopes


@leaf
def weighted(w, f0, f1, f2, f3):
    """Weighted sum of four nodes."""
    w0, w1, w2, w3 = w
    return multiply_add(w3, f3, multiply_add(w2, f2, multiply_add(w1, f1, w0 * f0)))


@leaf
def between(f, g, t):
    """Linear interpolation from f to g."""
    return multiply_add(g - f, t, f)


@leaf
def six(lanes):
    """The first six of eight lanes, as a tuple."""
    a, b, c, d, e, f, _, _ = unpack(lanes)
    return a, b, c, d, e, f


@leaf
def cell(x, count):
    """Index of the voxel before a position; the last cell is closed."""
    i = np.int64(x)
    return count - 2 if i > count - 2 else i


@leaf
def spline_row(field, row, wz, gz):
    """Value and slope along z of the spline's components, from four nodes; ``row`` is the flat index of the first."""
    f0, f1, f2, f3 = load(field, row), load(field, row + 6), load(field, row + 12), load(field, row + 18)
    return weighted(wz, f0, f1, f2, f3), weighted(gz, f0, f1, f2, f3)


@helper
def sample_cubic(field, x, y, z):
    """Value and gradient of the spline of six components, as four tuples; nodes are padded by one voxel."""
    real = field.dtype.type
    i, j, k = np.int64(x), np.int64(y), np.int64(z)
    wx, gx = spline_weights(x - real(i))
    wy, gy = spline_weights(y - real(j))
    wz, gz = spline_weights(z - real(k))
    _, ny, nz, _ = field.shape
    s0 = s1 = s2 = s3 = spread(real(0))
    for a in range(4):
        row = 6 * (((i + a) * ny + j) * nz + k)
        v0, g0 = spline_row(field, row, wz, gz)
        v1, g1 = spline_row(field, row + 6 * nz, wz, gz)
        v2, g2 = spline_row(field, row + 12 * nz, wz, gz)
        v3, g3 = spline_row(field, row + 18 * nz, wz, gz)
        value = weighted(wy, v0, v1, v2, v3)
        s0 = multiply_add(wx[a], value, s0)
        s1 = multiply_add(gx[a], value, s1)
        s2 = multiply_add(wx[a], weighted(gy, v0, v1, v2, v3), s2)
        s3 = multiply_add(wx[a], weighted(wy, g0, g1, g2, g3), s3)
    return six(s0), six(s1), six(s2), six(s3)


@leaf
def cell_nodes(field, at, sz, sy, sx):
    """Eight components at each corner of a cell; ``at`` is a flat index, ``sz, sy, sx`` strides to the next nodes."""
    near, far = at + sy, at + sx + sy
    return (
        load(field, at), load(field, at + sz), load(field, near), load(field, near + sz),
        load(field, at + sx), load(field, at + sx + sz), load(field, far), load(field, far + sz),
    )  # fmt: skip


@helper
def sample_linear(field, x, y, z):
    """Value and gradient of the trilinear interpolant of six components, as four tuples."""
    real = field.dtype.type
    nx, ny, nz, width = field.shape
    i, j, k = cell(x, nx), cell(y, ny), cell(z, nz)
    a, b, c = x - real(i), y - real(j), z - real(k)
    at, sx, sy = width * ((i * ny + j) * nz + k), width * ny * nz, width * nz
    f000, f001, f010, f011, f100, f101, f110, f111 = cell_nodes(field, at, width, sy, sx)
    x00, x10, x01, x11 = between(f000, f100, a), between(f010, f110, a), between(f001, f101, a), between(f011, f111, a)
    y0, y1 = between(x00, x10, b), between(x01, x11, b)
    g0, g1 = between(f100 - f000, f110 - f010, b), between(f101 - f001, f111 - f011, b)
    h0, h1 = x10 - x00, x11 - x01
    return six(between(y0, y1, c)), six(between(g0, g1, c)), six(between(h0, h1, c)), six(y1 - y0)


@leaf
def eight_of_24(field, at, sx, sy, a, b, c):
    """Trilinear values of eight components of a volume of 24, as a tuple; ``at`` is the flat index of the first."""
    f000, f001, f010, f011, f100, f101, f110, f111 = cell_nodes(field, at, np.int64(24), sy, sx)
    x00, x10, x01, x11 = between(f000, f100, a), between(f010, f110, a), between(f001, f101, a), between(f011, f111, a)
    return unpack(between(between(x00, x10, b), between(x01, x11, b), c))


@helper
def sample_four(field, x, y, z):
    """Trilinear values of W and of the three differences of g, as four tuples of six."""
    real = field.dtype.type
    nx, ny, nz, width = field.shape
    i, j, k = cell(x, nx), cell(y, ny), cell(z, nz)
    a, b, c = x - real(i), y - real(j), z - real(k)
    at, sx, sy = width * ((i * ny + j) * nz + k), width * ny * nz, width * nz
    u0, u1, u2, u3, u4, u5, u6, u7 = eight_of_24(field, at, sx, sy, a, b, c)
    v0, v1, v2, v3, v4, v5, v6, v7 = eight_of_24(field, at + 8, sx, sy, a, b, c)
    w0, w1, w2, w3, w4, w5, w6, w7 = eight_of_24(field, at + 16, sx, sy, a, b, c)
    return (
        (u0, u1, u2, u3, u4, u5),
        (u6, u7, v0, v1, v2, v3),
        (v4, v5, v6, v7, w0, w1),
        (w2, w3, w4, w5, w6, w7),
    )


@helper
def sample_guide(guide, euclid, x, y, z, u, least_cos, above_fa):
    """Trilinear principal direction (each voxel's sign made to agree with u), FA, and the weight of what counts.

    Directions count of voxels of more FA, whose angle to u has at least that cosine; FA counts of all of them.
    """
    real = type(x)
    nx, ny, nz, _ = guide.shape
    i, j, k = cell(x, nx), cell(y, ny), cell(z, nz)
    a, b, c = x - real(i), y - real(j), z - real(k)
    ux, uy, uz = u
    mx, my, mz = multiply(euclid, ux, uy, uz)
    out0 = out1 = out2 = out3 = weight = real(0)
    for corner in range(8):
        di, dj, dk = corner >> 2, (corner >> 1) & 1, corner & 1
        w = (a if di else real(1) - a) * (b if dj else real(1) - b) * (c if dk else real(1) - c)
        e0, e1 = real(guide[i + di, j + dj, k + dk, 0]), real(guide[i + di, j + dj, k + dk, 1])
        e2, fa = real(guide[i + di, j + dj, k + dk, 2]), real(guide[i + di, j + dj, k + dk, 3])
        along = e0 * mx + e1 * my + e2 * mz
        counted = w if abs(along) >= least_cos and fa > above_fa else real(0)
        signed = counted if along >= real(0) else -counted
        out0 += signed * e0
        out1 += signed * e1
        out2 += signed * e2
        out3 += w * fa
        weight += counted
    return out0, out1, out2, out3, weight
