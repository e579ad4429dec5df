"""Streamlines in FODs, in Numba; the counterpart of ``streamlines.cu``: same names, same order of operations.

Positions are in voxels, directions in world axes. The random numbers of a trial depend on the seed, the number of the
fiber, its half, the step, and the number of the trial.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs
# ruff: noqa: ARG001 - what `tracer` gives to the functions of every method

import math

import numpy as np

from napari_gpubio.core.intrinsics import multiply_add
from napari_gpubio.core.jit import helper, leaf
from napari_gpubio.core.philox import philox4x32, unit_float
from napari_gpubio.diffusion.kernels.harmonics import GRADIENT, amplitude_at, climb, tangents
from napari_gpubio.fibers.kernels.loop import (
    CURVATURE,
    FOD,
    MASK,
    STEPS,
    VOLUME,
    count,
    inside,
    mark_at,
    move,
    start_of,
    tracer,
)
from napari_gpubio.fibers.kernels.streamlines.problem import IFOD1, IFOD2, SD_STREAM
from napari_gpubio.fibers.kernels.vectors import times

SEED_STEP = 1 << 20  # the step of the random numbers at a seed; more than any other
_U32, _U64 = np.uint32, np.uint64


@leaf
def stepped(to_voxel, position, step):
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
        at = stepped(to_voxel, position, combined(along, direction, across, aside))
        if not inside(shape, at):
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
        first, second, _ = random_numbers(seed, number, 0, SEED_STEP, trial)
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
                at = stepped(volumes.to_voxel, position, (s * a, s * b, s * c))
            return True, at, tangent, value, masked
    return False, at, tangent, value, masked


@helper
def begin(volumes, settings, memory, rays, n):
    """Whether a ray can leave its seed, the amplitude there, and its state; see `tracer`.

    The state: position, direction, amplitude, number of the fiber, and which of its halves this is.
    """
    fods, table, _, _, shape, lmax = volumes
    fod, _ = memory
    _, _, per_fiber, numbers, _ = rays
    f, half = n // per_fiber, n % per_fiber
    position, direction = start_of(rays, per_fiber * f)
    u, v, w = direction
    reason, amplitude = VOLUME, type(u)(0)
    if inside(shape, position):
        interpolate(fods, position, fod)
        if u == 0 and v == 0 and w == 0:
            found, amplitude, direction = seed_direction(volumes, settings, fod, numbers[f])
        else:
            amplitude = amplitude_at(fod, table, lmax, u, v, w)
            found = amplitude >= settings.cutoff
        reason = STEPS if found else FOD
    if half == 1:
        direction = times(type(u)(-1), direction)
    return reason, amplitude, (position, direction, amplitude, numbers[f], half)


@leaf
def propose(volumes, settings, memory, stats, n, state, step):
    """A step along the direction, or one that is drawn; see `tracer`."""
    position, direction, amplitude, number, half = state
    at, tangent, value, masked, reason = position, direction, amplitude, False, STEPS
    if settings.kind == SD_STREAM:
        at = stepped(volumes.to_voxel, position, times(settings.step_mm, direction))
    else:
        start = position, direction, amplitude
        found, at, tangent, value, masked = drawn_step(volumes, settings, memory, start, number, half, step)
        if not found:
            reason = FOD
    if reason == STEPS:
        if not inside(volumes.shape, at):
            reason = VOLUME
        elif masked:
            reason = MASK
    return reason, at, settings.step_mm, (at, tangent, value)


@leaf
def accept(volumes, settings, memory, stats, n, state, plan, here):
    """The direction and the amplitude there; see `tracer`."""
    _, direction, amplitude, number, half = state
    at, tangent, value = plan
    arrived, _ = here
    fod, _ = memory
    kind, table, lmax = settings.kind, volumes.table, volumes.lmax
    path = settings.step_mm
    if kind == IFOD2:
        path = chord(path, direction, tangent)
    else:
        interpolate(volumes.fods, at, fod)
    if kind == SD_STREAM:
        u, v, w = direction
        found, value, tangent = climb(fod, table, lmax, direction, GRADIENT)
        a, b, c = tangent
        if not (found and value >= settings.cutoff) and not arrived:
            return FOD, amplitude, state
        if not a * u + b * v + c * w >= settings.least_cos and not arrived:
            return CURVATURE, amplitude, state
    elif kind == IFOD1:
        a, b, c = tangent
        value = amplitude_at(fod, table, lmax, a, b, c)
    move(stats, n, path, type(path)(0))
    count(stats, n, value, type(path)(0))
    return STEPS, value, (at, tangent, value, number, half)


trace = tracer("streamlines", begin, propose, accept)
