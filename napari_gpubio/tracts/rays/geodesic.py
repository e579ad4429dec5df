"""Ray tracing numerics for all CPU cores (Numba), the twin of ``geodesic.cuh``: same names, same operation order.

Every function works in the type of its arrays, float32 or float64. Positions are in voxels; ``euclid`` (A^T A) measures
voxel vectors in mm. Volumes of six components are read eight numbers at a time, so they need two spare numbers behind
their end (`cpu.prepare_field` sees to it).
"""

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.lanes import load, multiply_add, spread, unpack
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


@_jit
def six(values):
    """The first six of eight numbers."""
    return values[0], values[1], values[2], values[3], values[4], values[5]


@_jit
def derivative(kind, field, guide, euclid, shape, y):
    """Right-hand side of the system at y.

    Returns whether it exists (not so outside the volume), the six derivatives, and W (zeros for streamlines).
    """
    real = type(y[0])
    half, zero = real(0.5), real(0)
    nothing = (zero, zero, zero, zero, zero, zero)
    if not inside(shape, y[0], y[1], y[2]):
        return False, nothing, nothing
    if kind == CUBIC or kind == LINEAR:
        if kind == CUBIC:
            s0, s1, s2, s3 = sample_cubic(field, y[0], y[1], y[2])
        else:
            s0, s1, s2, s3 = sample_linear(field, y[0], y[1], y[2])
        vx, vy, vz = multiply(s0, y[3], y[4], y[5])
        fx = -half * quadratic(s1, y[3], y[4], y[5])
        fy = -half * quadratic(s2, y[3], y[4], y[5])
        fz = -half * quadratic(s3, y[3], y[4], y[5])
        return True, (vx, vy, vz, fx, fy, fz), six(s0)
    if kind == VANAART:
        t0, t1, t2, t3 = sample_four(field, y[0], y[1], y[2])
        ax, ay, az = multiply(t1, y[3], y[4], y[5])
        bx, by, bz = multiply(t2, y[3], y[4], y[5])
        cx, cy, cz = multiply(t3, y[3], y[4], y[5])
        wx = y[3] * ax + y[4] * bx + y[5] * cx - half * (y[3] * ax + y[4] * ay + y[5] * az)
        wy = y[3] * ay + y[4] * by + y[5] * cy - half * (y[3] * bx + y[4] * by + y[5] * bz)
        wz = y[3] * az + y[4] * bz + y[5] * cz - half * (y[3] * cx + y[4] * cy + y[5] * cz)
        ax, ay, az = multiply(t0, wx, wy, wz)
        return True, (y[3], y[4], y[5], -ax, -ay, -az), t0
    g0, g1, g2, _ = sample_guide(guide, y[0], y[1], y[2], y[3], y[4], y[5], euclid)
    size = math.sqrt(quadratic(euclid, g0, g1, g2))
    if not size > real(1e-3):
        return False, nothing, nothing
    return True, (g0 / size, g1 / size, g2 / size, zero, zero, zero), nothing


@_jit
def squared_speed(kind, y, dy, w):
    """g(v, v), constant along a geodesic: p.W p, or v.W^-1 v; 1 for streamlines."""
    if kind == VANAART:
        a, b, c = solve_symmetric(w, y[3], y[4], y[5])
        return y[3] * a + y[4] * b + y[5] * c
    if kind == EUDX:
        return type(y[0])(1)
    return y[3] * dy[0] + y[4] * dy[1] + y[5] * dy[2]


@_jit
def start_ray(kind, field, guide, euclid, shape, x, direction, sign):
    """State, derivatives and W of a ray from x along a unit direction (voxels per mm), after whether it can start."""
    real = type(sign)
    y = (x[0], x[1], x[2], sign * direction[0], sign * direction[1], sign * direction[2])
    ok, dy, w = derivative(kind, field, guide, euclid, shape, y)
    if not ok:
        return False, y, dy, w
    if kind == CUBIC or kind == LINEAR:
        px, py, pz = solve_symmetric(w, y[3], y[4], y[5])
        squared = px * y[3] + py * y[4] + pz * y[5]
        if not (squared > real(0) and squared < real(np.inf)):
            return False, y, dy, w
        unit = real(1) / math.sqrt(squared)
        y = (y[0], y[1], y[2], px * unit, py * unit, pz * unit)
        ok, dy, w = derivative(kind, field, guide, euclid, shape, y)
        return ok, y, dy, w
    return quadratic(euclid, dy[0], dy[1], dy[2]) > real(0), y, dy, w


