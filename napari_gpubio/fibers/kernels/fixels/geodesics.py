"""Geodesics in fields of fixels, in Numba; the counterpart of ``fixels.cu``: same names, same order of operations.

Positions are in voxels; momenta, velocities and directions in world axes (mm).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
# ruff: noqa: ARG001 - what `tracer` gives to the functions of every method

import math

import numpy as np

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, leaf
from napari_gpubio.fibers.kernels.loop import (
    CURVATURE,
    DRIFT,
    FOD,
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
from napari_gpubio.fibers.kernels.rays.geodesic import advanced
from napari_gpubio.fibers.kernels.rays.interpolation import solve_symmetric
from napari_gpubio.fibers.kernels.vectors import added, dot, spline_weight, transformed, transposed


@helper
def sample(volumes, position, momentum, reference, settings):
    """What a ray at a position inside the volume, with a momentum, follows.

    Returns its velocity W p, the rate of its momentum (world axes), and of the fixels nearest to the reference: their
    share of the weight, mean amplitude, and mean direction, of any length.
    """
    fixels = volumes.fixels
    x, y, z = position
    real = type(x)
    zero, half = real(0), real(0.5)
    i, j, k = np.int64(x + half), np.int64(y + half), np.int64(z + half)
    weight = weight_x = weight_y = weight_z = amplitude = zero
    square = square_x = square_y = square_z = zero
    v0 = v1 = v2 = m0 = m1 = m2 = zero
    for a in range(3):
        wa, ga = spline_weight(x - real(i + a - 1))
        for b in range(3):
            wb, gb = spline_weight(y - real(j + b - 1))
            for c in range(3):
                wc, gc = spline_weight(z - real(k + c - 1))
                largest, chosen, turned = zero, -1, False
                for n in range(fixels.shape[3]):
                    if not fixels[i + a, j + b, k + c, n, 3] > zero:
                        break
                    d = (
                        fixels[i + a, j + b, k + c, n, 0],
                        fixels[i + a, j + b, k + c, n, 1],
                        fixels[i + a, j + b, k + c, n, 2],
                    )
                    cosine = dot(d, reference)
                    if abs(cosine) > largest:
                        largest, chosen, turned = abs(cosine), n, cosine < zero
                if chosen < 0 or not largest >= settings.least_cos:
                    continue
                d0, d1, d2 = (
                    fixels[i + a, j + b, k + c, chosen, 0],
                    fixels[i + a, j + b, k + c, chosen, 1],
                    fixels[i + a, j + b, k + c, chosen, 2],
                )
                w, gx, gy, gz = wa * wb * wc, ga * wb * wc, wa * gb * wc, wa * wb * gc
                along = dot((d0, d1, d2), momentum)
                along_w, along_2 = along * w, along * along
                weight, weight_x, weight_y, weight_z = weight + w, weight_x + gx, weight_y + gy, weight_z + gz
                amplitude = multiply_add(w, fixels[i + a, j + b, k + c, chosen, 3], amplitude)
                square = multiply_add(w, along_2, square)
                square_x = multiply_add(gx, along_2, square_x)
                square_y = multiply_add(gy, along_2, square_y)
                square_z = multiply_add(gz, along_2, square_z)
                v0, v1, v2 = multiply_add(along_w, d0, v0), multiply_add(along_w, d1, v1), multiply_add(along_w, d2, v2)
                if turned:
                    w = -w
                m0, m1, m2 = multiply_add(w, d0, m0), multiply_add(w, d1, m1), multiply_add(w, d2, m2)
    nothing = zero, zero, zero
    if not weight > zero:
        return nothing, nothing, zero, zero, nothing
    scale, mean = settings.excess / weight, square / weight
    p0, p1, p2 = momentum
    across, fall = settings.across, -half * scale
    velocity = (
        multiply_add(scale, v0, across * p0),
        multiply_add(scale, v1, across * p1),
        multiply_add(scale, v2, across * p2),
    )
    force = (
        fall * multiply_add(-mean, weight_x, square_x),
        fall * multiply_add(-mean, weight_y, square_y),
        fall * multiply_add(-mean, weight_z, square_z),
    )
    return velocity, transposed(volumes.to_voxel, force), weight, amplitude / weight, (m0, m1, m2)


@leaf
def rates(volumes, velocity, force):
    """Derivatives of position (voxels) and momentum."""
    a, b, c = transformed(volumes.to_voxel, velocity)
    d, e, f = force
    return a, b, c, d, e, f


@leaf
def slope(volumes, settings, memory, reference, state):
    """`STEPS`, or the reason why a state has no rates; they. The reference is that of the whole step."""
    x, y, z, p, q, r = state
    zero = type(x)(0)
    if not inside(volumes.shape, (x, y, z)):
        return VOLUME, state, zero
    velocity, force, weight, _, _ = sample(volumes, (x, y, z), (p, q, r), reference, settings)
    return FOD if weight == zero else STEPS, rates(volumes, velocity, force), weight


runge_kutta = integrator(advanced, slope)


@helper
def unit_momentum(volumes, settings, position, direction):
    """Whether a ray can leave along a unit direction u, and its momentum, W^-1 u of unit length in the metric."""
    x, _, _ = position
    u, v, w = direction
    real = type(x)
    zero, one = real(0), real(1)
    (xx, xy, xz), _, _, _, _ = sample(volumes, position, (one, zero, zero), direction, settings)
    (_, yy, yz), _, _, _, _ = sample(volumes, position, (zero, one, zero), direction, settings)
    (_, _, zz), _, _, _, _ = sample(volumes, position, (zero, zero, one), direction, settings)
    a, b, c = solve_symmetric((xx, yy, zz, xy, xz, yz), u, v, w)
    squared = dot((a, b, c), direction)
    if not finite_positive(squared):
        return False, (zero, zero, zero)
    unit = one / math.sqrt(squared)
    return True, (a * unit, b * unit, c * unit)


@helper
def begin(volumes, settings, memory, rays, n):
    """Whether a ray can leave its seed, the amplitude there, and its state; see `tracer`.

    The state: position and momentum, their rates, the velocity, the mean direction of the fixels that are followed, the
    reference by which they were chosen, the last direction, 2 H and its root, and the amplitude.
    """
    position, direction = start_of(rays, n)
    x, y, z = position
    zero, one = type(x)(0), type(x)(1)
    still = x, y, z, zero, zero, zero
    if not inside(volumes.shape, position):
        return VOLUME, zero, (still, still, direction, direction, direction, direction, one, one, zero)
    found, p = unit_momentum(volumes, settings, position, direction)
    velocity, force, weight, amplitude, following = sample(volumes, position, p, direction, settings)
    reason = STEPS
    if not found:
        reason = FOD if weight == zero else INVALID
    elif not (weight >= settings.least_weight and amplitude >= settings.cutoff):
        reason = FOD
    p0, p1, p2 = p
    at = x, y, z, p0, p1, p2
    first, k1 = dot(p, velocity), rates(volumes, velocity, force)
    return reason, amplitude, (at, k1, velocity, following, direction, direction, first, math.sqrt(first), amplitude)


@leaf
def propose(volumes, settings, memory, stats, n, state, step):
    """One step of classical Runge-Kutta; see `tracer`."""
    y, k1, velocity, _, reference, _, _, _, _ = state
    dt = settings.step_mm / math.sqrt(dot(velocity, velocity))
    reason, at = runge_kutta(4, dt, volumes, settings, memory, reference, y, k1)
    px, py, pz, _, _, _ = y
    qx, qy, qz, _, _, _ = at
    d = transformed(volumes.to_world, (qx - px, qy - py, qz - pz))
    moved = math.sqrt(dot(d, d))
    if not inside(volumes.shape, (qx, qy, qz)):
        reason = VOLUME
    elif reason == STEPS and not finite_positive(moved):
        reason = INVALID
    return reason, (qx, qy, qz), moved, (at, d, moved, dt)


@leaf
def accept(volumes, settings, memory, stats, n, state, plan, here):
    """Curvature, the fixels at the new place, and the drift of H; see `tracer`."""
    _, _, _, following, reference, direction, first, root, amplitude = state
    at, (d0, d1, d2), moved, dt = plan
    arrived, _ = here
    zero, one = type(dt)(0), type(dt)(1)
    d = d0 / moved, d1 / moved, d2 / moved
    if settings.max_bend > zero:
        turn = added(d, -one, direction)
        if math.sqrt(dot(turn, turn)) > settings.max_bend * moved:
            return CURVATURE, amplitude, state
    size = math.sqrt(dot(following, following))
    if size > zero:
        m0, m1, m2 = following
        reference = m0 / size, m1 / size, m2 / size
    qx, qy, qz, p0, p1, p2 = at
    p = p0, p1, p2
    velocity, force, weight, value, following = sample(volumes, (qx, qy, qz), p, reference, settings)
    if not (weight >= settings.least_weight and value >= settings.cutoff) and not arrived:
        return FOD, amplitude, state
    if weight > zero and drifted(stats, n, dot(p, velocity) / first, settings.max_drift):
        return DRIFT, amplitude, state
    size = math.sqrt(dot(following, following))
    move(stats, n, moved, dt * root)
    count(stats, n, value, abs(dot(d, following)) / size if size > zero else zero)
    k1 = rates(volumes, velocity, force)
    return STEPS, value, (at, k1, velocity, following, reference, d, first, root, value)


trace = tracer("fixels", begin, propose, accept)
