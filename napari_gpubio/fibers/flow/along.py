"""Fibers along routes: seeded on them, and kept if they follow one from its beginning to its end."""

import dataclasses
import itertools
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings
from napari_gpubio.core.space import lengths_along
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.fibers.directions import FromFod, Principal
from napari_gpubio.fibers.run import track_steps
from napari_gpubio.fibers.seeds import Field
from napari_gpubio.fibers.settings import IFOD2, Method
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlongSettings(Settings):
    """How fibers are seeded along routes, and which of them are kept."""

    seeds_per_mm: float = param(
        10.0, "Seeds", "Fibers that are launched for each mm of a route.", unit="1/mm", above=0.0, maximum=1000.0
    )
    radius_mm: float = param(2.0, "Radius", "Of seeds around the route.", unit="mm", minimum=0.0, maximum=50.0)
    distance_mm: float = param(
        5.0,
        "Distance",
        "Fibers are kept whose mean distance from a route is no more than this, between its ends.",
        unit="mm",
        above=0.0,
        maximum=50.0,
        step=0.5,
    )
    end_distance_mm: float = param(
        10.0,
        "Distance of ends",
        "And that come so near to both of its ends, where bundles spread.",
        unit="mm",
        above=0.0,
        maximum=50.0,
        step=0.5,
    )
    random_seed: int = param(0, "Random seed", "Of the places of seeds.", minimum=0, maximum=2**31, advanced=True)


def fibers_along_steps(
    field: Field,
    routes: Tractogram,
    settings: AlongSettings | None = None,
    method: Method | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Tractogram]:
    """Trace fibers that follow routes, step by step.

    Parameters
    ----------
    field
        FODs, fixels or tensors, of the same world as the routes.
    routes
        A line for each route, as `napari_gpubio.fibers.flow.routes` finds them.
    settings
        Seeds, and how near fibers are to a route.
    method
        How fibers are traced, by default `IFOD2`; see `napari_gpubio.fibers.settings`.
    device, stop
        As for `napari_gpubio.fibers.track`.

    Returns
    -------
    Tractogram
        Whole fibers, with ``route`` (from 1 on) and ``route_distance_mm`` in ``per_fiber`` besides what `track` gives.
        Perhaps none; ``parameters`` tell how many were launched.

    Raises
    ------
    InvalidInput
        If there are no routes, or none lies in the mask of the field.

    Examples
    --------
    >>> from napari_gpubio import fibers
    >>> from napari_gpubio.diffusion.phantom.crossings import crossing
    >>> from napari_gpubio.diffusion.regions import Sphere
    >>> west, east = (Sphere(name=n, center_mm=(x, 0, 0), radius_mm=3) for n, x in (("west", -14), ("east", 14)))
    >>> sample = crossing(60)
    >>> found = fibers.flow.routes(sample.fixels, west, east, device="cpu")
    >>> along = fibers.flow.fibers_along(sample.fods, found.tractogram, device="cpu")
    >>> len(along) > 50
    True
    """
    settings, method = settings or AlongSettings(), method or IFOD2()
    if not len(routes):
        raise InvalidInput("there are no routes that fibers could follow; find routes between two regions first")
    fan = FromFod(count=1) if FromFod in method.takes else Principal()
    fibers = yield from track_steps(field, _seeds(routes, settings), fan, method, device=device, stop=stop)
    nearest, distances = _followed(fibers, routes, settings)
    kept = np.flatnonzero(np.isfinite(distances))
    followed = fibers.select(kept)
    numbers = {"route": (nearest[kept] + 1).astype(np.int32), "route_distance_mm": distances[kept].astype(np.float32)}
    return dataclasses.replace(
        followed, per_fiber={**followed.per_fiber, **numbers}, notes=(*fibers.notes, *_notes(fibers, len(kept)))
    )


fibers_along = driven(fibers_along_steps)


def _notes(fibers: Tractogram, kept: int) -> tuple[str, ...]:
    launched = int(fibers.parameters["launched"])
    if kept:
        return (f"{kept:,} of {launched:,} fibers that were launched follow a route.",)
    return (f"None of {launched:,} fibers follows a route; launch more, or take a larger distance.",)


def _seeds(routes: Tractogram, settings: AlongSettings) -> npt.NDArray[np.float64]:
    """Points around the lines, (S, 3): even along them, and at random in a ball."""
    random, seeds = np.random.default_rng(settings.random_seed), list[Array]()
    for line in routes:
        along = lengths_along(line)
        count = max(1, round(float(along[-1]) * settings.seeds_per_mm))
        at = (np.arange(count) + 0.5) / count * along[-1]
        points = np.stack([np.interp(at, along, np.asarray(line)[:, axis]) for axis in range(3)], axis=1)
        away = random.normal(size=points.shape)
        away *= (settings.radius_mm * random.random((count, 1)) ** (1 / 3)) / np.linalg.norm(
            away, axis=1, keepdims=True
        )
        seeds.append(points + away)
    return np.concatenate(seeds)


def _followed(
    fibers: Tractogram, routes: Tractogram, settings: AlongSettings
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The route that each fiber follows, and its mean distance from it, (F,); infinite where it follows none."""
    from scipy.spatial import KDTree

    nearest, least = np.zeros(len(fibers), np.int64), np.full(len(fibers), np.inf)
    points, offsets = np.asarray(fibers.points, np.float64), fibers.offsets
    for number, line in enumerate(routes):
        away = KDTree(line).query(points)[0]
        ends = [np.linalg.norm(points - np.asarray(line[end], np.float64), axis=1) for end in (0, -1)]
        for fiber, (first, stop) in enumerate(itertools.pairwise(offsets)):
            at = [first + int(end[first:stop].argmin()) for end in ends]
            if max(end[place] for end, place in zip(ends, at, strict=True)) > settings.end_distance_mm:
                continue
            mean = float(away[min(at) : max(at) + 1].mean())
            if mean <= settings.distance_mm and mean < least[fiber]:
                nearest[fiber], least[fiber] = number, mean
    return nearest, least
