"""All geodesics found between two points."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import position_text
from napari_gpubio.core.settings import kind_of
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.fibers.kernels.rays.problem import check_tensors
from napari_gpubio.fibers.routes.paths import Paths, local_costs, paths
from napari_gpubio.fibers.routes.solver import Aims, Solutions, exact, solve
from napari_gpubio.fibers.seeds import cap_directions, check_seed, checked_points
from napari_gpubio.fibers.settings import Hamiltonian, TensorGeodesic
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
_SAME_ANGLE, _SAME_PLACE = 0.01, 1.0  # rad, steps: geodesics that differ by less are one
_MAX_AIMS = 300


def geodesics_between(
    field: TensorField,
    a_mm: npt.ArrayLike,
    b_mm: npt.ArrayLike,
    settings: TensorGeodesic | None = None,
    *,
    directions: int = 1000,
    tolerance_mm: float = 1e-5,
) -> Tractogram:
    """Find the geodesics from one point to another: a fan in all directions, then each near miss made exact.

    Parameters
    ----------
    field
        The tensors.
    a_mm, b_mm
        The two points, world mm.
    settings
        Method, metric, step, and stops, which apply here too; see `napari_gpubio.fibers.settings`. It runs in double
        precision on the CPU.
    directions
        Rays of the fan, spread over the sphere; more find geodesics that few directions lead to.
    tolerance_mm
        How near a ray must come to ``b_mm``.

    Returns
    -------
    Tractogram
        One fiber for each distinct geodesic, the shortest in the metric first; it may be empty, and has one for every
        direction where all rays meet (`per_fiber`: ``length_mm``, ``riemannian_length_mm`` at unit diffusivity 1e-3
        mm^2/s, ``miss_mm``, ``launch`` (unit direction)).

    Raises
    ------
    InvalidInput
        If a point is outside the mask, both are the same, or the method is not one of geodesics.

    Examples
    --------
    >>> from napari_gpubio import fibers
    >>> from napari_gpubio.diffusion.phantom.closed_forms import pull_back
    >>> field = pull_back().sample()
    >>> found = fibers.geodesics_between(field, (-20, -5, -5), (15, 5, 5), fibers.Hamiltonian(fa_stop=0.0))
    >>> len(found)
    1
    """
    settings = exact(settings or Hamiltonian())
    a, b = _checked(field, a_mm, b_mm, settings)
    aims = _near_misses(field, a, b, settings, directions)
    solved = solve(field, aims, settings, tolerance_mm=tolerance_mm)
    found = np.flatnonzero(solved.misses_mm <= tolerance_mm)
    found = _distinct(solved, found[np.argsort(solved.places[found], kind="stable")])
    return _fibers(field, a, b, Solutions(*(x[found] for x in solved)), settings)


def _checked(field: TensorField, a_mm: npt.ArrayLike, b_mm: npt.ArrayLike, settings: TensorGeodesic) -> Array:
    if not isinstance(settings, TensorGeodesic):
        raise InvalidInput(f"the method is {kind_of(settings)!r}, which makes no geodesics; choose 'hamiltonian'")
    check_tensors(field)
    points = np.concatenate([checked_points(a_mm), checked_points(b_mm)])
    if len(points) != 2:
        raise InvalidInput(f"{len(points)} points were given; geodesics join one point to one other")
    for point in points:
        check_seed(field, point)
    if np.linalg.norm(points[0] - points[1]) < settings.step_mm:
        raise InvalidInput(f"both points are at {position_text(points[0])}; place them apart by more than a step")
    return points


def _near_misses(field: TensorField, a: Array, b: Array, settings: TensorGeodesic, count: int) -> Aims:
    """Rays of a fan at the places where they come nearest to b, the nearest first."""
    fan = cap_directions(count, np.pi)
    traced = paths(field, np.tile(a, (count, 1)), fan, settings)
    away = np.linalg.norm(traced.points - b, axis=-1)
    middle = away[:, 1:-1]
    inside = np.arange(1, away.shape[1] - 1) < traced.counts[:, None]
    lowest = (middle <= away[:, :-2]) & (middle <= away[:, 2:]) & inside & (middle < np.linalg.norm(a - b) / 2)
    ray, place = np.nonzero(lowest)
    nearest = np.argsort(middle[ray, place], kind="stable")[:_MAX_AIMS]
    ray, place = ray[nearest], place[nearest] + 1
    ends = np.tile(b, (len(ray), 1))
    return Aims(np.tile(a, (len(ray), 1)), fan[ray], place.astype(np.float64), ends)


def _distinct(solved: Solutions, found: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Leave out solutions that are already there: nearly the same launch direction and place."""
    kept = list[int]()
    for n in found:
        cos = solved.directions[kept] @ solved.directions[n]
        apart = np.abs(solved.places[kept] - solved.places[n])
        if not ((cos > np.cos(_SAME_ANGLE)) & (apart < _SAME_PLACE)).any():
            kept.append(int(n))
    return np.array(kept, np.int64)


def _fibers(field: TensorField, a: Array, b: Array, solved: Solutions, settings: TensorGeodesic) -> Tractogram:
    """Solutions as fibers, cut at b and sorted by Riemannian length."""
    traced = paths(field, np.tile(a, (len(solved.places), 1)), solved.directions, settings)
    lengths = np.array([_lengths(field, traced, n, u, settings) for n, u in enumerate(solved.places)]).reshape(-1, 2)
    order = np.argsort(lengths[:, 1], kind="stable")
    lines = [np.vstack([traced.points[n, : int(np.ceil(solved.places[n]))], b]) for n in order]
    return Tractogram(
        points=np.concatenate([np.zeros((0, 3)), *lines]),
        offsets=np.cumsum([0, *map(len, lines)]),
        affine=field.affine,
        shape=field.shape,
        per_fiber={
            "length_mm": lengths[order, 0],
            "riemannian_length_mm": lengths[order, 1],
            "miss_mm": solved.misses_mm[order],
            "launch": solved.directions[order],
        },
    )


def _lengths(field: TensorField, traced: Paths, n: int, end: float, settings: TensorGeodesic) -> tuple[float, float]:
    """Euclidean and Riemannian length of a ray up to a place: Simpson's rule on a spline through its points."""
    from scipy.integrate import simpson
    from scipy.interpolate import CubicSpline

    spline = CubicSpline(np.arange(traced.counts[n]), traced.points[n, : traced.counts[n]])
    u = np.linspace(0.0, end, 8 * int(np.ceil(end)) + 1)
    tangents = spline(u, 1)
    costs = local_costs(field, spline(u), tangents, settings)
    return float(simpson(np.linalg.norm(tangents, axis=1), x=u)), float(simpson(costs, x=u))
