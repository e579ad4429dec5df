"""Ray tracing numerics for all CPU cores (Numba), the twin of ``geodesic.cuh``: same names, same operation order.

Every function works in the type of its arrays, float32 or float64. Positions are in voxels; ``euclid`` (A^T A) measures
voxel vectors in mm.
"""

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.tracts.rays.partial import STATS
from napari_gpubio.tracts.rays.problem import CUBIC, EUDX, LINEAR, VANAART
from napari_gpubio.tracts.settings import StopReason

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")

VOLUME, MASK, FA, STEPS = int(StopReason.VOLUME), int(StopReason.MASK), int(StopReason.FA), int(StopReason.STEPS)
LENGTH, CURVATURE = int(StopReason.LENGTH), int(StopReason.CURVATURE)
DRIFT, INVALID = int(StopReason.DRIFT), int(StopReason.INVALID)
BLOCK = 4  # rays that one thread does in a row


@_jit
def multiply(m, x, y, z):
    """Symmetric matrix (xx, yy, zz, xy, xz, yz) times a vector."""
    return m[0] * x + m[3] * y + m[4] * z, m[3] * x + m[1] * y + m[5] * z, m[4] * x + m[5] * y + m[2] * z


@_jit
def quadratic(m, x, y, z):
    """x.M x for a symmetric matrix of six components."""
    a, b, c = multiply(m, x, y, z)
    return x * a + y * b + z * c


@_jit
def solve_symmetric(m, x, y, z):
    """M^-1 times a vector, by cofactors."""
    c0 = m[1] * m[2] - m[5] * m[5]
    c1 = m[0] * m[2] - m[4] * m[4]
    c2 = m[0] * m[1] - m[3] * m[3]
    c3 = m[4] * m[5] - m[3] * m[2]
    c4 = m[3] * m[5] - m[4] * m[1]
    c5 = m[3] * m[4] - m[0] * m[5]
    d = m[0] * c0 + m[3] * c3 + m[4] * c4
    return (c0 * x + c3 * y + c4 * z) / d, (c3 * x + c1 * y + c5 * z) / d, (c4 * x + c5 * y + c2 * z) / d


@_jit
def inside(shape, x, y, z):
    """Whether a position lies between the outermost voxel centres (false for NaN)."""
    return (x >= 0) and (y >= 0) and (z >= 0) and (x <= shape[0] - 1) and (y <= shape[1] - 1) and (z <= shape[2] - 1)


@_jit
def spline_weights(t, w, d):
    """Weights of the four nodes of a cubic B-spline at fraction t, and their derivatives."""
    real = w.dtype.type
    u, sixth, half = real(1) - t, real(1) / real(6), real(0.5)
    w[0] = u * u * u * sixth
    w[1] = (real(4) - real(6) * t * t + real(3) * t * t * t) * sixth
    w[2] = (real(4) - real(6) * u * u + real(3) * u * u * u) * sixth
    w[3] = t * t * t * sixth
    d[0] = -u * u * half
    d[1] = (real(3) * t * t - real(4) * t) * half
    d[2] = (real(4) * u - real(3) * u * u) * half
    d[3] = t * t * half


@_jit
def sample_cubic(field, x, y, z, w, d, out):
    """Value (out[0]) and gradient (out[1:4]) of the spline of six components; nodes are padded by one voxel."""
    real = field.dtype.type
    i, j, k = int(x), int(y), int(z)
    spline_weights(x - real(i), w[0], d[0])
    spline_weights(y - real(j), w[1], d[1])
    spline_weights(z - real(k), w[2], d[2])
    w0, w1, w2, w3 = w[2, 0], w[2, 1], w[2, 2], w[2, 3]
    d0, d1, d2, d3 = d[2, 0], d[2, 1], d[2, 2], d[2, 3]
    for q in range(4):
        for n in range(6):
            out[q, n] = real(0)
    for a in range(4):
        for b in range(4):
            row = field[i + a, j + b]
            wab, dx, dy = w[0, a] * w[1, b], d[0, a] * w[1, b], w[0, a] * d[1, b]
            for n in range(6):
                f0, f1, f2, f3 = row[k, n], row[k + 1, n], row[k + 2, n], row[k + 3, n]
                value = w0 * f0 + w1 * f1 + w2 * f2 + w3 * f3
                slope = d0 * f0 + d1 * f1 + d2 * f2 + d3 * f3
                out[0, n] += wab * value
                out[1, n] += dx * value
                out[2, n] += dy * value
                out[3, n] += wab * slope


