"""Ray tracing numerics in Numba; same names and operation order as ``geodesic.cuh``.

Every function works in the type of its arrays, float32 or float64. Positions are in voxels; ``euclid`` (A^T A) measures
voxel vectors in mm.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
# ruff: noqa: ARG001 - what `tracer` gives to the functions of every method

import math

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, leaf
from napari_gpubio.fibers.kernels.fibers.tally import BOTH
from napari_gpubio.fibers.kernels.loop import (
    CURVATURE,
    DRIFT,
    FA,
    INVALID,
    STEPS,
    VOLUME,
    count,
    drifted,
    finite_positive,
    inside,
    integrator,
    move,
    start_of,
    tracer,
)
from napari_gpubio.fibers.kernels.rays.interpolation import (
    multiply,
    quadratic,
    sample_cubic,
    sample_four,
    sample_guide,
    sample_linear,
    solve_symmetric,
)
from napari_gpubio.fibers.kernels.rays.problem import CUBIC, EUDX, LINEAR, VANAART


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


@leaf
def slope(volumes, settings, memory, guide, state):
    """Right-hand side of the system at a state: `STEPS`, or why there is none; it; W (not for streamlines)."""
    kind, field, shape = settings.kind, volumes.field, volumes.grid.shape
    x, y, z, u, v, w = state
    zero = type(x)(0)
    nothing = zero, zero, zero, zero, zero, zero
    if not inside(shape, (x, y, z)):
        return VOLUME, nothing, nothing
    if kind != EUDX:
        if kind == CUBIC:
            samples = sample_cubic(field, x, y, z)
        elif kind == LINEAR:
            samples = sample_linear(field, x, y, z)
        else:
            samples = sample_four(field, x, y, z)
        value, _, _, _ = samples
        if kind == VANAART:
            return STEPS, christoffel(samples, u, v, w), value
        return STEPS, hamilton(samples, u, v, w), value
    euclid = volumes.grid.euclid
    g0, g1, g2, _, weight = sample_guide(
        volumes.guide, euclid, x, y, z, (u, v, w), settings.least_cos, settings.above_fa
    )
    size = math.sqrt(quadratic(euclid, g0, g1, g2))
    if not size > type(x)(1e-3) or weight < settings.least_weight:
        return FA, nothing, nothing
    return STEPS, (g0 / size, g1 / size, g2 / size, zero, zero, zero), nothing


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


runge_kutta = integrator(advanced, slope)


@helper
def begin(volumes, settings, memory, rays, n):
    """Whether a ray can leave its seed; no number; its state. See `napari_gpubio.fibers.kernels.loop.tracer`.

    The state: position and momentum (or direction), their rates, the last direction, the last step (in the system's
    own unit), the constant of motion and its root, and the last FA that was read.
    """
    kind = settings.kind
    (x, y, z), u = start_of(rays, n)
    ux, uy, uz = u
    zero, one = type(x)(0), type(x)(1)
    at = x, y, z, ux, uy, uz
    reason, k1, w = slope(volumes, settings, memory, u, at)
    if reason != STEPS:
        reason = INVALID
    elif kind == CUBIC or kind == LINEAR:  # from the direction to the momentum of unit length
        mx, my, mz = solve_symmetric(w, ux, uy, uz)
        squared = mx * ux + my * uy + mz * uz
        if finite_positive(squared):
            unit = one / math.sqrt(squared)
            at = x, y, z, mx * unit, my * unit, mz * unit
            _, k1, w = slope(volumes, settings, memory, u, at)
        else:
            reason = INVALID
    vx, vy, vz, _, _, _ = k1
    pace = quadratic(volumes.grid.euclid, vx, vy, vz)
    if kind != CUBIC and kind != LINEAR and not pace > zero:
        reason = INVALID
    first = squared_speed(kind, at, k1, w) if settings.measure else one
    return reason, zero, (at, k1, u, settings.step_mm / math.sqrt(pace), first, math.sqrt(first), zero)


@leaf
def propose(volumes, settings, memory, stats, n, state, step):
    """One step of the integrator. See `napari_gpubio.fibers.kernels.loop.tracer`."""
    kind, euclid = settings.kind, volumes.grid.euclid
    y, k1, _, dt, first, _, _ = state
    px, py, pz, _, _, _ = y
    zero = type(px)(0)
    nothing = zero, zero, zero
    if step > 0:
        reason, k1, w = slope(volumes, settings, memory, nothing, y)
        if reason != STEPS:
            return reason, nothing, zero, (y, nothing, dt)
        if kind != VANAART:
            vx, vy, vz, _, _, _ = k1
            dt = settings.step_mm / math.sqrt(quadratic(euclid, vx, vy, vz))
        if settings.measure and drifted(stats, n, squared_speed(kind, y, k1, w) / first, settings.max_drift):
            return DRIFT, nothing, zero, (y, nothing, dt)
    reason, at = runge_kutta(settings.stages, dt, volumes, settings, memory, nothing, y, k1)
    qx, qy, qz, _, _, _ = at
    d = qx - px, qy - py, qz - pz
    dx, dy, dz = d
    moved = math.sqrt(quadratic(euclid, dx, dy, dz))
    if reason == STEPS:
        if not finite_positive(moved):
            reason = INVALID
        elif not inside(volumes.grid.shape, (qx, qy, qz)):
            reason = VOLUME
    return reason, (qx, qy, qz), moved, (at, d, dt)


@leaf
def accept(volumes, settings, memory, stats, n, state, plan, here):
    """Curvature, FA, and what is measured. See `napari_gpubio.fibers.kernels.loop.tracer`."""
    euclid = volumes.grid.euclid
    _, k1, (ux, uy, uz), _, first, root, fa = state
    at, (dx, dy, dz), dt = plan
    arrived, keep = here
    qx, qy, qz, _, _, _ = at
    zero, one = type(dt)(0), type(dt)(1)
    moved = math.sqrt(quadratic(euclid, dx, dy, dz))
    g0 = g1 = g2 = zero
    reads_guide = settings.least_fa > zero or (settings.measure and keep)
    if reads_guide or settings.max_bend > zero or settings.kind == EUDX:  # else the direction is not needed
        dx, dy, dz = dx / moved, dy / moved, dz / moved
    if settings.max_bend > zero:
        turn = math.sqrt(quadratic(euclid, dx - ux, dy - uy, dz - uz))
        if turn > settings.max_bend * moved:
            return CURVATURE, fa, state
    if reads_guide:
        g0, g1, g2, fa, _ = sample_guide(volumes.guide, euclid, qx, qy, qz, (dx, dy, dz), zero, -one)
        if fa < settings.least_fa and not arrived:
            return FA, fa, state
    move(stats, n, moved, dt * root)
    if keep and settings.measure:
        size = math.sqrt(quadratic(euclid, g0, g1, g2))
        mx, my, mz = multiply(euclid, g0, g1, g2)
        along = (mx * dx + my * dy + mz * dz) / size if size > zero else zero
        count(stats, n, fa, along)
        stats[n, BOTH] += fa * along
    u = dx, dy, dz
    y = (qx, qy, qz, dx, dy, dz) if settings.kind == EUDX else at
    return STEPS, fa, (y, k1, u, dt, first, root, fa)


trace = tracer("rays", begin, propose, accept)
