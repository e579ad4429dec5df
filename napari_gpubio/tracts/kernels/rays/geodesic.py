"""Ray tracing numerics in Numba; same names and operation order as ``geodesic.cuh``.

Every function works in the type of its arrays, float32 or float64. Positions are in voxels; ``euclid`` (A^T A) measures
voxel vectors in mm.
"""

import math

import numpy as np

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.tracts.kernels.fibers.problem import IN_TARGET
from napari_gpubio.tracts.kernels.rays.interpolation import (
    multiply,
    quadratic,
    sample_cubic,
    sample_four,
    sample_guide,
    sample_linear,
    solve_symmetric,
)
from napari_gpubio.tracts.kernels.rays.problem import CUBIC, EUDX, LINEAR, VANAART
from napari_gpubio.tracts.tractogram import StopReason

VOLUME, MASK, FA, STEPS = int(StopReason.VOLUME), int(StopReason.MASK), int(StopReason.FA), int(StopReason.STEPS)
LENGTH, CURVATURE = int(StopReason.LENGTH), int(StopReason.CURVATURE)
DRIFT, INVALID, TARGET = int(StopReason.DRIFT), int(StopReason.INVALID), int(StopReason.TARGET)


@leaf
def inside(shape, x, y, z):
    """Whether a position lies between the outermost voxel centers (false for NaN)."""
    nx, ny, nz = shape
    return (x >= 0) and (y >= 0) and (z >= 0) and (x <= nx - 1) and (y <= ny - 1) and (z <= nz - 1)


@leaf
def contracted(m, squares):
    """Sum of the products of two symmetric matrices' components."""
    m0, m1, m2, m3, m4, m5 = m
    q0, q1, q2, q3, q4, q5 = squares
    diagonal = multiply_add(m2, q2, multiply_add(m1, q1, m0 * q0))
    return multiply_add(m5, q5, multiply_add(m4, q4, multiply_add(m3, q3, diagonal)))


@leaf
def hamilton(samples, u, v, w):
    """x' = W p and p_k' = -1/2 p.(d_k W) p from W and its gradient, with p = (u, v, w)."""
    s0, s1, s2, s3 = samples
    xx, yy, zz, xy, xz, yz = s0
    half = type(u)(0.5)
    hu, hv, hw = -half * u, -half * v, -half * w
    squares = hu * u, hv * v, hw * w, -u * v, -u * w, -v * w
    return (
        multiply_add(xz, w, multiply_add(xy, v, xx * u)),
        multiply_add(yz, w, multiply_add(yy, v, xy * u)),
        multiply_add(zz, w, multiply_add(yz, v, xz * u)),
        contracted(s1, squares),
        contracted(s2, squares),
        contracted(s3, squares),
    )


@leaf
def christoffel(samples, u, v, w):
    """x'' = -W w with w_l = v^i (d_i g v)_l - 1/2 v.(d_l g) v, with v = (u, v, w)."""
    t0, t1, t2, t3 = samples
    half = type(u)(0.5)
    ax, ay, az = multiply(t1, u, v, w)
    bx, by, bz = multiply(t2, u, v, w)
    cx, cy, cz = multiply(t3, u, v, w)
    wx = u * ax + v * bx + w * cx - half * (u * ax + v * ay + w * az)
    wy = u * ay + v * by + w * cy - half * (u * bx + v * by + w * bz)
    wz = u * az + v * bz + w * cz - half * (u * cx + v * cy + w * cz)
    ax, ay, az = multiply(t0, wx, wy, wz)
    return u, v, w, -ax, -ay, -az