@_jit
def sample_linear(field, x, y, z, out):
    """Value and gradient of the trilinear interpolant of six components."""
    real = field.dtype.type
    i, j, k = min(int(x), field.shape[0] - 2), min(int(y), field.shape[1] - 2), min(int(z), field.shape[2] - 2)
    a, b, c = x - real(i), y - real(j), z - real(k)
    for n in range(6):
        f000, f001, f010, f011 = (
            field[i, j, k, n],
            field[i, j, k + 1, n],
            field[i, j + 1, k, n],
            field[i, j + 1, k + 1, n],
        )
        f100, f101 = field[i + 1, j, k, n], field[i + 1, j, k + 1, n]
        f110, f111 = field[i + 1, j + 1, k, n], field[i + 1, j + 1, k + 1, n]
        x00, x10 = f000 + (f100 - f000) * a, f010 + (f110 - f010) * a
        x01, x11 = f001 + (f101 - f001) * a, f011 + (f111 - f011) * a
        y0, y1 = x00 + (x10 - x00) * b, x01 + (x11 - x01) * b
        g0, g1 = (
            (f100 - f000) + ((f110 - f010) - (f100 - f000)) * b,
            (f101 - f001) + ((f111 - f011) - (f101 - f001)) * b,
        )
        h0, h1 = x10 - x00, x11 - x01
        out[0, n] = y0 + (y1 - y0) * c
        out[1, n] = g0 + (g1 - g0) * c
        out[2, n] = h0 + (h1 - h0) * c
        out[3, n] = y1 - y0


@_jit
def sample_four(field, x, y, z, out):
    """Trilinear values of W and of the three differences of g: 24 components, four rows of six."""
    real = field.dtype.type
    i, j, k = min(int(x), field.shape[0] - 2), min(int(y), field.shape[1] - 2), min(int(z), field.shape[2] - 2)
    a, b, c = x - real(i), y - real(j), z - real(k)
    for q in range(4):
        for m in range(6):
            n = 6 * q + m
            f000, f100 = field[i, j, k, n], field[i + 1, j, k, n]
            f010, f110 = field[i, j + 1, k, n], field[i + 1, j + 1, k, n]
            f001, f101 = field[i, j, k + 1, n], field[i + 1, j, k + 1, n]
            f011, f111 = field[i, j + 1, k + 1, n], field[i + 1, j + 1, k + 1, n]
            x00, x10 = f000 + (f100 - f000) * a, f010 + (f110 - f010) * a
            x01, x11 = f001 + (f101 - f001) * a, f011 + (f111 - f011) * a
            y0, y1 = x00 + (x10 - x00) * b, x01 + (x11 - x01) * b
            out[q, m] = y0 + (y1 - y0) * c


