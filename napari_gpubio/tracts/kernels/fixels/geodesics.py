"""Geodesics in fields of fixels, in Numba; the counterpart of ``fixels.cu``: same names, same order of operations.

Positions are in voxels; momenta, velocities and directions in world axes (mm).
"""

import math

import numpy as np

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.tracts.kernels.fibers.problem import IN_TARGET
from napari_gpubio.tracts.kernels.rays.geodesic import advanced, inside
from napari_gpubio.tracts.kernels.rays.interpolation import solve_symmetric
from napari_gpubio.tracts.kernels.vectors import dot, spline_weight, transformed, transposed
from napari_gpubio.tracts.tractogram import StopReason

VOLUME, MASK, STEPS = int(StopReason.VOLUME), int(StopReason.MASK), int(StopReason.STEPS)
LENGTH, CURVATURE, DRIFT = int(StopReason.LENGTH), int(StopReason.CURVATURE), int(StopReason.DRIFT)
INVALID, TARGET, FOD = int(StopReason.INVALID), int(StopReason.TARGET), int(StopReason.FOD)


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
    if not (squared > zero and squared < real(np.inf)):
        return False, (zero, zero, zero)
    unit = one / math.sqrt(squared)
    return True, (a * unit, b * unit, c * unit)


@kernel
def trace(start, stop, volumes, settings, rays, output):
    """Trace rays: row ``n`` of the output is ray ``n``; with two per fiber, 2f goes forward and 2f + 1 backward.

    The seed is not among a ray's points (x, y, z, amplitude). A step's stages, and the sample at its start, have the
    same reference.
    """
    mask, to_world, shape = volumes.mask, volumes.to_world, volumes.shape
    seeds, directions, per_fiber, _, limits = rays
    points, counts, reasons, stats = output
    real = seeds.dtype.type
    zero, half, one, two, six = real(0), real(0.5), real(1), real(2), real(6)
    for n in range(start, stop):
        limit = limits[n]
        if limit < 0:
            continue
        f = n // per_fiber
        sign = one if n % per_fiber == 0 else -one
        position = px, py, pz = seeds[f, 0], seeds[f, 1], seeds[f, 2]
        reference = direction = sign * directions[f, 0], sign * directions[f, 1], sign * directions[f, 2]
        y = px, py, pz, zero, zero, zero
        k1, velocity, following = y, direction, direction
        written, kept, until_kept = 0, True, settings.every
        length = riemannian = worst = samples = total = aligned = amplitude = zero
        first = root = one
        reason = STEPS
        if not inside(shape, px, py, pz):
            reason = VOLUME
        else:
            found, p = unit_momentum(volumes, settings, position, direction)
            velocity, force, weight, amplitude, following = sample(volumes, position, p, reference, settings)
            if not found:
                reason = FOD if weight == zero else INVALID
            elif not (weight >= settings.least_weight and amplitude >= settings.cutoff):
                reason = FOD
            p0, p1, p2 = p
            y = px, py, pz, p0, p1, p2
            k1 = rates(volumes, velocity, force)
            first = dot(p, velocity)
            root = math.sqrt(first)
        at_seed = amplitude
        for _ in range(settings.max_steps if reason == STEPS else 0):
            dt = settings.step_mm / math.sqrt(dot(velocity, velocity))
            at, k, sums, ok = y, k1, k1, True
            for stage in range(1, 4):  # classical Runge-Kutta
                at = advanced(y, dt if stage == 3 else half * dt, k)
                qx, qy, qz, p0, p1, p2 = at
                if not inside(shape, qx, qy, qz):
                    ok = False
                    break
                velocity, force, weight, _, _ = sample(volumes, (qx, qy, qz), (p0, p1, p2), reference, settings)
                if weight == zero:
                    ok = False
                    break
                k = rates(volumes, velocity, force)
                if stage < 3:
                    sums = advanced(sums, two, k)
            if ok:
                at = advanced(y, dt / six, advanced(sums, one, k))
            qx, qy, qz, p0, p1, p2 = at
            if not inside(shape, qx, qy, qz):
                reason = VOLUME
                break
            if not ok:
                reason = FOD
                break
            d0, d1, d2 = transformed(to_world, (qx - px, qy - py, qz - pz))
            moved = math.sqrt(dot((d0, d1, d2), (d0, d1, d2)))
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
            d0, d1, d2 = d0 / moved, d1 / moved, d2 / moved
            u0, u1, u2 = direction
            if settings.max_bend > zero:
                turn = d0 - u0, d1 - u1, d2 - u2
                if math.sqrt(dot(turn, turn)) > settings.max_bend * moved:
                    reason = CURVATURE
                    break
            size = math.sqrt(dot(following, following))
            if size > zero:
                m0, m1, m2 = following
                reference = m0 / size, m1 / size, m2 / size
            p = p0, p1, p2
            velocity, force, weight, value, following = sample(volumes, (qx, qy, qz), p, reference, settings)
            if not (weight >= settings.least_weight and value >= settings.cutoff) and not arrived:
                reason = FOD
                break
            if weight > zero:
                drift = abs(dot(p, velocity) / first - one)
                if drift > worst:
                    worst = drift
                if settings.max_drift > zero and not drift <= settings.max_drift:
                    reason = DRIFT
                    break
            y, k1, direction, amplitude = at, rates(volumes, velocity, force), (d0, d1, d2), value
            px, py, pz = qx, qy, qz
            size = math.sqrt(dot(following, following))
            length += moved
            riemannian += dt * root
            samples += one
            total += amplitude
            aligned += abs(dot(direction, following)) / size if size > zero else zero
            until_kept -= 1
            kept = until_kept == 0
            if kept:
                until_kept = settings.every
                points[n, written, 0], points[n, written, 1], points[n, written, 2] = px, py, pz
                points[n, written, 3] = amplitude
                written += 1
            if arrived:
                reason = TARGET
                break
        if not kept:
            points[n, written, 0], points[n, written, 1], points[n, written, 2] = px, py, pz
            points[n, written, 3] = amplitude
            written += 1
        counts[n], reasons[n] = written, reason
        stats[n, 0], stats[n, 1], stats[n, 2], stats[n, 3] = length, riemannian, worst, samples
        stats[n, 4], stats[n, 5], stats[n, 6] = total, aligned, at_seed
