"""Streamlines in FODs, in Numba; the counterpart of ``streamlines.cu``: same names, same order of operations.

Positions are in voxels, directions in world axes. The random numbers of a trial depend on the seed, the number of the
fiber, its half, the step, and the number of the trial.
"""

import math

import numpy as np

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.core.philox import philox4x32, unit_float
from napari_gpubio.tracts.kernels.fibers.problem import IN_TARGET
from napari_gpubio.tracts.kernels.harmonics import GRADIENT, amplitude_at, climb, tangents
from napari_gpubio.tracts.kernels.streamlines.problem import IFOD1, IFOD2, SD_STREAM
from napari_gpubio.tracts.tractogram import StopReason

VOLUME, MASK, STEPS = int(StopReason.VOLUME), int(StopReason.MASK), int(StopReason.STEPS)
LENGTH, CURVATURE, TARGET = int(StopReason.LENGTH), int(StopReason.CURVATURE), int(StopReason.TARGET)
FOD = int(StopReason.FOD)
AT_SEED = 1 << 20  # the step of the random numbers at a seed; more than any other
_U32, _U64 = np.uint32, np.uint64


@leaf
def inside(shape, x, y, z):
    """Whether a position lies between the outermost voxel centers (false for NaN)."""
    nx, ny, nz = shape
    return (x >= 0) and (y >= 0) and (z >= 0) and (x <= nx - 1) and (y <= ny - 1) and (z <= nz - 1)


@leaf
def mark_at(mask, position):
    """What the voxel of a position inside the volume is to a ray; see `FiberProblem.mask`."""
    x, y, z = position
    half = type(x)(0.5)
    return mask[np.int64(x + half), np.int64(y + half), np.int64(z + half)]


@leaf
def moved(to_voxel, position, step):
    """Position (voxels) after a step in world axes (mm)."""
    a, b, c, d, e, f, g, h, i = to_voxel
    x, y, z = position
    u, v, w = step
    return (
        multiply_add(c, w, multiply_add(b, v, multiply_add(a, u, x))),
        multiply_add(f, w, multiply_add(e, v, multiply_add(d, u, y))),
        multiply_add(i, w, multiply_add(h, v, multiply_add(g, u, z))),
    )


@helper
def interpolate(fods, position, out):
    """Coefficients at a position inside the volume, trilinear."""
    x, y, z = position
    nx, ny, nz, _ = fods.shape
    i, j, k = np.int64(x), np.int64(y), np.int64(z)
    i, j, k = i - (i > nx - 2), j - (j > ny - 2), k - (k > nz - 2)
    real = type(x)
    fx, fy, fz = x - real(i), y - real(j), z - real(k)
    gx, gy, gz = real(1) - fx, real(1) - fy, real(1) - fz
    w0, w1, w2, w3 = gx * gy * gz, gx * gy * fz, gx * fy * gz, gx * fy * fz
    w4, w5, w6, w7 = fx * gy * gz, fx * gy * fz, fx * fy * gz, fx * fy * fz
    f0, f1, f2, f3 = fods[i, j, k], fods[i, j, k + 1], fods[i, j + 1, k], fods[i, j + 1, k + 1]
    f4, f5, f6, f7 = fods[i + 1, j, k], fods[i + 1, j, k + 1], fods[i + 1, j + 1, k], fods[i + 1, j + 1, k + 1]
    for p in range(len(out)):
        low = multiply_add(w3, f3[p], multiply_add(w2, f2[p], multiply_add(w1, f1[p], w0 * f0[p])))
        out[p] = multiply_add(w7, f7[p], multiply_add(w6, f6[p], multiply_add(w5, f5[p], multiply_add(w4, f4[p], low))))


@helper
def random_numbers(seed, number, half, step, trial):
    """Three uniform random numbers of a trial."""
    item = (_U64(number) << _U64(22)) | (_U64(half) << _U64(21)) | _U64(step)
    low, high = _U32(item & _U64(0xFFFFFFFF)), _U32(item >> _U64(32))
    key0, key1 = _U32(seed & _U64(0xFFFFFFFF)), _U32(seed >> _U64(32))
    a, b, c, _ = philox4x32(key0, key1, _U32(trial), low, high, _U32(0))
    return unit_float(a), unit_float(b), unit_float(c)


@helper
def normal_to(direction, azimuth):
    """Unit vector across a direction."""
    x, y, z = direction
    first, other = tangents(x, y, z)
    a0, a1, a2 = first
    b0, b1, b2 = other
    c, s = math.cos(azimuth), math.sin(azimuth)
    return multiply_add(s, b0, c * a0), multiply_add(s, b1, c * a1), multiply_add(s, b2, c * a2)


