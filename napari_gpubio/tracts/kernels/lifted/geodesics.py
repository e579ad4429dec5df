"""Geodesics of positions and directions, in Numba; the counterpart of ``lifted.cu``: same names, same order.

Positions are in voxels; directions, momenta and velocities in world axes (mm).
"""

import math

import numpy as np

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.tracts.kernels.fibers.problem import IN_TARGET
from napari_gpubio.tracts.kernels.harmonics import amplitude_at, derivatives_at
from napari_gpubio.tracts.kernels.rays.geodesic import inside
from napari_gpubio.tracts.kernels.vectors import added, dot, spline_weight, times, transformed, transposed
from napari_gpubio.tracts.tractogram import StopReason

VOLUME, MASK, STEPS = int(StopReason.VOLUME), int(StopReason.MASK), int(StopReason.STEPS)
LENGTH, CURVATURE, DRIFT = int(StopReason.LENGTH), int(StopReason.CURVATURE), int(StopReason.DRIFT)
INVALID, TARGET, FOD = int(StopReason.INVALID), int(StopReason.TARGET), int(StopReason.FOD)


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


@kernel
def trace(start, stop, volumes, settings, rays, memory, output):
    """Trace rays: row ``n`` of the output is ray ``n``; with two per fiber, 2f goes forward and 2f + 1 backward.

    The seed is not among a ray's points (x, y, z, amplitude). ``memory``: four arrays (P,) of coefficients.
    """
    mask, to_world, shape = volumes.mask, volumes.to_world, volumes.shape
    seeds, directions, per_fiber, _, limits = rays
    points, counts, reasons, stats = output
    real = seeds.dtype.type
    zero, half, one, two, six = real(0), real(0.5), real(1), real(2), real(6)
    for ray in range(start, stop):
        limit = limits[ray]
        if limit < 0:
            continue
        f = ray // per_fiber
        sign = one if ray % per_fiber == 0 else -one
        x = px, py, pz = seeds[f, 0], seeds[f, 1], seeds[f, 2]
        u = sign * directions[f, 0], sign * directions[f, 1], sign * directions[f, 2]
        nothing = zero, zero, zero
        y = k1 = x, u, nothing, nothing
        here = one, nothing, nothing, zero
        written, kept, until_kept = 0, True, settings.every
        length = riemannian = worst = samples = total = aligned = amplitude = zero
        first = one
        reason = STEPS
        if not inside(shape, px, py, pz):
            reason = VOLUME
        elif not dot(u, u) > half:
            reason = INVALID
        else:
            here = cost(volumes, settings, memory, x, u)
            inverse, _, _, amplitude = here
            y = x, u, times(one / math.sqrt(inverse * settings.inverse_stiffness_2), u), nothing
            first, _ = hamiltonian(settings, here, y)
            k1 = rates(volumes, settings, here, y)
            if not amplitude >= settings.cutoff:
                reason = FOD
        at_seed = amplitude
        for _ in range(settings.max_steps if reason == STEPS else 0):
            inverse, _, _, _ = here
            dt = settings.step_mm / math.sqrt(inverse * settings.inverse_stiffness_2)
            at, k, sums, ok = y, k1, k1, True
            for stage in range(1, 4):  # classical Runge-Kutta
                at = on_sphere(advanced(y, dt if stage == 3 else half * dt, k))
                (qx, qy, qz), n, _, _ = at
                if not inside(shape, qx, qy, qz):
                    ok = False
                    break
                here = cost(volumes, settings, memory, (qx, qy, qz), n)
                k = rates(volumes, settings, here, at)
                if stage < 3:
                    sums = advanced(sums, two, k)
            if ok:
                at = on_sphere(advanced(y, dt / six, advanced(sums, one, k)))
            (qx, qy, qz), n, p, _ = at
            if not inside(shape, qx, qy, qz):
                reason = VOLUME
                break
            d = transformed(to_world, (qx - px, qy - py, qz - pz))
            moved = math.sqrt(dot(d, d))
            if not (moved > zero and moved < real(np.inf)):
                reason = INVALID
                break
            mark = mask[np.int64(qx + half), np.int64(qy + half), np.int64(qz + half)]
            if mark == 0:
                reason = MASK
                break
            if length + moved > limit:
                reason = LENGTH
                break
            arrived = mark >= IN_TARGET
            d = times(one / moved, d)
            bend = added(d, -one, u)
            if not dot(p, n) > zero or math.sqrt(dot(bend, bend)) > settings.max_bend * moved:
                reason = CURVATURE
                break
            here = cost(volumes, settings, memory, (qx, qy, qz), n)
            _, _, _, value = here
            if not value >= settings.cutoff and not arrived:
                reason = FOD
                break
            twice, _ = hamiltonian(settings, here, at)
            drift = abs(twice / first - one)
            if drift > worst:
                worst = drift
            if settings.max_drift > zero and not drift <= settings.max_drift:
                reason = DRIFT
                break
            y, k1, u, amplitude = at, rates(volumes, settings, here, at), d, value
            px, py, pz = qx, qy, qz
            length += moved
            riemannian += dt
            samples += one
            total += amplitude
            aligned += abs(dot(d, n))
            until_kept -= 1
            kept = until_kept == 0
            if kept:
                until_kept = settings.every
                points[ray, written, 0], points[ray, written, 1], points[ray, written, 2] = px, py, pz
                points[ray, written, 3] = amplitude
                written += 1
            if arrived:
                reason = TARGET
                break
        if not kept:
            points[ray, written, 0], points[ray, written, 1], points[ray, written, 2] = px, py, pz
            points[ray, written, 3] = amplitude
            written += 1
        counts[ray], reasons[ray] = written, reason
        stats[ray, 0], stats[ray, 1], stats[ray, 2], stats[ray, 3] = length, riemannian, worst, samples
        stats[ray, 4], stats[ray, 5], stats[ray, 6] = total, aligned, at_seed
