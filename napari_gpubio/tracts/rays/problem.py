"""A tracing problem made ready for a twin: geometry, limits and the volumes that a ray reads."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.metrics import METRICS
from napari_gpubio.tracts.model import TensorField
from napari_gpubio.tracts.seeds import Launch
from napari_gpubio.tracts.settings import INTEGRATORS, TrackSettings
from napari_gpubio.tracts.tensors.scalars import fractional_anisotropy

Array = npt.NDArray[Any]

# The kinds of system, the same numbers in cpu.py and geodesic.cuh.
CUBIC, LINEAR, VANAART, EUDX = 0, 1, 2, 3
MARGIN_VOXELS = 3  # how far tensors are continued beyond the mask: a cubic spline reads two voxels away


@dataclass(frozen=True, eq=False)
class RayProblem:
    """What a ray needs to know.

    Parameters
    ----------
    field
        The tensors.
    launch
        Seeds and directions.
    settings
        Method, metric, step, stops.
    measure
        Whether FA, alignment and drift are gathered along the rays (the plain benchmark of the paper does not).
    """

    field: TensorField
    launch: Launch
    settings: TrackSettings
    measure: bool = True

    def __post_init__(self) -> None:
        if min(self.field.shape) < 4:
            raise InvalidInput(f"the tensor volume has shape {self.field.shape}; tracking needs 4 voxels along each axis")

    @property
    def kind(self) -> int:
        """The kind of system that the rays follow."""
        if self.settings.method == "hamiltonian":
            return LINEAR if self.settings.interpolation == "linear" else CUBIC
        return VANAART if self.settings.method == "vanaart2011" else EUDX

    @property
    def stages(self) -> int:
        """Stages of the Runge-Kutta method: 1, 2 or 4."""
        return INTEGRATORS[self.settings.integrator]

    @property
    def real(self) -> type[np.floating[Any]]:
        """Floating-point type of the tracing."""
        return np.float64 if self.settings.precision == "double" else np.float32

    @cached_property
    def to_voxel(self) -> npt.NDArray[np.float64]:
        """World mm to voxel coordinates, 4 x 4."""
        return np.asarray(np.linalg.inv(self.field.affine))

    @cached_property
    def euclid(self) -> npt.NDArray[np.float64]:
        """A^T A, six components: the Euclidean metric (mm^2) in voxel coordinates."""
        a = self.field.affine[:3, :3]
        g = a.T @ a
        return np.array([g[0, 0], g[1, 1], g[2, 2], g[0, 1], g[0, 2], g[1, 2]])

    def rays(self, start: int, count: int) -> tuple[Array, Array]:
        """Start points in voxel coordinates and directions (voxels per mm) of a range of fibers, each (count, 3)."""
        points, directions = self.launch.rays(start, count)
        m = self.to_voxel
        return (
            np.ascontiguousarray(points @ m[:3, :3].T + m[:3, 3], self.real),
            np.ascontiguousarray(directions @ m[:3, :3].T, self.real),
        )

    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (1e-3 mm^2/s) and eigenvectors, continued a few voxels beyond the mask.

        Beyond the mask a voxel takes the tensor of the nearest masked one, so that the field has no cliff where it
        is read from inside.
        """
        values, vectors = self.field.eigen.values, self.field.eigen.vectors
        outside = ~self.field.mask
        if outside.any():
            nearest = nearest_inside(self.field.mask)
            values = values.copy()
            vectors = vectors.copy()
            values[outside] = self.field.eigen.values[tuple(nearest)][outside]
            vectors[outside] = self.field.eigen.vectors[tuple(nearest)][outside]
        return values * 1e3, vectors

    def dual_eigenvalues(self, values: Any) -> Any:
        """Eigenvalues of the dual metric W from the tensors' (NumPy or CuPy array, units of 1e-3 mm^2/s)."""
        floor = self.settings.eigenvalue_floor_mm2_per_s * 1e3
        return METRICS[self.settings.metric](values.clip(floor, None), self.settings.sharpening)

    @cached_property
    def guide(self) -> npt.NDArray[np.float32]:
        """Principal direction (voxels per mm) and FA of every voxel, shape (X, Y, Z, 4), zero outside the mask."""
        eigen = self.field.eigen
        guide = np.zeros((*self.field.shape, 4), np.float32)
        guide[..., :3] = eigen.vectors[..., 0, :] @ self.to_voxel[:3, :3].T
        guide[..., 3] = fractional_anisotropy(eigen.values)
        guide[~self.field.mask] = 0
        return guide


def nearest_inside(mask: npt.NDArray[np.bool_]) -> Array:
    """Index of the nearest masked voxel for every voxel, shape (3, X, Y, Z)."""
    if not mask.any():
        raise InvalidInput("the tensor mask is empty; there is nothing to track in")
    return np.asarray(ndimage.distance_transform_edt(~mask, return_distances=False, return_indices=True))


def spline_coefficients(field: Array, *, interpolating: bool) -> Array:
    """Coefficients of a cubic B-spline over a field (X, Y, Z, C), padded by one voxel before and two behind.

    Smoothing: the samples themselves are the coefficients; all weights are positive, so tensors stay positive
    definite. Interpolating: coefficients for which the spline passes through the samples.
    """
    if interpolating:
        field = np.stack([ndimage.spline_filter(field[..., c], 3, mode="mirror") for c in range(field.shape[3])], -1)
    return np.pad(field, ((1, 2), (1, 2), (1, 2), (0, 0)), mode="reflect")
