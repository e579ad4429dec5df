"""Bundles with known directions as FODs, fixels and tensors: two straight ones that cross, and a ring.

They are kept for the next call, so their arrays are read-only.

FODs are delta functions cut off at order 8 and apodized, so that side lobes stay below 3 % of the peak.
"""

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.diffusion.fods.harmonics import half_sphere, harmonics, orders
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.model import TensorField

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
BUNDLE_RADIUS_MM = 5.0
CROSSING_SHAPE = (29, 29, 13)  # voxels of 1 mm; rays askew by 10 degrees stay within the radius over 28 voxels
APODIZED = 0.05
ALONG, ACROSS, BVAL = 1.7, 0.3, 1.0  # diffusivities of a fiber in 1e-3 mm^2/s, b-value in 1e3 s/mm^2


class Crossing(NamedTuple):
    """Two straight bundles that cross, in three descriptions."""

    fods: FodField
    fixels: FixelField
    tensors: TensorField


class Ring(NamedTuple):
    """Fibers around the z axis, in two descriptions."""

    fods: FodField
    fixels: FixelField


def fiber_fods(directions: npt.ArrayLike, lmax: int = 8, apodized: float = APODIZED) -> Floats:
    """Return FODs of one fiber each, with the peak 1.

    Parameters
    ----------
    directions
        Unit vectors, shape (..., 3).
    lmax
        Largest order.
    apodized
        Strength of the factor ``exp(-apodized l (l + 1) / 2)`` of order l.

    Returns
    -------
    ndarray
        Coefficients, shape (..., N).
    """
    order = orders(lmax)[:, 0]
    factor = np.exp(-0.5 * apodized * order * (order + 1))
    peak = (factor * harmonics([0, 0, 1], lmax)[0] ** 2).sum()
    flat = harmonics(np.reshape(directions, (-1, 3)), lmax) * factor / peak
    return np.asarray(flat.reshape(*np.shape(directions)[:-1], -1))


def centered_grid(shape: tuple[int, int, int]) -> tuple[Floats, Floats]:
    """An affine of 1 mm voxels with the origin in the middle, and the positions of all voxels, shape (X, Y, Z, 3)."""
    affine = np.eye(4)
    affine[:3, 3] = -(np.array(shape) - 1) / 2
    return affine, np.moveaxis(np.indices(shape), 0, -1) + affine[:3, 3]


def bundle_axes(angle_deg: float) -> Floats:
    """Directions of the bundles A and B of `crossing`, shape (2, 3)."""
    angle = np.deg2rad(angle_deg)
    return np.array([[1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]])


def away_from(points: Array, axis: Array) -> Floats:
    """Distance, mm, of points (..., 3) from an axis through the origin, of a unit direction; shape (...)."""
    return np.asarray(np.linalg.norm(np.cross(points, axis), axis=-1))


@functools.lru_cache(maxsize=8)
def crossing(
    angle_deg: float,
    shape: tuple[int, int, int] = CROSSING_SHAPE,
    lmax: int = 8,
    jitter_deg: float = 0.0,
    seed: int = 0,
    apodized: float = APODIZED,
) -> Crossing:
    """Make bundle A along x and bundle B at an angle in the xy plane, through the origin; the fixels are the true ones.

    Parameters
    ----------
    angle_deg
        Between the bundles.
    shape
        Voxels of 1 mm.
    lmax, apodized
        See `fiber_fods`.
    jitter_deg, seed
        Standard deviation of errors of the directions, independent in each voxel, and the seed of these.

    Returns
    -------
    Crossing
        The mixed tensors are those fitted to the mean signal of the fibers of a voxel.
    """
    affine, at = centered_grid(shape)
    there = np.stack([away_from(at, axis) for axis in bundle_axes(angle_deg)], axis=-1) <= BUNDLE_RADIUS_MM
    axes = bundle_axes(angle_deg) + np.random.default_rng(seed).normal(0, np.deg2rad(jitter_deg), (*shape, 2, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    mask = np.asarray(there.any(axis=-1))
    coefficients = np.where(there[..., None], fiber_fods(axes, lmax, apodized), 0).sum(axis=-2).astype(np.float32)
    fixels = FixelField.from_dense(axes, there.astype(float), affine)
    tensors = np.zeros((*shape, 6))
    for x, y, z in np.argwhere(mask):
        tensors[x, y, z] = mixed_tensor(axes[x, y, z][there[x, y, z]])
    for array in (coefficients, tensors, mask, fixels.directions, fixels.amplitudes, fixels.counts):
        array.flags.writeable = False
    return Crossing(
        FodField(coefficients=coefficients, mask=mask, affine=affine),
        fixels,
        TensorField(tensors=tensors, mask=mask, affine=affine),
    )


def mixed_tensor(axes: Array) -> Floats:
    """The tensor (mm^2/s, six components) fitted to the mean signal of fibers along some axes, shape (F, 3)."""
    g = half_sphere(100)
    signal = np.mean([np.exp(-BVAL * (ACROSS + (ALONG - ACROSS) * (g @ axis) ** 2)) for axis in axes], axis=0)
    x, y, z = g.T
    design = np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z], axis=1)
    return np.asarray(1e-3 * np.linalg.lstsq(design, -np.log(signal) / BVAL, rcond=None)[0])


@functools.lru_cache(maxsize=8)
def ring_bundle(
    radius_mm: float = 20.0,
    shape: tuple[int, int, int] = (60, 60, 9),
    half_width_mm: float = 7.0,
    *,
    round_section: bool = False,
    apodized: float = APODIZED,
) -> Ring:
    """Make fibers around the z axis, between two radii; perhaps in a torus.

    Parameters
    ----------
    radius_mm, half_width_mm
        Middle of the ring, and how far it reaches to both sides.
    shape
        Voxels of 1 mm.
    round_section
        Whether the section is a disk; else it is a strip through all slices.
    apodized
        See `fiber_fods`.

    Returns
    -------
    Ring
        Its FODs and its true fixels.
    """
    affine, at = centered_grid(shape)
    r = np.hypot(at[..., 0], at[..., 1])
    tangent = np.stack([-at[..., 1], at[..., 0], 0 * r], axis=-1) / np.maximum(r, 0.5)[..., None]
    mask = np.hypot(r - radius_mm, at[..., 2] if round_section else 0) <= half_width_mm
    coefficients = np.where(mask[..., None], fiber_fods(tangent, apodized=apodized), 0).astype(np.float32)
    fixels = FixelField.from_dense(tangent[..., None, :], mask[..., None].astype(float), affine)
    for array in (coefficients, mask, fixels.directions, fixels.amplitudes, fixels.counts):
        array.flags.writeable = False
    return Ring(FodField(coefficients=coefficients, mask=mask, affine=affine), fixels)


def radius_after(fiber: Array, degrees: float, center: tuple[float, float] = (0.0, 0.0)) -> float:
    """Distance from the z axis where a fiber (P, 3) has gone so far around it, mm; NaN where it has not."""
    x, y = (np.asarray(fiber, np.float64)[:, :2] - center).T
    angle = np.rad2deg(np.unwrap(np.arctan2(y, x)))
    around = np.abs(angle - angle[0])
    return float(np.interp(degrees, around, np.hypot(x, y))) if around[-1] >= degrees else float("nan")