@helper
def derivative(kind, field, guide, grid, corners, state):
    """Right-hand side of the system at a state.

    ``corners``: which voxels give a streamline its direction, see `sample_guide`, and the least weight of them.
    Returns whether it exists (not so outside the volume), the six derivatives, and W (zeros for streamlines).
    """
    euclid, shape = grid
    x, y, z, u, v, w = state
    real = type(x)
    zero = real(0)
    nothing = (zero, zero, zero, zero, zero, zero)
    if not inside(shape, x, y, z):
        return False, nothing, nothing
    if kind != EUDX:
        if kind == CUBIC:
            samples = sample_cubic(field, x, y, z)
        elif kind == LINEAR:
            samples = sample_linear(field, x, y, z)
        else:
            samples = sample_four(field, x, y, z)
        value, _, _, _ = samples
        if kind == VANAART:
            return True, christoffel(samples, u, v, w), value
        return True, hamilton(samples, u, v, w), value
    least_cos, above_fa, least_weight = corners
    g0, g1, g2, _, weight = sample_guide(guide, euclid, x, y, z, (u, v, w), least_cos, above_fa)
    size = math.sqrt(quadratic(euclid, g0, g1, g2))
    if not size > real(1e-3) or weight < least_weight:
        return False, nothing, nothing
    return True, (g0 / size, g1 / size, g2 / size, zero, zero, zero), nothing


@leaf
def squared_speed(kind, state, change, dual):
    """g(v, v), constant along a geodesic: p.W p, or v.W^-1 v; 1 for streamlines."""
    _, _, _, u, v, w = state
    a, b, c, _, _, _ = change
    if kind == EUDX:
        return type(u)(1)
    if kind == VANAART:
        a, b, c = solve_symmetric(dual, u, v, w)
    return u * a + v * b + w * c


@leaf
def advanced(y, t, k):
    """y + t k."""
    y0, y1, y2, y3, y4, y5 = y
    k0, k1, k2, k3, k4, k5 = k
    return (
        multiply_add(t, k0, y0), multiply_add(t, k1, y1), multiply_add(t, k2, y2),
        multiply_add(t, k3, y3), multiply_add(t, k4, y4), multiply_add(t, k5, y5),
    )  # fmt: skip