@_jit
def advanced(y, t, k):
    """y + t k."""
    return y[0] + t * k[0], y[1] + t * k[1], y[2] + t * k[2], y[3] + t * k[3], y[4] + t * k[4], y[5] + t * k[5]


@_jit
def runge_kutta(kind, field, guide, euclid, shape, stages, dt, y, k1):
    """One step of Euler (1 stage), the midpoint rule (2) or classical Runge-Kutta (4) from y; k1 is given.

    Returns whether all stages exist, and the new state (where a stage does not, that stage's place).
    """
    real = type(dt)
    half, two = real(0.5), real(2)
    if stages == 1:
        return True, advanced(y, dt, k1)
    at = advanced(y, half * dt, k1)
    ok, k2, _ = derivative(kind, field, guide, euclid, shape, at)
    if not ok:
        return False, at
    if stages == 2:
        return True, advanced(y, dt, k2)
    at = advanced(y, half * dt, k2)
    ok, k3, _ = derivative(kind, field, guide, euclid, shape, at)
    if not ok:
        return False, at
    at = advanced(y, dt, k3)
    ok, k4, _ = derivative(kind, field, guide, euclid, shape, at)
    if not ok:
        return False, at
    total = advanced(advanced(k1, two, k2), two, k3)
    return True, advanced(y, dt / real(6), advanced(total, real(1), k4))


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
    euclid, shape = six(euclid), (shape[0], shape[1], shape[2])  # values stay in registers, arrays do not
    ux, uy, uz = sign * direction[0], sign * direction[1], sign * direction[2]
    written, kept, until_kept = 0, True, every
    fa = zero
    g = (zero, zero, zero, zero)
    ok, y, k1, w = start_ray(kind, field, guide, euclid, shape, x, direction, sign)
    if not ok:
        return written, INVALID
    first = squared_speed(kind, y, k1, w) if measure else one
    root = math.sqrt(first)
    dt = h / math.sqrt(quadratic(euclid, k1[0], k1[1], k1[2]))
    reason = STEPS
    for step in range(1, max_steps + 1):
        if step > 1:
            ok, k1, w = derivative(kind, field, guide, euclid, shape, y)
            if not ok:
                reason = VOLUME if kind != EUDX else FA
                break
            if kind != VANAART:
                dt = h / math.sqrt(quadratic(euclid, k1[0], k1[1], k1[2]))
            if measure:
                drift = abs(squared_speed(kind, y, k1, w) / first - one)
                stats[2] = max(stats[2], drift)
                if max_drift > zero and not drift <= max_drift:
                    reason = DRIFT
                    break
        ok, out = runge_kutta(kind, field, guide, euclid, shape, stages, dt, y, k1)
        if not ok:
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
        until_kept -= 1
        now = until_kept == 0
        if now:
            until_kept = every
        looks = fa_stop > zero or (measure and now)
        if looks or bend > zero or kind == EUDX:  # else nobody asks for the direction
            dx, dy, dz = dx / length, dy / length, dz / length
        if bend > zero:
            turn = math.sqrt(quadratic(euclid, dx - ux, dy - uy, dz - uz))
            if turn > bend * length:
                reason = CURVATURE
                break
        if looks:
            g = sample_guide(guide, out[0], out[1], out[2], dx, dy, dz, euclid)
            fa = g[3]
            if fa < fa_stop:
                reason = FA
                break
        stats[0] += length
        stats[1] += dt * root
        y = out
        ux, uy, uz = dx, dy, dz
        if kind == EUDX:
            y = (y[0], y[1], y[2], dx, dy, dz)
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
