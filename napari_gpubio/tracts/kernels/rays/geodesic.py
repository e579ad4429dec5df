"""Ray tracing numerics for all CPU cores (Numba); same names and operation order as ``geodesic.cuh``.

Every function works in the type of its arrays, float32 or float64. Positions are in voxels; ``euclid`` (A^T A) measures
voxel vectors in mm.
"""

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.tracts.kernels.rays.interpolation import sample_cubic, sample_four, sample_guide, sample_linear
from napari_gpubio.tracts.kernels.rays.problem import CUBIC, EUDX, LINEAR, VANAART
from napari_gpubio.tracts.kernels.rays.symmetric import multiply, quadratic, solve_symmetric
from napari_gpubio.tracts.kernels.rays.tally import STATS
from napari_gpubio.tracts.settings import StopReason

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")

VOLUME, MASK, FA, STEPS = int(StopReason.VOLUME), int(StopReason.MASK), int(StopReason.FA), int(StopReason.STEPS)
LENGTH, CURVATURE = int(StopReason.LENGTH), int(StopReason.CURVATURE)
DRIFT, INVALID = int(StopReason.DRIFT), int(StopReason.INVALID)
BLOCK = 4  # rays that one thread does in a row


@_jit
def inside(shape, x, y, z):
    """Whether a position lies between the outermost voxel centers (false for NaN)."""
    return (x >= 0) and (y >= 0) and (z >= 0) and (x <= shape[0] - 1) and (y <= shape[1] - 1) and (z <= shape[2] - 1)


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
