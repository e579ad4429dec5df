"""Geodesics of positions and directions, in Numba; the counterpart of ``lifted.cu``: same names, same order.

Positions are in voxels; directions, momenta and velocities in world axes (mm).
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
# ruff: noqa: ARG001 - what `tracer` gives to the functions of every method

import math

import numpy as np

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, leaf
from napari_gpubio.diffusion.kernels.harmonics import amplitude_at, derivatives_at
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
from napari_gpubio.fibers.kernels.vectors import added, dot, spline_weight, times, transformed, transposed


@leaf
def advanced(y, t, k):
    """y + t k for states."""
    y0, y1, y2, y3 = y
    k0, k1, k2, k3 = k
    return added(y0, t, k0), added(y1, t, k1), added(y2, t, k2), added(y3, t, k3)


@helper
def interpolate(fods, position, memory):
    """Coefficients at a position inside the volume, and their slopes along its three axes, by quadratic B-splines."""
    x, y, z = position
    out, out_x, out_y, out_z = memory
    real = type(x)
    zero, half = real(0), real(0.5)
    i, j, k = np.int64(x + half), np.int64(y + half), np.int64(z + half)
    for p in range(len(out)):
        out[p] = out_x[p] = out_y[p] = out_z[p] = zero
    for a in range(3):
        wa, ga = spline_weight(x - real(i + a - 1))
        for b in range(3):
            wb, gb = spline_weight(y - real(j + b - 1))
            for c in range(3):
                wc, gc = spline_weight(z - real(k + c - 1))
                w, gx, gy, gz = wa * wb * wc, ga * wb * wc, wa * gb * wc, wa * wb * gc
                node = fods[i + a, j + b, k + c]
                for p in range(len(out)):
                    out[p] = multiply_add(w, node[p], out[p])
                    out_x[p] = multiply_add(gx, node[p], out_x[p])
                    out_y[p] = multiply_add(gy, node[p], out_y[p])
                    out_z[p] = multiply_add(gz, node[p], out_z[p])


@helper
def cost(volumes, settings, memory, position, n):
    """What a ray sees at a position and a unit direction: 1 / C^2, the gradients of ln C by both, and the FOD there.

    The gradient by the direction is tangential.
    """
    fod, fod_x, fod_y, fod_z = memory
    table, lmax = volumes.table, volumes.lmax
    x, y, z = n
    real = type(x)
    one, half = real(1), real(0.5)
    interpolate(volumes.fods, position, memory)
    value, by_n, _ = derivatives_at(fod, table, lmax, x, y, z)
    by_x = (
        amplitude_at(fod_x, table, lmax, x, y, z),
        amplitude_at(fod_y, table, lmax, x, y, z),
        amplitude_at(fod_z, table, lmax, x, y, z),
    )
    share = value * settings.over_largest
    root = math.sqrt(multiply_add(share, share, settings.smoothing * settings.smoothing))
    clipped = half * (share + root)
    power, raised, slope = settings.power, clipped, one
    for m in range(2, power + 1):
        slope = real(m) * raised
        raised *= clipped
    sharpness = settings.delta + raised
    change = slope * (clipped / root) * settings.over_largest / sharpness
    inverse = sharpness * sharpness
    if settings.guiding:
        inverse = one / inverse
    else:
        change = -change
    tangential = added(by_n, -dot(by_n, n), n)
    return inverse, times(change, transposed(volumes.to_voxel, by_x)), times(change, tangential), value


@leaf
def hamiltonian(settings, here, state):
    """2 H, and the velocity in world axes (mm)."""
    inverse, _, _, _ = here
    _, n, p, q = state
    along = dot(p, n)
    aside = added(p, -along, n)
    scale = inverse * settings.inverse_stiffness_2
    twice = scale * multiply_add(settings.epsilon_2, dot(aside, aside), along * along) + inverse * dot(q, q)
    return twice, times(scale, added(times(along, n), settings.epsilon_2, aside))


@leaf
def rates(volumes, settings, here, state):
    """Derivatives of position (voxels), direction, and both momenta."""
    inverse, by_x, by_n, _ = here
    _, n, p, q = state
    along = dot(p, n)
    aside = added(p, -along, n)
    scale = inverse * settings.inverse_stiffness_2
    twice, velocity = hamiltonian(settings, here, state)
    turning = times(-(scale * (type(along)(1) - settings.epsilon_2) * along), aside)
    turning = added(added(turning, twice, by_n), -(inverse * dot(q, q)), n)
    return transformed(volumes.to_voxel, velocity), times(inverse, q), times(twice, by_x), turning


@leaf
def on_sphere(state):
    """The state with a direction of length 1, and its momentum tangential."""
    x, n, p, q = state
    n = times(type(dot(n, n))(1) / math.sqrt(dot(n, n)), n)
    return x, n, p, added(q, -dot(q, n), n)


@leaf
def slope(volumes, settings, memory, guide, state):
    """`STEPS`, or the reason why a state has no rates once its direction has a length of 1; they."""
    y = on_sphere(state)
    x, n, _, _ = y
    if not inside(volumes.shape, x):
        return VOLUME, y, False
    return STEPS, rates(volumes, settings, cost(volumes, settings, memory, x, n), y), True


runge_kutta = integrator(advanced, slope)


@helper
def begin(volumes, settings, memory, rays, n):
    """Whether a ray can leave its seed, the amplitude there, and its state; see `tracer`.

    The state: position, direction, and their momenta; the rates of all; the last direction of the path; 2 H; 1 / C^2;
    the amplitude.
    """
    x, u = start_of(rays, n)
    real = type(settings.step_mm)
    zero, one = real(0), real(1)
    nothing = zero, zero, zero
    y = x, u, nothing, nothing
    if not inside(volumes.shape, x):
        return VOLUME, zero, (y, y, u, one, one, zero)
    if not dot(u, u) > real(0.5):
        return INVALID, zero, (y, y, u, one, one, zero)
    here = cost(volumes, settings, memory, x, u)
    inverse, _, _, amplitude = here
    y = x, u, times(one / math.sqrt(inverse * settings.inverse_stiffness_2), u), nothing
    first, _ = hamiltonian(settings, here, y)
    reason = STEPS if amplitude >= settings.cutoff else FOD
    return reason, amplitude, (y, rates(volumes, settings, here, y), u, first, inverse, amplitude)


@leaf
def propose(volumes, settings, memory, stats, n, state, step):
    """One step of classical Runge-Kutta; see `tracer`."""
    y, k1, _, _, inverse, _ = state
    dt = settings.step_mm / math.sqrt(inverse * settings.inverse_stiffness_2)
    reason, at = runge_kutta(4, dt, volumes, settings, memory, (), y, k1)
    at = on_sphere(at)
    x, _, _, _ = y
    q, _, _, _ = at
    d = transformed(volumes.to_world, added(q, type(dt)(-1), x))
    moved = math.sqrt(dot(d, d))
    if not inside(volumes.shape, q):
        reason = VOLUME
    elif not finite_positive(moved):
        reason = INVALID
    return reason, q, moved, (at, d, moved, dt)


@leaf
def accept(volumes, settings, memory, stats, n, state, plan, here):
    """Curvature, cusps, the FOD at the new place, and the drift of H; see `tracer`."""
    _, _, u, first, _, amplitude = state
    at, d, moved, dt = plan
    arrived, _ = here
    one = type(dt)(1)
    x, direction, p, _ = at
    d = times(one / moved, d)
    bend = added(d, -one, u)
    if not dot(p, direction) > 0 or math.sqrt(dot(bend, bend)) > settings.max_bend * moved:
        return CURVATURE, amplitude, state
    there = cost(volumes, settings, memory, x, direction)
    inverse, _, _, value = there
    if not value >= settings.cutoff and not arrived:
        return FOD, amplitude, state
    twice, _ = hamiltonian(settings, there, at)
    if drifted(stats, n, twice / first, settings.max_drift):
        return DRIFT, amplitude, state
    move(stats, n, moved, dt)
    count(stats, n, value, abs(dot(d, direction)))
    return STEPS, value, (at, rates(volumes, settings, there, at), d, first, inverse, value)


trace = tracer("lifted", begin, propose, accept)