@_jit
def sample_guide(guide, x, y, z, ux, uy, uz, euclid, out):
    """Trilinear principal direction (each voxel's sign made to agree with u) and FA; out has four numbers."""
    real = out.dtype.type
    i, j, k = min(int(x), guide.shape[0] - 2), min(int(y), guide.shape[1] - 2), min(int(z), guide.shape[2] - 2)
    a, b, c = x - real(i), y - real(j), z - real(k)
    mx, my, mz = multiply(euclid, ux, uy, uz)
    for n in range(4):
        out[n] = real(0)
    for corner in range(8):
        di, dj, dk = corner >> 2, (corner >> 1) & 1, corner & 1
        w = (a if di else real(1) - a) * (b if dj else real(1) - b) * (c if dk else real(1) - c)
        e0, e1 = real(guide[i + di, j + dj, k + dk, 0]), real(guide[i + di, j + dj, k + dk, 1])
        e2, fa = real(guide[i + di, j + dj, k + dk, 2]), real(guide[i + di, j + dj, k + dk, 3])
        signed = w if e0 * mx + e1 * my + e2 * mz >= real(0) else -w
        out[0] += signed * e0
        out[1] += signed * e1
        out[2] += signed * e2
        out[3] += w * fa


@_jit
def derivative(kind, field, guide, euclid, shape, y, w, d, s, dy):
    """Right-hand side of the system at y; returns whether it exists (False outside the volume).

    ``s`` is left holding the samples: row 0 is W (or the guide's four numbers).
    """
    real = y.dtype.type
    half = real(0.5)
    if not inside(shape, y[0], y[1], y[2]):
        return False
    if kind == CUBIC or kind == LINEAR:
        if kind == CUBIC:
            sample_cubic(field, y[0], y[1], y[2], w, d, s)
        else:
            sample_linear(field, y[0], y[1], y[2], s)
        dy[0], dy[1], dy[2] = multiply(s[0], y[3], y[4], y[5])
        dy[3] = -half * quadratic(s[1], y[3], y[4], y[5])
        dy[4] = -half * quadratic(s[2], y[3], y[4], y[5])
        dy[5] = -half * quadratic(s[3], y[3], y[4], y[5])
    elif kind == VANAART:
        sample_four(field, y[0], y[1], y[2], s)
        ax, ay, az = multiply(s[1], y[3], y[4], y[5])
        bx, by, bz = multiply(s[2], y[3], y[4], y[5])
        cx, cy, cz = multiply(s[3], y[3], y[4], y[5])
        wx = y[3] * ax + y[4] * bx + y[5] * cx - half * (y[3] * ax + y[4] * ay + y[5] * az)
        wy = y[3] * ay + y[4] * by + y[5] * cy - half * (y[3] * bx + y[4] * by + y[5] * bz)
        wz = y[3] * az + y[4] * bz + y[5] * cz - half * (y[3] * cx + y[4] * cy + y[5] * cz)
        ax, ay, az = multiply(s[0], wx, wy, wz)
        dy[0], dy[1], dy[2], dy[3], dy[4], dy[5] = y[3], y[4], y[5], -ax, -ay, -az
    else:
        sample_guide(guide, y[0], y[1], y[2], y[3], y[4], y[5], euclid, s[0])
        size = math.sqrt(quadratic(euclid, s[0, 0], s[0, 1], s[0, 2]))
        if not size > real(1e-3):
            return False
        dy[0], dy[1], dy[2] = s[0, 0] / size, s[0, 1] / size, s[0, 2] / size
        dy[3], dy[4], dy[5] = real(0), real(0), real(0)
    return True


@_jit
def squared_speed(kind, y, dy, s):
    """g(v, v), constant along a geodesic: p.W p, or v.W^-1 v; 1 for streamlines."""
    if kind == VANAART:
        a, b, c = solve_symmetric(s[0], y[3], y[4], y[5])
        return y[3] * a + y[4] * b + y[5] * c
    if kind == EUDX:
        return y.dtype.type(1)
    return y[3] * dy[0] + y[4] * dy[1] + y[5] * dy[2]


