"""Two straight bundles that cross, and a ring, as FODs, fixels and tensors; which rays leave by which end.

FODs are delta functions cut off at order 8 and apodised, so that side lobes stay below 3 % of the peak.
"""

import functools
from typing import NamedTuple

import numpy as np

from napari_gpubio.core.device import choose_device
from napari_gpubio.tracts import Directions, FixelField, FodField, TensorField
from napari_gpubio.tracts.fods.harmonics import half_sphere, harmonics, orders
from napari_gpubio.tracts.run import PROBLEMS, trace_problem
from napari_gpubio.tracts.seeds import Launch

RADIUS, SHAPE = 5.0, (29, 29, 13)  # voxels of 1 mm; rays askew by 10 degrees stay within the radius over 28 voxels
APODISED = 0.05
FORWARDS = Directions(kind="principal", both_ways=False)
ALONG, ACROSS, BVAL = 1.7, 0.3, 1.0  # 1e-3 mm^2/s, 1e3 s/mm^2


def lobe(directions, lmax=8, apodised=APODISED):
    """Coefficients of FODs of one fiber each, with the peak 1, for unit directions (..., 3)."""
    order = orders(lmax)[:, 0]
    factor = np.exp(-0.5 * apodised * order * (order + 1))
    peak = (factor * harmonics([0, 0, 1], lmax)[0] ** 2).sum()
    flat = harmonics(np.reshape(directions, (-1, 3)), lmax) * factor / peak
    return flat.reshape(*np.shape(directions)[:-1], -1)


def centered(shape):
    """An affine of 1 mm voxels with the origin in the middle, and the positions of all voxels."""
    affine = np.eye(4)
    affine[:3, 3] = -(np.array(shape) - 1) / 2
    return affine, np.stack(np.indices(shape), axis=-1) + affine[:3, 3]


def axes_of(angle_deg):
    """Directions of the bundles A and B."""
    angle = np.deg2rad(angle_deg)
    return np.array([[1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]])


def away_from(points, axis):
    """Distance of points from an axis through the origin."""
    return np.linalg.norm(np.cross(points, axis), axis=-1)


class Crossing(NamedTuple):
    fods: FodField
    fixels: FixelField
    tensors: TensorField


@functools.cache
def crossing(angle_deg, shape=SHAPE, lmax=8, jitter_deg=0.0, seed=0, apodised=APODISED):
    """Bundle A along x and bundle B at an angle in the xy plane, through the origin; its fixels are the true ones.

    ``jitter_deg``: standard deviation of errors of the directions, independent in each voxel.
    """
    affine, at = centered(shape)
    there = np.stack([away_from(at, axis) <= RADIUS for axis in axes_of(angle_deg)], axis=-1)
    axes = axes_of(angle_deg) + np.random.default_rng(seed).normal(0, np.deg2rad(jitter_deg), (*shape, 2, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    mask = there.any(axis=-1)
    coefficients = np.where(there[..., None], lobe(axes, lmax, apodised), 0).sum(axis=-2).astype(np.float32)
    fixels = FixelField.from_dense(axes, there.astype(float), affine)
    tensors = np.zeros((*shape, 6))
    for voxel in map(tuple, np.argwhere(mask)):
        tensors[voxel] = mixed_tensor(axes[voxel][there[voxel]])
    return Crossing(
        FodField(coefficients=coefficients, mask=mask, affine=affine),
        fixels,
        TensorField(tensors=tensors, mask=mask, affine=affine),
    )


def mixed_tensor(axes):
    """The tensor (mm^2/s, six components) fitted to the mean signal of fibers along some axes."""
    g = half_sphere(100)
    signal = np.mean([np.exp(-BVAL * (ACROSS + (ALONG - ACROSS) * (g @ axis) ** 2)) for axis in axes], axis=0)
    x, y, z = g.T
    design = np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z], axis=1)
    return 1e-3 * np.linalg.lstsq(design, -np.log(signal) / BVAL, rcond=None)[0]


class Ring(NamedTuple):
    fods: FodField
    fixels: FixelField


@functools.cache
def ring(radius=20.0, shape=(60, 60, 9), half_width=7.0, *, round_section=False, apodised=APODISED):
    """Fibers around the z axis, between two radii; perhaps in a torus."""
    affine, at = centered(shape)
    r = np.hypot(at[..., 0], at[..., 1])
    tangent = np.stack([-at[..., 1], at[..., 0], 0 * r], axis=-1) / np.maximum(r, 0.5)[..., None]
    mask = np.hypot(r - radius, at[..., 2] if round_section else 0) <= half_width
    coefficients = np.where(mask[..., None], lobe(tangent, apodised=apodised), 0).astype(np.float32)
    fixels = FixelField.from_dense(tangent[..., None, :], mask[..., None].astype(float), affine)
    return Ring(FodField(coefficients=coefficients, mask=mask, affine=affine), fixels)


def shoot(field, starts, directions, settings, device="cpu"):
    """Trace a ray forwards from each start along each direction (world mm)."""
    directions = np.atleast_2d(np.asarray(directions, float))
    starts = np.broadcast_to(np.asarray(starts, float), directions.shape)
    directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    problem = PROBLEMS[settings.method](field, Launch(starts, directions, FORWARDS), settings)
    return trace_problem(problem, choose_device(device))


def fan(field, count, settings, half_angle_deg=10.0, device="cpu"):
    """Rays from the middle of A's end, within an angle of its axis."""
    start = [[-(field.shape[0] - 1) / 2, 0.0, 0.0]]
    cone = Directions(kind="cone", count=count, cone_half_angle_deg=half_angle_deg, both_ways=False)
    launch = Launch(np.array(start), axes_of(90)[:1], cone)
    return trace_problem(PROBLEMS[settings.method](field, launch, settings), choose_device(device))


def shares(fibers, launched, angle_deg, shape=SHAPE):
    """Shares of rays that leave by A's far end, and that end in B elsewhere."""
    axes, far = axes_of(angle_deg), (shape[0] - 1) / 2
    ends = np.array([fiber[-1] for fiber in fibers]).reshape(-1, 3)
    from_a, from_b = (away_from(ends, axis) for axis in axes)
    by_a = (ends[:, 0] >= far - 1.0) & (from_a <= RADIUS + 0.5) & (from_a <= from_b)
    in_b = ~by_a & (from_b <= RADIUS + 0.5) & (from_b < from_a)
    return np.count_nonzero(by_a) / launched, np.count_nonzero(in_b) / launched


def radius_after(fiber, degrees, center=(0.0, 0.0)):
    """Distance from the z axis where a ray has gone so far around it; NaN where it has not."""
    x, y = (fiber[:, :2] - center).astype(float).T
    angle = np.rad2deg(np.unwrap(np.arctan2(y, x)))
    around = np.abs(angle - angle[0])
    return np.interp(degrees, around, np.hypot(x, y)) if around[-1] >= degrees else np.nan
