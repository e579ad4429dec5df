"""Ray tracing on all CPU cores (Numba), the counterpart of ``gpu.py``; the numerics are in ``geodesic.py``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.intrinsics import SIMD_WIDTH
from napari_gpubio.diffusion.kernels.tensors.cpu import compose, eigen_decompose
from napari_gpubio.fibers.kernels.fibers.cpu import FiberRun
from napari_gpubio.fibers.kernels.fibers.problem import RayOutput, Rays
from napari_gpubio.fibers.kernels.rays.geodesic import trace
from napari_gpubio.fibers.kernels.rays.problem import (
    CUBIC,
    EUDX,
    VANAART,
    RayGrid,
    RayProblem,
    RayVolumes,
    spline_coefficients,
)

Array = npt.NDArray[Any]


def prepare_field(problem: RayProblem) -> Array:
    """Compute the volume that the rays read, in the problem's precision.

    Shape (X + 3, Y + 3, Z + 3, 6) of spline coefficients of W, (X, Y, Z, 6) of W, (X, Y, Z, 24) of W and three
    differences of g, or one voxel where the method reads the guide only.
    """
    if problem.kind == EUDX:
        return np.zeros((1, 1, 1, 6), problem.real)
    values, vectors = eigen_decompose(problem.tensors().astype(problem.real, copy=False))
    dual = problem.dual_eigenvalues(values)
    to_voxel = problem.to_voxel[:3, :3]
    field = compose(dual, vectors, to_voxel)
    if problem.kind == VANAART:
        g = compose(1.0 / dual, vectors, problem.volume.affine[:3, :3].T)
        field = np.concatenate([field, *(np.gradient(g, axis=a) for a in range(3))], axis=-1)
    elif problem.kind == CUBIC:
        field = spline_coefficients(field, interpolating=problem.is_interpolating)
    return with_spare(field, problem.real)


def with_spare(field: Array, real: type[np.floating[Any]]) -> Array:
    """Return a contiguous copy with some readable memory behind its end: the tracer reads eight numbers at a time."""
    memory = np.zeros(field.size + SIMD_WIDTH, real)
    copy = memory[: field.size].reshape(field.shape)
    copy[...] = field
    return copy


class Run(FiberRun):
    """The tracing of one problem on the CPU; items are fibers."""

    _problem: RayProblem
    kernel = staticmethod(trace)
    least = 4

    def _prepared(self, problem: RayProblem) -> RayVolumes:
        """What all rays read."""
        field = problem.prepared("field", lambda: prepare_field(problem))
        euclid = tuple(problem.real(m) for m in problem.euclid)
        return RayVolumes(field, problem.guide, problem.mask, RayGrid(euclid, problem.volume.shape))

    def seed_values(self, rays: Rays, output: RayOutput) -> Any:  # noqa: ARG002 - others have written it
        """FA at each fiber's seed."""
        return self._problem.values_at(rays.seeds)