@leaf
def combined(a, u, b, v):
    """a u + b v for vectors u and v."""
    u0, u1, u2 = u
    v0, v1, v2 = v
    return multiply_add(b, v0, a * u0), multiply_add(b, v1, a * u1), multiply_add(b, v2, a * u2)


@leaf
def chord(step, before, after):
    """How far the ends of an arc of a length are apart, from its tangents there."""
    real = type(step)
    x, y, z = before
    u, v, w = after
    cosine = multiply_add(z, w, multiply_add(y, v, x * u))
    half = math.acos(max(real(-1), min(real(1), cosine))) / real(2)
    return step * math.sin(half) / half if half > real(1e-3) else step


@helper
def drawn_turn(least_cos, first, second):
    """A turn (angle, azimuth) from two random numbers, uniform over the directions of a cone."""
    real = type(least_cos)
    cosine = real(1) - real(first) * (real(1) - least_cos)
    sine = math.sqrt(max(real(0), multiply_add(-cosine, cosine, real(1))))
    return math.atan2(sine, cosine), real(6.2831853071795864) * real(second)


@helper
def turn_probability(volumes, fod, direction, turn, cutoff):
    """iFOD1: amplitude along a turned direction, 0 below the cutoff, and that direction."""
    _, table, _, _, _, lmax = volumes
    angle, azimuth = turn
    x, y, z = combined(math.cos(angle), direction, math.sin(angle), normal_to(direction, azimuth))
    amplitude = amplitude_at(fod, table, lmax, x, y, z)
    return amplitude if amplitude >= cutoff else type(cutoff)(0), (x, y, z)


@helper
def arc_probability(volumes, scratch, position, direction, amplitude, turn, settings):
    """iFOD2: probability of an arc, its end, direction and amplitude there, and whether a point before it is masked.

    The probability is 0 if an amplitude is below the cutoff; ``amplitude`` is that at the start.
    """
    fods, table, mask, to_voxel, shape, lmax = volumes
    angle, azimuth = turn
    step, cutoff = settings.step_mm, settings.cutoff
    real = type(step)
    aside = normal_to(direction, azimuth)
    product, value, at, tangent, masked = real(1), amplitude, position, direction, False
    for n in range(1, 4):
        a = angle * real(n) / real(3)
        c, s = math.cos(a), math.sin(a)
        along, across = step * real(n) / real(3), real(0)
        if angle > real(1e-3):
            radius = step / angle
            along, across = radius * s, radius * (real(1) - c)
        at = moved(to_voxel, position, combined(along, direction, across, aside))
        x, y, z = at
        if not inside(shape, x, y, z):
            return real(0), position, direction, real(0), False
        tangent = combined(c, direction, s, aside)
        interpolate(fods, at, scratch)
        x, y, z = tangent
        value = amplitude_at(scratch, table, lmax, x, y, z)
        if not value >= cutoff:
            return real(0), position, direction, real(0), False
        if n < 3:
            product *= value
            masked = masked or mark_at(mask, at) == 0
    return math.sqrt(math.sqrt(product * math.sqrt(amplitude * value))), at, tangent, value, masked


@helper
def seed_direction(volumes, settings, fod, number):
    """Draw directions at a seed until the amplitude is not below the cutoff; SD_STREAM follows that one to its peak."""
    _, table, _, _, _, lmax = volumes
    kind, trials, seed, cutoff = settings.kind, settings.trials, settings.seed, settings.cutoff
    real = type(cutoff)
    for trial in range(trials):
        first, second, _ = random_numbers(seed, number, 0, AT_SEED, trial)
        z, azimuth = real(2) * real(first) - real(1), real(6.2831853071795864) * real(second)
        sine = math.sqrt(max(real(0), multiply_add(-z, z, real(1))))
        u = sine * math.cos(azimuth), sine * math.sin(azimuth), z
        x, y, z = u
        amplitude = amplitude_at(fod, table, lmax, x, y, z)
        if amplitude >= cutoff:
            found = True
            if kind == SD_STREAM:
                found, amplitude, u = climb(fod, table, lmax, u, GRADIENT)
            return found, amplitude if found else real(0), u
    return False, real(0), (real(0), real(0), real(1))


