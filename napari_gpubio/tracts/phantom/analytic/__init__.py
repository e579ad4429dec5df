"""Tensor fields whose geodesics are known in closed form: the truth that the tracker is held against."""

import numpy as np

from napari_gpubio.tracts.model import TensorField
from napari_gpubio.tracts.phantom.analytic.fibers import adaptive_ring, constant, helical, pull_back, ring
from napari_gpubio.tracts.phantom.analytic.field import AnalyticField, Launch, as_matrices
from napari_gpubio.tracts.phantom.analytic.lenses import (
    fish_eye,
    half_space,
    linear_index,
    luneburg,
    parabolic_index,
)
from napari_gpubio.tracts.phantom.brain import voxel_centers

__all__ = [
    "AnalyticField",
    "Launch",
    "adaptive_ring",
    "analytic_fields",
    "as_matrices",
    "constant",
    "fish_eye",
    "half_space",
    "helical",
    "linear_index",
    "luneburg",
    "parabolic_index",
    "pull_back",
    "ring",
    "ring_field",
]


def analytic_fields() -> tuple[AnalyticField, ...]:
    """All fields, the ring with diffusivities to the powers 1 to 3."""
    rings = tuple(ring(power) for power in (1, 2, 3))
    lenses = (half_space(), fish_eye(), luneburg(), linear_index(), parabolic_index())
    return (constant(), *lenses, *rings, adaptive_ring(), pull_back(), helical())


def ring_field(inner_mm: float = 7.0, outer_mm: float = 31.0) -> TensorField:
    """A ring bundle of 64 x 64 x 24 voxels to look at: the field of `ring` between two radii, zero elsewhere."""
    field = ring(shape=(64, 64, 24), origin=(-31.5, -31.5, -11.5))
    whole = field.sample()
    radius = np.linalg.norm(voxel_centers(field.affine, field.shape)[..., :2], axis=-1)
    mask = (radius > inner_mm) & (radius < outer_mm)
    return TensorField(tensors=np.where(mask[..., None], whole.tensors, 0.0), mask=mask, affine=whole.affine)
