"""Fields of fixels with known answers: straight bundles, circles, a ring, crossings."""

import numpy as np

from napari_gpubio.diffusion import DiffusionScan, FixelField, Response, deconvolve
from napari_gpubio.diffusion.fods.estimate import fit_zonal
from napari_gpubio.diffusion.regions import Region, Sphere
from tests.diffusion.fods.scan_samples import fiber_signals, noisy, one_shell


def grid(shape, size_mm=2.0):
    """Affine of a centered grid, and the centers of its voxels, world mm."""
    affine = np.diag([size_mm, size_mm, size_mm, 1.0])
    affine[:3, 3] = -size_mm * (np.array(shape) - 1) / 2
    centers = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1) @ affine[:3, :3].T + affine[:3, 3]
    return affine, centers


def field_of(bundles, affine, jitter_deg=0.0):
    """Fixels of some bundles, each (mask, directions): one for each bundle in a voxel."""
    directions = np.stack([np.where(mask[..., None], d, 0.0) for mask, d in bundles], axis=3)
    if jitter_deg:
        random = np.random.default_rng(0)
        noise = random.normal(size=directions.shape) * np.tan(np.radians(jitter_deg)) / np.sqrt(2)
        directions = np.where(np.abs(directions).sum(-1, keepdims=True) > 0, directions + noise, 0.0)
    return FixelField.from_dense(directions, np.ones(directions.shape[:-1]), affine)


def straight(angle_deg=0.0, radius_mm=5.0, shape=(60, 60, 9)):
    """A straight bundle at an angle to the grid in the x-y plane."""
    affine, x = grid(shape)
    u = np.array([np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg)), 0.0])
    away = np.linalg.norm(x - (x @ u)[..., None] * u, axis=-1)
    return field_of([(away < radius_mm, np.broadcast_to(u, x.shape))], affine)


def ring(radius_mm=20.0, thick_mm=5.0, shape=(40, 40, 9), jitter_deg=0.0):
    """A ring in the x-y plane."""
    affine, x = grid(shape)
    r = np.hypot(x[..., 0], x[..., 1])
    tangent = np.stack([-x[..., 1], x[..., 0], 0 * r], -1) / np.maximum(r, 1e-9)[..., None]
    inside = np.hypot(r - radius_mm, x[..., 2]) < thick_mm
    return field_of([(inside, tangent)], affine, jitter_deg)


def cross(angle_deg=90.0, shape=(34, 34, 9), radius_mm=5.0):
    """Two straight bundles that cross in the middle."""
    affine, x = grid(shape)
    bundles = []
    for angle in (0.0, np.radians(angle_deg)):
        u = np.array([np.cos(angle), np.sin(angle), 0.0])
        away = np.linalg.norm(x - (x @ u)[..., None] * u, axis=-1)
        bundles.append((away < radius_mm, np.broadcast_to(u, x.shape)))
    return field_of(bundles, affine)


def ball(name, center_mm, radius_mm=5.0):
    return Sphere(name=name, center_mm=center_mm, radius_mm=radius_mm)


def voxel_region(name, field, *voxels):
    inside = np.zeros(field.shape, bool)
    inside[tuple(np.array(voxels).T)] = True
    return Region(name=name, voxels=inside, affine=field.affine)


def ends_of_cross(angle_deg=90.0, away_mm=26.0):
    """West and east are the ends of the first bundle, south and north those of the other."""
    u = np.array([np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg)), 0.0])
    places = {"west": (-away_mm, 0, 0), "east": (away_mm, 0, 0), "south": -away_mm * u, "north": away_mm * u}
    return [ball(name, tuple(map(float, place))) for name, place in places.items()]


def half_circle(radius_mm, thick_mm=5.0, shape=(60, 60, 9)):
    """Half a circle in the x-y plane, and a function from the angle to a place on it."""
    affine, _ = grid(shape)
    affine[1, 3] += 2.0 * (shape[1] - 1) / 2 - 4
    x = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1) @ affine[:3, :3].T + affine[:3, 3]
    r = np.hypot(x[..., 0], x[..., 1])
    tangent = np.stack([-x[..., 1], x[..., 0], 0 * r], -1) / np.maximum(r, 1e-9)[..., None]
    inside = (np.hypot(r - radius_mm, x[..., 2]) < thick_mm) & (x[..., 1] > 0)
    return field_of([(inside, tangent)], affine), lambda a: radius_mm * np.array([np.cos(a), np.sin(a), 0.0])


def flipped(field, axes):
    """The same fixels in arrays that run the other way along some axes, each fixel the other way round."""
    directions, amplitudes = (np.flip(values, axes) for values in field.dense())
    flip = np.eye(4)
    for axis in axes:
        flip[axis, axis], flip[axis, 3] = -1, field.shape[axis] - 1
    there = amplitudes > 0
    return FixelField(
        counts=np.flip(field.counts, axes), directions=-directions[..., ::-1, :][there[..., ::-1]],
        amplitudes=amplitudes[..., ::-1][there[..., ::-1]], affine=field.affine @ flip,
    )  # fmt: skip


def noisy_cross(shape=(24, 24, 7)):
    """A scan with noise of two bundles that cross at right angles, with the response of one, and its FODs."""
    field, (bvals, directions) = cross(90, shape), one_shell(45)
    axes, there = field.dense(2)
    signals = np.full((field.mask.size, len(bvals)), 0.0)
    inside = field.mask.ravel()
    shares = there.reshape(-1, 2)[inside]
    axes = np.where(there[..., None] > 0, axes, [0.0, 0.0, 1.0]).reshape(-1, 2, 3)[inside]
    signals[inside] = fiber_signals(axes, bvals, directions, shares / shares.sum(axis=1, keepdims=True))
    data = noisy(signals, 12.0, 1).reshape(*field.shape, -1).astype(np.float32)
    scan = DiffusionScan(data=data, bvals=bvals, directions=directions, affine=field.affine)
    shell, fiber = bvals > 0, np.array([[0.0, 0.0, 1.0]])
    alone = fit_zonal(fiber_signals(fiber[None], bvals[shell], directions[shell]), directions[shell], fiber, 8)
    response = Response(coefficients=alone[None], bvals=(3000,))
    return scan, response, deconvolve(scan, response, field.mask, device="cpu")