@kernel
def trace(start, stop, volumes, settings, rays, output):
    """Trace rays: row ``n`` of the output is ray ``n``; with two per fiber, 2f goes forward and 2f + 1 backward.

    The seed is not among a ray's points (x, y, z, FA).
    """
    kind, measure = settings.kind, settings.measure
    field, guide, mask, grid = volumes  # arrays taken out of a tuple in a loop would cost a reference count each
    euclid, shape = grid
    seeds, directions, per_fiber, _, limits = rays
    points, counts, reasons, stats = output
    real = seeds.dtype.type
    zero, half, one, two, six = real(0), real(0.5), real(1), real(2), real(6)
    corners = settings.least_cos, settings.above_fa, settings.least_weight
    for n in range(start, stop):
        limit = limits[n]
        if limit < 0:
            continue
        f = n // per_fiber
        sign = one if n % per_fiber == 0 else -one
        ux, uy, uz = sign * directions[f, 0], sign * directions[f, 1], sign * directions[f, 2]
        written, kept, until_kept = 0, True, settings.every
        fa = g0 = g1 = g2 = zero
        length = riemannian = worst = samples = sum_fa = sum_along = sum_both = zero
        px, py, pz = seeds[f, 0], seeds[f, 1], seeds[f, 2]
        y = (px, py, pz, ux, uy, uz)
        ok, k1, w = derivative(kind, field, guide, grid, corners, y)
        reason = STEPS if ok else INVALID
        if ok and (kind == CUBIC or kind == LINEAR):  # from the direction to the momentum of unit length
            mx, my, mz = solve_symmetric(w, ux, uy, uz)
            squared = mx * ux + my * uy + mz * uz
            if squared > zero and squared < real(np.inf):
                unit = one / math.sqrt(squared)
                y = (px, py, pz, mx * unit, my * unit, mz * unit)
            else:
                reason = INVALID
        first = root = one
        dt = zero
        for step in range(settings.max_steps if reason == STEPS else 0):
            if step > 0 or kind == CUBIC or kind == LINEAR:
                ok, k1, w = derivative(kind, field, guide, grid, corners, y)
                if not ok:
                    reason = VOLUME if kind != EUDX else FA
                    break
            vx, vy, vz, _, _, _ = k1
            if step == 0 or kind != VANAART:
                pace = quadratic(euclid, vx, vy, vz)
                if step == 0 and kind != CUBIC and kind != LINEAR and not pace > zero:
                    reason = INVALID
                    break
                dt = settings.step_mm / math.sqrt(pace)
            if measure:
                squared = squared_speed(kind, y, k1, w)
                if step == 0:
                    first, root = squared, math.sqrt(squared)
                else:
                    drift = abs(squared / first - one)
                    if drift > worst:
                        worst = drift
                    if settings.max_drift > zero and not drift <= settings.max_drift:
                        reason = DRIFT
                        break
            at, k, total = y, k1, k1
            for stage in range(1, settings.stages):  # Euler, the midpoint rule, or classical Runge-Kutta
                at = advanced(y, dt if stage == 3 else half * dt, k)
                ok, k, _ = derivative(kind, field, guide, grid, corners, at)
                if not ok:
                    break
                if stage < 3:
                    total = advanced(total, two, k)
            if ok:
                at = advanced(y, dt / six, advanced(total, one, k)) if settings.stages == 4 else advanced(y, dt, k)
            qx, qy, qz, _, _, _ = at
            if not ok:
                reason = FA if kind == EUDX and inside(shape, qx, qy, qz) else VOLUME
                break
            dx, dy, dz = qx - px, qy - py, qz - pz
            moved = math.sqrt(quadratic(euclid, dx, dy, dz))
            if not (moved > zero and moved < real(np.inf)):
                reason = INVALID
                break
            if not inside(shape, qx, qy, qz):
                reason = VOLUME
                break
            mark = mask[np.int64(qx + half), np.int64(qy + half), np.int64(qz + half)]
            if mark == 0:
                reason = MASK
                break
            if length + moved > limit:
                reason = LENGTH
                break
            arrived = mark >= IN_TARGET
            until_kept -= 1
            now = until_kept == 0
            if now:
                until_kept = settings.every
            reads_guide = settings.least_fa > zero or (measure and now)
            if reads_guide or settings.max_bend > zero or kind == EUDX:  # else the direction is not needed
                dx, dy, dz = dx / moved, dy / moved, dz / moved
            if settings.max_bend > zero:
                turn = math.sqrt(quadratic(euclid, dx - ux, dy - uy, dz - uz))
                if turn > settings.max_bend * moved:
                    reason = CURVATURE
                    break
            if reads_guide:
                g0, g1, g2, fa, _ = sample_guide(guide, euclid, qx, qy, qz, (dx, dy, dz), zero, -one)
                if fa < settings.least_fa and not arrived:
                    reason = FA
                    break
            length += moved
            riemannian += dt * root
            px, py, pz = qx, qy, qz
            ux, uy, uz = dx, dy, dz
            y = (px, py, pz, dx, dy, dz) if kind == EUDX else at
            if now:
                points[n, written, 0], points[n, written, 1], points[n, written, 2] = px, py, pz
                points[n, written, 3] = fa
                written += 1
                if measure:
                    size = math.sqrt(quadratic(euclid, g0, g1, g2))
                    mx, my, mz = multiply(euclid, g0, g1, g2)
                    along = (mx * dx + my * dy + mz * dz) / size if size > zero else zero
                    samples += one
                    sum_fa += fa
                    sum_along += along
                    sum_both += fa * along
            kept = now
            if arrived:
                reason = TARGET
                break
        if not kept:
            points[n, written, 0], points[n, written, 1], points[n, written, 2] = px, py, pz
            points[n, written, 3] = fa
            written += 1
        counts[n], reasons[n] = written, reason
        stats[n, 0], stats[n, 1], stats[n, 2], stats[n, 3] = length, riemannian, worst, samples
        stats[n, 4], stats[n, 5], stats[n, 6] = sum_fa, sum_along, sum_both