@helper
def drawn_step(volumes, settings, memory, state, number, half, step):
    """Draw the next step: whether there is one, the position, the direction, and what `arc_probability` adds to them.

    The bound of the probabilities is the largest on the grid, times the headroom.
    """
    fod, scratch = memory
    position, direction, amplitude = state
    kind, grid, cutoff = settings.kind, settings.grid, settings.cutoff
    real = type(cutoff)
    bound = real(0)
    for n in range(len(grid)):
        turn = grid[n, 0], grid[n, 1]
        if kind == IFOD1:
            probability, _ = turn_probability(volumes, fod, direction, turn, cutoff)
        else:
            probability, _, _, _, _ = arc_probability(volumes, scratch, position, direction, amplitude, turn, settings)
        bound = max(bound, probability)
    bound *= settings.headroom
    at, tangent, value, masked = position, direction, real(0), False
    if not bound > real(0):
        return False, at, tangent, value, masked
    for trial in range(settings.trials):
        first, second, third = random_numbers(settings.seed, number, half, step, trial)
        turn = drawn_turn(settings.least_cos, first, second)
        if kind == IFOD1:
            probability, tangent = turn_probability(volumes, fod, direction, turn, cutoff)
        else:
            probability, at, tangent, value, masked = arc_probability(
                volumes, scratch, position, direction, amplitude, turn, settings
            )
        if real(third) * bound < probability:
            if kind == IFOD1:
                a, b, c = tangent
                s = settings.step_mm
                at = moved(volumes.to_voxel, position, (s * a, s * b, s * c))
            return True, at, tangent, value, masked
    return False, at, tangent, value, masked


@kernel
def trace(start, stop, volumes, settings, rays, memory, output):
    """Trace rays: row ``n`` of the output is ray ``n``; with two per fiber, 2f goes forward and 2f + 1 backward.

    The seed is not among a ray's points (x, y, z, amplitude). ``memory``: two arrays (P,) of coefficients.
    """
    fods, table, mask, to_voxel, shape, lmax = volumes
    kind, cutoff = settings.kind, settings.cutoff
    seeds, directions, per_fiber, numbers, limits = rays
    points, counts, reasons, stats = output
    fod, _ = memory
    real = seeds.dtype.type
    for n in range(start, stop):
        limit = limits[n]
        if limit < 0:
            continue
        f = n // per_fiber
        half = n % per_fiber
        position = seeds[f, 0], seeds[f, 1], seeds[f, 2]
        direction = directions[f, 0], directions[f, 1], directions[f, 2]
        written, kept, until_kept = 0, True, settings.every
        length = path = samples = total = amplitude = real(0)
        reason = STEPS
        x, y, z = position
        u, v, w = direction
        if inside(shape, x, y, z):
            interpolate(fods, position, fod)
            if u == 0 and v == 0 and w == 0:
                found, amplitude, direction = seed_direction(volumes, settings, fod, numbers[f])
                u, v, w = direction
            else:
                amplitude = amplitude_at(fod, table, lmax, u, v, w)
                found = amplitude >= cutoff
            if not found:
                reason = FOD
        else:
            reason = VOLUME
        at_seed = amplitude
        if half == 1:
            direction = -u, -v, -w
        for step in range(settings.max_steps if reason == STEPS else 0):
            at, tangent, value, masked = position, direction, amplitude, False
            if kind == SD_STREAM:
                u, v, w = direction
                s = settings.step_mm
                at = moved(to_voxel, position, (s * u, s * v, s * w))
            else:
                state = position, direction, amplitude
                found, at, tangent, value, masked = drawn_step(volumes, settings, memory, state, numbers[f], half, step)
                if not found:
                    reason = FOD
                    break
            x, y, z = at
            if not inside(shape, x, y, z):
                reason = VOLUME
                break
            mark = mark_at(mask, at)
            if masked or mark == 0:
                reason = MASK
                break
            if path + settings.step_mm > limit:
                reason = LENGTH
                break
            arrived = mark >= IN_TARGET
            if kind != IFOD2:
                interpolate(fods, at, fod)
            if kind == SD_STREAM:
                found, value, tangent = climb(fod, table, lmax, direction, GRADIENT)
                a, b, c = tangent
                if not (found and value >= cutoff) and not arrived:
                    reason = FOD
                    break
                if not a * u + b * v + c * w >= settings.least_cos and not arrived:
                    reason = CURVATURE
                    break
            elif kind == IFOD1:
                a, b, c = tangent
                value = amplitude_at(fod, table, lmax, a, b, c)
            length += chord(settings.step_mm, direction, tangent) if kind == IFOD2 else settings.step_mm
            path += settings.step_mm
            position, direction, amplitude = at, tangent, value
            samples += real(1)
            total += amplitude
            until_kept -= 1
            kept = until_kept == 0
            if kept:
                until_kept = settings.every
                points[n, written, 0], points[n, written, 1], points[n, written, 2] = at
                points[n, written, 3] = amplitude
                written += 1
            if arrived:
                reason = TARGET
                break
        if not kept:
            points[n, written, 0], points[n, written, 1], points[n, written, 2] = position
            points[n, written, 3] = amplitude
            written += 1
        counts[n], reasons[n] = written, reason
        stats[n, 0], stats[n, 1], stats[n, 2], stats[n, 3] = length, at_seed, real(0), samples
        stats[n, 4], stats[n, 5], stats[n, 6] = total, real(0), real(0)