@_jit
def start_ray(kind, field, guide, euclid, shape, x, direction, sign, w, d, s, y, dy):
    """Set y for a ray from x along a unit direction (voxels per mm); False if the ray cannot start."""
    real = y.dtype.type
    for a in range(3):
        y[a] = x[a]
        y[3 + a] = sign * direction[a]
    if not derivative(kind, field, guide, euclid, shape, y, w, d, s, dy):
        return False
    if kind == CUBIC or kind == LINEAR:
        vx, vy, vz = y[3], y[4], y[5]
        px, py, pz = solve_symmetric(s[0], vx, vy, vz)
        squared = px * vx + py * vy + pz * vz
        if not (squared > real(0) and squared < real(np.inf)):
            return False
        unit = real(1) / math.sqrt(squared)
        y[3], y[4], y[5] = px * unit, py * unit, pz * unit
        return derivative(kind, field, guide, euclid, shape, y, w, d, s, dy)
    return quadratic(euclid, dy[0], dy[1], dy[2]) > real(0)


@_jit
def runge_kutta(kind, field, guide, euclid, shape, stages, dt, y, k1, kn, total, w, d, s, out):
    """One step of Euler (1 stage), the midpoint rule (2) or classical Runge-Kutta (4) from y to out; k1 is given.

    Returns False if a stage lies outside.
    """
    real = y.dtype.type
    half = real(0.5)
    if stages == 1:
        for a in range(6):
            out[a] = y[a] + dt * k1[a]
        return True
    for a in range(6):
        out[a] = y[a] + half * dt * k1[a]
    if not derivative(kind, field, guide, euclid, shape, out, w, d, s, kn):
        return False
    if stages == 2:
        for a in range(6):
            out[a] = y[a] + dt * kn[a]
        return True
    for a in range(6):
        total[a] = k1[a] + real(2) * kn[a]
        out[a] = y[a] + half * dt * kn[a]
    if not derivative(kind, field, guide, euclid, shape, out, w, d, s, kn):
        return False
    for a in range(6):
        total[a] += real(2) * kn[a]
        out[a] = y[a] + dt * kn[a]
    if not derivative(kind, field, guide, euclid, shape, out, w, d, s, kn):
        return False
    for a in range(6):
        out[a] = y[a] + dt / real(6) * (total[a] + kn[a])
    return True


