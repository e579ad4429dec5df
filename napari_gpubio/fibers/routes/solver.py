"""Geodesics between two points: launch directions for which a ray passes through its target.

The unknowns are the two angles of the launch direction and the place along the ray, the residuals the position there
minus the target: three equations for three unknowns, solved by Levenberg and Marquardt's method for all rays together.
The derivatives are those of the *discrete* ray, from two neighbors traced in double precision, so the solution is a ray
of the very integrator that traces all others, whatever its method, metric and interpolation.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.fibers.routes.paths import Paths, paths
from napari_gpubio.fibers.settings import TensorGeodesic, VanAart2011

Array = npt.NDArray[Any]
_TURN = 1e-5  # rad between a ray and its neighbors
_LARGEST_TURN = 0.3  # rad in one iteration
_DAMPING, _MIN_DAMPING, _MAX_DAMPING = 1e-3, 1e-12, 1e6


class Aims(NamedTuple):
    """Rays and what they should meet, each (N, 3), world mm; ``places``: about where along the ray, in steps, (N,)."""

    starts_mm: Array
    directions: Array
    places: Array
    targets_mm: Array

    def of(self, which: Array) -> "Aims":
        """Some of them."""
        return Aims(*(values[which] for values in self))


class Solutions(NamedTuple):
    """Unit launch directions (N, 3), places along the rays in steps (N,), and distances from the targets, mm (N,)."""

    directions: npt.NDArray[np.float64]
    places: npt.NDArray[np.float64]
    misses_mm: npt.NDArray[np.float64]


class _Linear(NamedTuple):
    """A ray near its target: residual (N, 3), its derivatives (N, 3, 3), and the last place on the ray (N,)."""

    residual: Array
    jacobian: Array
    last: Array

    def of(self, which: Array) -> "_Linear":
        return _Linear(*(values[which] for values in self))


def exact(settings: TensorGeodesic) -> TensorGeodesic:
    """Return the settings in double precision, with all points kept."""
    changes: dict[str, Any] = {"texture": False} if isinstance(settings, VanAart2011) else {}
    return dataclasses.replace(settings, precision="double", points_every=1, **changes)


def solve(
    field: TensorField, aims: Aims, settings: TensorGeodesic, *, tolerance_mm: float = 1e-6, iterations: int = 20
) -> Solutions:
    """Turn launch directions until the rays meet their targets.

    Parameters
    ----------
    field
        The tensors.
    aims
        First guesses: rays that pass near their targets.
    settings
        How rays are traced; precision and points are chosen here.
    tolerance_mm
        A ray is done when it comes so near.
    iterations
        At most so many; each traces three rays for each that is not done.

    Returns
    -------
    Solutions
        Of every aim the best direction found; those that fail have large distances.
    """
    settings = exact(settings)
    directions, places = np.array(aims.directions, np.float64), np.array(aims.places, np.float64)
    now = _linearized(field, aims, directions, places, settings)
    places = np.clip(places, 0.0, now.last)
    damping = np.full(len(places), _DAMPING)
    for _ in range(iterations):
        miss = np.linalg.norm(now.residual, axis=1)
        active = np.flatnonzero((miss > tolerance_mm) & (damping < _MAX_DAMPING))
        if not len(active):
            break
        here = now.of(active)
        step = _damped_step(here, damping[active])
        turned = _turned(directions[active], step[:, :2])
        moved = np.clip(places[active] + step[:, 2], 0.0, None)
        there = _linearized(field, aims.of(active), turned, moved, settings)
        moved = np.minimum(moved, there.last)
        better = np.linalg.norm(there.residual, axis=1) < miss[active]
        damping[active] = np.where(better, np.maximum(damping[active] / 10, _MIN_DAMPING), damping[active] * 10)
        directions[active[better]], places[active[better]] = turned[better], moved[better]
        for values, new in zip(now, there, strict=True):
            values[active[better]] = new[better]
    return Solutions(directions, places, np.linalg.norm(now.residual, axis=1))


def _linearized(field: TensorField, aims: Aims, directions: Array, places: Array, settings: TensorGeodesic) -> _Linear:
    """Residuals of rays and their derivatives by two angles and the place, from three rays each."""
    count = len(directions)
    launched = [directions, *(_turned(directions, np.tile(turn, (count, 1))) for turn in _TURN * np.eye(2))]
    traced = paths(field, np.tile(aims.starts_mm, (3, 1)), np.concatenate(launched), settings)
    ends = traced.counts.reshape(3, count).min(axis=0) - 1.0
    u = np.clip(places, 0.0, ends)
    position, slope = Paths(traced.points, np.maximum(traced.counts, 4)).at(np.tile(u, 3))
    here, *beside = position.reshape(3, count, 3).copy()
    columns = [(other - here) / _TURN for other in beside] + [slope[:count]]
    return _Linear(here - aims.targets_mm, np.stack(columns, axis=-1), ends)


def _damped_step(linear: _Linear, damping: Array) -> Array:
    """Step of Levenberg and Marquardt with unknowns scaled by the columns' norms, shape (N, 3)."""
    scale = np.maximum(np.linalg.norm(linear.jacobian, axis=1), 1e-9)
    j = linear.jacobian / scale[:, None, :]
    normal = np.einsum("nki,nkj->nij", j, j) + (damping[:, None, None] + 1e-14) * np.eye(3)
    step = -np.linalg.solve(normal, np.einsum("nki,nk->ni", j, linear.residual)[..., None])[..., 0] / scale
    turn = np.linalg.norm(step[:, :2], axis=1)
    return step * np.minimum(1.0, _LARGEST_TURN / np.maximum(turn, 1e-12))[:, None]


def _turned(directions: Array, angles: Array) -> Array:
    """Unit directions turned by two small angles (N, 2) about axes across them."""
    least = np.eye(3)[np.argmin(np.abs(directions), axis=1)]
    first = np.cross(directions, least)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second = np.cross(directions, first)
    turned = directions + angles[:, :1] * first + angles[:, 1:] * second
    return np.asarray(turned / np.linalg.norm(turned, axis=1, keepdims=True))
