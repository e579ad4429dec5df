"""The loop that traces rays by any method, in Numba; counterpart of ``loop.cuh``: same names, same order of operations.

Positions are in voxels. Rows of `RayOutput.stats` have the numbers that `Partial` lists.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import numpy as np

from napari_gpubio.core.jit import kernel, leaf
from napari_gpubio.fibers.kernels.fibers.problem import IN_TARGET
from napari_gpubio.fibers.kernels.fibers.tally import ALIGNED, AT_SEED, DRIFTED, PATH, RIEMANNIAN, SAMPLES, TOTAL
from napari_gpubio.tractograms.model import StopReason

VOLUME, MASK, FA, STEPS = int(StopReason.VOLUME), int(StopReason.MASK), int(StopReason.FA), int(StopReason.STEPS)
LENGTH, CURVATURE = int(StopReason.LENGTH), int(StopReason.CURVATURE)
DRIFT, INVALID, TARGET = int(StopReason.DRIFT), int(StopReason.INVALID), int(StopReason.TARGET)
FOD = int(StopReason.FOD)


@leaf
def inside(shape, position):
    """Whether a position lies between the outermost voxel centers (false for NaN)."""
    x, y, z = position
    nx, ny, nz = shape
    return (x >= 0) and (y >= 0) and (z >= 0) and (x <= nx - 1) and (y <= ny - 1) and (z <= nz - 1)


@leaf
def mark_at(mask, position):
    """What the voxel of a position inside the volume is to a ray; see `FiberProblem.mask`."""
    x, y, z = position
    half = type(x)(0.5)
    return mask[np.int64(x + half), np.int64(y + half), np.int64(z + half)]


@leaf
def finite_positive(x):
    """Whether a number is more than zero, and finite."""
    return x > 0 and x < type(x)(np.inf)


@leaf
def start_of(rays, n):
    """Where a ray begins, and its direction: of two rays a fiber, 2f goes forward and 2f + 1 backward."""
    seeds, directions, per_fiber, _, _ = rays
    f = n // per_fiber
    sign = seeds.dtype.type(1 if n % per_fiber == 0 else -1)
    direction = sign * directions[f, 0], sign * directions[f, 1], sign * directions[f, 2]
    return (seeds[f, 0], seeds[f, 1], seeds[f, 2]), direction


@leaf
def drifted(stats, n, ratio, most):
    """Note how far what is constant along a geodesic has come from 1; whether that is too far (never where 0 is)."""
    drift = abs(ratio - type(ratio)(1))
    if drift > stats[n, DRIFTED]:
        stats[n, DRIFTED] = drift
    return most > 0 and not drift <= most


@leaf
def count(stats, n, value, along):
    """Add a sample to a ray's numbers: the point's number, and the cosine between the path and what is followed."""
    stats[n, SAMPLES] += type(value)(1)
    stats[n, TOTAL] += value
    stats[n, ALIGNED] += along


@leaf
def move(stats, n, path, riemannian):
    """Add a step to a ray's lengths."""
    stats[n, PATH] += path
    stats[n, RIEMANNIAN] += riemannian


def tracer(method, begin, propose, accept):
    """Make the kernel that traces rays by a method, of which it has the name and three compiled functions.

    ``begin(volumes, settings, memory, rays, n)``
        Ray ``n`` at its seed: `STEPS` where it can leave it, else a reason; the seed's number; the ray's state.
    ``propose(volumes, settings, memory, stats, n, state, step)``
        Its next step: `STEPS` or a reason; a position inside the volume; how long the step is (mm); a plan.
    ``accept(volumes, settings, memory, stats, n, state, plan, here)``
        The step where mask and length allow it; ``here``: whether it is at the target, and whether its point is kept.
        `STEPS` or a reason; the point's number; the state after it. It counts the step in ``stats``.
    """

    def trace(start, stop, volumes, settings, rays, memory, output):
        """Trace rays: row ``n`` of the output is ray ``n``. The seed is not among its points (x, y, z, number)."""
        mask = volumes.mask
        limits = rays.limits
        points, counts, reasons, stats = output
        zero = limits.dtype.type(0)
        for n in range(start, stop):
            limit = limits[n]
            if limit < 0:
                continue
            for number in range(stats.shape[1]):
                stats[n, number] = zero
            reason, value, state = begin(volumes, settings, memory, rays, n)
            stats[n, AT_SEED] = value
            written, kept, until_kept = 0, True, settings.every
            x = y = z = length = zero
            for step in range(settings.max_steps if reason == STEPS else 0):
                reason, at, moved, plan = propose(volumes, settings, memory, stats, n, state, step)
                if reason != STEPS:
                    break
                mark = mark_at(mask, at)
                if mark == 0:
                    reason = MASK
                    break
                if length + moved > limit:
                    reason = LENGTH
                    break
                arrived = mark >= IN_TARGET
                until_kept -= 1
                keep = until_kept == 0
                here = arrived, keep
                reason, value, state = accept(volumes, settings, memory, stats, n, state, plan, here)
                if reason != STEPS:
                    break
                length += moved
                x, y, z = at
                kept = keep
                if kept:
                    until_kept = settings.every
                    points[n, written, 0], points[n, written, 1], points[n, written, 2] = x, y, z
                    points[n, written, 3] = value
                    written += 1
                if arrived:
                    reason = TARGET
                    break
            if not kept:
                points[n, written, 0], points[n, written, 1], points[n, written, 2] = x, y, z
                points[n, written, 3] = value
                written += 1
            counts[n], reasons[n] = written, reason

    trace.__qualname__ = f"trace_{method}"  # the name of its machine code
    return kernel(trace)


def integrator(advanced, slope):
    """Make a step of a Runge-Kutta method: Euler (1 stage), the midpoint rule (2), or the classical one (4).

    ``advanced(y, t, k)``
        y + t k, for states and their rates.
    ``slope(volumes, settings, memory, guide, y)``
        The rates at a state: `STEPS` or a reason why there are none; they; what else is known there. ``guide`` is
        what a method needs besides.
    """

    @leaf
    def runge_kutta(stages, dt, volumes, settings, memory, guide, y, k1):
        """`STEPS`, or the reason why a stage has no rates; the state that is reached."""
        real = type(dt)
        at, k, sums = y, k1, k1
        for stage in range(1, stages):
            at = advanced(y, dt if stage == 3 else real(0.5) * dt, k)
            reason, k, _ = slope(volumes, settings, memory, guide, at)
            if reason != STEPS:
                return reason, at
            if stage < 3:
                sums = advanced(sums, real(2), k)
        if stages == 4:
            return STEPS, advanced(y, dt / real(6), advanced(sums, real(1), k))
        return STEPS, advanced(y, dt, k)

    return runge_kutta