# fmt: off
@_jit
def trace_ray(
    kind, stages, measure, field, guide, mask, euclid, shape, x, direction, sign, limits, max_steps, every,
    points, stats,
):
    """Trace one ray; write its points (x, y, z, FA), the seed not among them, and its numbers.

    Returns the number of points written and the reason for the end.
    """
    real = x.dtype.type
    h, fa_stop, max_length, bend, max_drift = limits[0], limits[1], limits[2], limits[3], limits[4]
    zero, one = real(0), real(1)
    rows = np.empty((5, 6), x.dtype)
    y, k1, kn, total, out = rows[0], rows[1], rows[2], rows[3], rows[4]
    w, d = np.empty((3, 4), x.dtype), np.empty((3, 4), x.dtype)
    s, g = np.empty((4, 6), x.dtype), np.empty(4, x.dtype)
    ux, uy, uz = sign * direction[0], sign * direction[1], sign * direction[2]
    written, kept = 0, True
    fa = zero
    if not start_ray(kind, field, guide, euclid, shape, x, direction, sign, w, d, s, y, k1):
        return written, INVALID
    first = squared_speed(kind, y, k1, s) if measure else one
    dt = h / math.sqrt(quadratic(euclid, k1[0], k1[1], k1[2]))
    reason = STEPS
    for step in range(1, max_steps + 1):
        if step > 1:
            if not derivative(kind, field, guide, euclid, shape, y, w, d, s, k1):
                reason = VOLUME if kind != EUDX else FA
                break
            if kind != VANAART:
                dt = h / math.sqrt(quadratic(euclid, k1[0], k1[1], k1[2]))
            if measure:
                drift = abs(squared_speed(kind, y, k1, s) / first - one)
                stats[2] = max(stats[2], drift)
                if max_drift > zero and not drift <= max_drift:
                    reason = DRIFT
                    break
        if not runge_kutta(kind, field, guide, euclid, shape, stages, dt, y, k1, kn, total, w, d, s, out):
            reason = FA if kind == EUDX and inside(shape, out[0], out[1], out[2]) else VOLUME
            break
        dx, dy, dz = out[0] - y[0], out[1] - y[1], out[2] - y[2]
        length = math.sqrt(quadratic(euclid, dx, dy, dz))
        if not (length > zero and length < real(np.inf)):
            reason = INVALID
            break
        if not inside(shape, out[0], out[1], out[2]):
            reason = VOLUME
            break
        if not mask[int(out[0] + real(0.5)), int(out[1] + real(0.5)), int(out[2] + real(0.5))]:
            reason = MASK
            break
        dx, dy, dz = dx / length, dy / length, dz / length
        if bend > zero:
            turn = math.sqrt(quadratic(euclid, dx - ux, dy - uy, dz - uz))
            if turn > bend * length:
                reason = CURVATURE
                break
        now = step % every == 0
        if fa_stop > zero or (measure and now):
            sample_guide(guide, out[0], out[1], out[2], dx, dy, dz, euclid, g)
            fa = g[3]
            if fa < fa_stop:
                reason = FA
                break
        stats[0] += length
        stats[1] += dt * math.sqrt(first)
        for a in range(6):
            y[a] = out[a]
        ux, uy, uz = dx, dy, dz
        if kind == EUDX:
            y[3], y[4], y[5] = dx, dy, dz
        if now:
            points[written, 0], points[written, 1], points[written, 2], points[written, 3] = y[0], y[1], y[2], fa
            written += 1
            if measure:
                size = math.sqrt(quadratic(euclid, g[0], g[1], g[2]))
                mx, my, mz = multiply(euclid, g[0], g[1], g[2])
                along = (mx * dx + my * dy + mz * dz) / size if size > zero else zero
                stats[3] += one
                stats[4] += fa
                stats[5] += along
                stats[6] += fa * along
        kept = now
        if stats[0] >= max_length:
            reason = LENGTH
            break
    if not kept:
        points[written, 0], points[written, 1], points[written, 2], points[written, 3] = y[0], y[1], y[2], fa
        written += 1
    return written, reason


@nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def trace(
    kind, stages, measure, field, guide, mask, euclid, shape, seeds, directions, per_fiber, limits, max_steps, every,
    points, written, reasons, stats,
):
    """Trace rays: row ``n`` of the outputs is ray ``n``; with two a fiber, 2f goes forwards and 2f + 1 backwards."""
    real = seeds.dtype.type
    rays = len(written)
    for block in nb.prange((rays + BLOCK - 1) // BLOCK):
        for n in range(BLOCK * block, min(BLOCK * block + BLOCK, rays)):
            f = n // per_fiber
            sign = real(1) if n % per_fiber == 0 else real(-1)
            for q in range(STATS):
                stats[n, q] = real(0)
            written[n], reasons[n] = trace_ray(
                kind, stages, measure, field, guide, mask, euclid, shape, seeds[f], directions[f], sign,
                limits, max_steps, every, points[n], stats[n],
            )
# fmt: on


@nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def pack(affine, seeds, seed_fa, per_fiber, points, written, offsets, packed, packed_fa):
    """Join the two rays of each fiber (backwards reversed, seed, forwards) and turn voxels into mm."""
    for f in nb.prange(len(offsets) - 1):
        back = written[2 * f + 1] if per_fiber == 2 else 0
        for n in range(offsets[f + 1] - offsets[f]):
            at = offsets[f] + n
            if n < back:
                x, y, z, fa = points[per_fiber * f + 1, back - 1 - n]
            elif n == back:
                x, y, z, fa = seeds[f, 0], seeds[f, 1], seeds[f, 2], seed_fa[f]
            else:
                x, y, z, fa = points[per_fiber * f, n - back - 1]
            for a in range(3):
                packed[at, a] = affine[a, 0] * x + affine[a, 1] * y + affine[a, 2] * z + affine[a, 3]
            packed_fa[at] = fa
