"""Rays as arrays: positions between their points, and what a piece of them costs in the metric."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.fibers.directions import Principal
from napari_gpubio.fibers.kernels.fibers.problem import Rays
from napari_gpubio.fibers.kernels.rays.problem import CUBIC, RayProblem
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.fibers.settings import TensorGeodesic

Array = npt.NDArray[Any]
ONE_WAY = Principal(both_ways=False)
_PER_CALL = 2048  # rays whose points are held at a time


class Paths(NamedTuple):
    """Points of rays, the start first, shape (R, P, 3), world mm, and how many of them are valid, shape (R,)."""

    points: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]

    def at(self, u: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Positions and their derivatives, each (R, 3), at places counted in points, by a cubic through four points."""
        first = np.clip(np.floor(u).astype(np.int64) - 1, 0, np.maximum(self.counts - 4, 0))
        four = self.points[np.arange(len(u))[:, None], first[:, None] + np.arange(4)]
        weights, slopes = _cubic(u - first)
        return np.einsum("rk,rkc->rc", weights, four), np.einsum("rk,rkc->rc", slopes, four)


def _cubic(t: Array) -> tuple[Array, Array]:
    """Lagrange's weights of the points 0, 1, 2, 3 at t, and their derivatives, each (R, 4)."""
    a, b, c = t - 1.0, t - 2.0, t - 3.0
    weights = np.stack([-a * b * c / 6.0, t * b * c / 2.0, -t * a * c / 2.0, t * a * b / 6.0], axis=1)
    slopes = np.stack(
        [
            -(b * c + a * c + a * b) / 6.0,
            (b * c + t * c + t * b) / 2.0,
            -(a * c + t * c + t * a) / 2.0,
            (a * b + t * b + t * a) / 6.0,
        ],
        axis=1,
    )
    return weights, slopes


def paths(field: TensorField, starts_mm: Array, directions: Array, settings: TensorGeodesic) -> Paths:
    """Trace one ray from each start, shape (R, 3), along a unit direction of the world, on the CPU.

    The settings should keep every point; a ray of fewer than four points is filled up with its last one.
    """
    from napari_gpubio.fibers.kernels.rays import cpu

    problem = RayProblem(field, Launch(starts_mm, directions, ONE_WAY), settings, measure=False)
    run = cpu.Run(problem)
    rays = problem.rays(0, len(starts_mm))
    parts = [_traced(problem, run, rays, slice(n, n + _PER_CALL)) for n in range(0, len(starts_mm), _PER_CALL)]
    longest = max((part.points.shape[1] for part in parts), default=4)
    points = [np.pad(p.points, ((0, 0), (0, longest - p.points.shape[1]), (0, 0)), mode="edge") for p in parts]
    counts = [part.counts for part in parts]
    return Paths(np.concatenate([np.zeros((0, longest, 3)), *points]), np.concatenate([np.zeros(0, np.int64), *counts]))


def _traced(problem: RayProblem, run: Any, rays: Rays, some: slice) -> Paths:
    rays, output = run.allocate(rays.of(some))
    run.launch(rays, output)
    counts = output.written.astype(np.int64) + 1
    longest = max(4, int(counts.max()))
    voxels = np.concatenate([rays.seeds[:, None, :], output.points[:, : longest - 1, :3]], axis=1)
    beyond = np.arange(longest) >= counts[:, None]
    voxels = np.where(beyond[..., None], voxels[np.arange(len(counts)), counts - 1][:, None, :], voxels)
    return Paths(apply_affine(problem.volume.affine, voxels.astype(np.float64)), counts)


def local_costs(
    field: TensorField, points_mm: Array, tangents: Array, settings: TensorGeodesic
) -> npt.NDArray[np.float64]:
    """Cost sqrt(g(v, v)) of moving along tangents v at points, both (N, 3), in the metric of the tracking, shape (N,).

    A unit tangent gives Riemannian length per mm, at unit diffusivity 1e-3 mm^2/s.
    """
    from scipy import ndimage

    from napari_gpubio.fibers.kernels.rays import cpu

    problem = RayProblem(field, Launch(points_mm[:1], tangents[:1], ONE_WAY), settings)
    volume = problem.prepared("field", lambda: cpu.prepare_field(problem))
    voxels = apply_affine(problem.to_voxel, points_mm).T
    order, shift = (3, 1.0) if problem.kind == CUBIC else (1, 0.0)
    w = [
        ndimage.map_coordinates(volume[..., c], voxels + shift, order=order, prefilter=False, mode="nearest")
        for c in range(6)
    ]
    v = tangents @ problem.to_voxel[:3, :3].T
    return np.sqrt(np.maximum(_inverse_form(np.array(w, np.float64), v.T), 0.0))


def _inverse_form(w: Array, v: Array) -> Array:
    """v^T W^-1 v for components W, (6, N), and vectors, (3, N), by cofactors."""
    xx, yy, zz, xy, xz, yz = w
    a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    d, e, f = xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    x, y, z = v
    return np.asarray(
        (a * x * x + d * y * y + f * z * z + 2.0 * (b * x * y + c * x * z + e * y * z)) / (xx * a + xy * b + xz * c)
    )
