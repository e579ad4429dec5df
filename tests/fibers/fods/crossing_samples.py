"""Rays in the crossing and the ring of `diffusion.phantom`, and which of them leave by which end."""

import numpy as np

from napari_gpubio.core.device import choose_device
from napari_gpubio.diffusion.phantom.crossings import BUNDLE_RADIUS_MM, CROSSING_SHAPE, away_from, bundle_axes
from napari_gpubio.fibers import Cone, Principal, checks
from napari_gpubio.fibers.run import problem_of, trace_problem
from napari_gpubio.fibers.seeds import Launch

FORWARDS = Principal(both_ways=False)


def shoot(field, starts, directions, settings, device="cpu"):
    """Trace a ray forwards from each start along each direction (world mm)."""
    return checks.shoot(field, starts, directions, settings, choose_device(device))


def fan(field, count, settings, half_angle_deg=10.0, device="cpu"):
    """Rays from the middle of A's end, within an angle of its axis."""
    start = [[-(field.shape[0] - 1) / 2, 0.0, 0.0]]
    cone = Cone(count=count, half_angle_deg=half_angle_deg, both_ways=False)
    launch = Launch(np.array(start), bundle_axes(90)[:1], cone)
    return trace_problem(problem_of(settings)(field, launch, settings), choose_device(device))


def shares(fibers, launched, angle_deg, shape=CROSSING_SHAPE):
    """Shares of rays that leave by A's far end, and that end in B elsewhere."""
    axes, far = bundle_axes(angle_deg), (shape[0] - 1) / 2
    ends = np.array([fiber[-1] for fiber in fibers]).reshape(-1, 3)
    from_a, from_b = (away_from(ends, axis) for axis in axes)
    by_a = (ends[:, 0] >= far - 1.0) & (from_a <= BUNDLE_RADIUS_MM + 0.5) & (from_a <= from_b)
    in_b = ~by_a & (from_b <= BUNDLE_RADIUS_MM + 0.5) & (from_b < from_a)
    return np.count_nonzero(by_a) / launched, np.count_nonzero(in_b) / launched
