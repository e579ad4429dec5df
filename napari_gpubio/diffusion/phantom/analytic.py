"""A tensor field with known geodesics: its interface, and the pieces that several fields share.

With a dimensionless field D(x), the metric is g = D^-1 and a path is followed at unit speed, g(v, v) = 1, so that its
parameter ``s`` is the Riemannian length. Coordinates are world millimeters. A `TensorField` made from a field holds
``1e-3 * D`` in mm^2/s. Component order: xx, yy, zz, xy, xz, yz.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.phantom.brain import Array, Floats, voxel_centers

DIFFUSIVITY = 1e-3  # mm^2/s of D = 1
CENTERD = (-31.5, -31.5, -31.5)

Path = Callable[[Floats, Floats, Floats], Floats]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A ray to try: start (mm), direction of any length, and the Riemannian length that stays inside the grid."""

    start: tuple[float, float, float]
    direction: tuple[float, float, float]
    length: float


@dataclass(frozen=True, kw_only=True)
class AnalyticField:
    """A tensor field with known geodesics.

    Parameters
    ----------
    name
        What the field is called in a report.
    tensor_at
        D at points (..., 3), dimensionless, shape (..., 6); also for complex points, for complex-step gradients.
    geodesic
        ``(start, unit velocity, lengths) -> points``, or None where only the conserved momenta are known.
    launches
        Suitable rays.
    origin
        World mm of the first voxel's center; voxels are 1 mm.
    shape
        Dimensions of the grid.
    conserved
        Components of the momentum p = D^-1 v that stay constant along a path.
    """

    name: str
    tensor_at: Callable[[Array], Array]
    geodesic: Path | None
    launches: tuple[Launch, ...]
    origin: tuple[float, float, float] = CENTERD
    shape: tuple[int, int, int] = (64, 64, 64)
    conserved: tuple[int, ...] = ()

    @property
    def affine(self) -> Floats:
        """Voxel to world, mm: a pure translation."""
        affine = np.eye(4)
        affine[:3, 3] = self.origin
        return affine

    def unit_velocity(self, start: npt.ArrayLike, direction: npt.ArrayLike) -> Floats:
        """Velocity along a direction with g(v, v) = 1."""
        v = np.asarray(direction, np.float64)
        metric = np.linalg.inv(as_matrices(self.tensor_at(np.asarray(start, np.float64))))
        return np.asarray(v / np.sqrt(v @ metric @ v))

    def path(self, start: npt.ArrayLike, direction: npt.ArrayLike, lengths: npt.ArrayLike) -> Floats:
        """Exact points, shape (n, 3), at Riemannian lengths, shape (n,), along the geodesic of a start and direction.

        Raises
        ------
        InvalidInput
            If the field has no closed form.
        """
        if self.geodesic is None:
            raise InvalidInput(f"the field {self.name!r} has no closed-form path; compare its conserved momenta")
        x0, s = np.asarray(start, np.float64), np.atleast_1d(np.asarray(lengths, np.float64))
        return self.geodesic(x0, self.unit_velocity(x0, direction), s)

    def sample(self) -> TensorField:
        """The field on its grid, mm^2/s, with every voxel in the mask."""
        tensors = DIFFUSIVITY * self.tensor_at(voxel_centers(self.affine, self.shape))
        return TensorField(tensors=tensors, mask=np.ones(self.shape, bool), affine=self.affine)


def as_matrices(components: Array) -> Array:
    """Six components, shape (..., 6), as symmetric matrices, shape (..., 3, 3)."""
    return components[..., [[0, 3, 4], [3, 1, 5], [4, 5, 2]]]


def isotropic(d: Array) -> Array:
    """Six components of d I, shape (..., 6), for diffusivities d, shape (...)."""
    return d[..., None] * np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


def half_plane(height: float, across: float, up: float, s: Floats) -> tuple[Floats, Floats]:
    """Horizontal distance and height of a hyperbolic geodesic, (dx^2 + dy^2)/y^2, launched at slope up / across."""
    speed = max(float(np.hypot(across, up)), 1e-300)
    below = np.cosh(s) - up / speed * np.sinh(s)
    return height * across / speed * np.sinh(s) / below, height / below
