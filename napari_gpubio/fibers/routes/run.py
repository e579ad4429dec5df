"""Connecting two regions: a fan of rays from the one, those that reach the other, and the routes that they take."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import AnyRegion
from napari_gpubio.fibers.crossings import crossing_notes
from napari_gpubio.fibers.directions import Cone, Directions, Principal
from napari_gpubio.fibers.flow.between import routes_steps
from napari_gpubio.fibers.flow.routes_model import FlowRoutes
from napari_gpubio.fibers.flow.run import Directed
from napari_gpubio.fibers.flow.settings import RouteSettings
from napari_gpubio.fibers.kernels.rays.problem import RayProblem, check_tensors
from napari_gpubio.fibers.routes.model import NEAREST_BINS, Routes, Search
from napari_gpubio.fibers.routes.paths import ONE_WAY
from napari_gpubio.fibers.routes.regions import Goal, Misses, ends_of
from napari_gpubio.fibers.routes.scores import distances_from_streamlines, route_scores, weakest_links
from napari_gpubio.fibers.routes.settings import ConnectSettings, Solve
from napari_gpubio.fibers.routes.solver import solve
from napari_gpubio.fibers.run import chunks_of, trace_problem, track
from napari_gpubio.fibers.seeds import Launch, make_launch
from napari_gpubio.fibers.settings import EuDX, Hamiltonian, InTensors, TensorGeodesic, as_method
from napari_gpubio.tractograms.bundles.clusters import cluster
from napari_gpubio.tractograms.model import StopReason, Tractogram

Array = npt.NDArray[Any]
FAN = Cone(count=50, half_angle_deg=45.0)
_CLOSE_ENOUGH_MM = 0.05  # to the center of a target's voxel
_MAX_EUDX = 1000  # classic streamlines that routes are compared with
_SOLVED_TOGETHER = 512
_SAMPLE = 2000  # rays that say why none arrived


def connect_steps(  # noqa: PLR0913 - what a user may know of a run
    field: Directed,
    source: AnyRegion,
    target: AnyRegion,
    settings: ConnectSettings | RouteSettings | None = None,
    directions: Directions | None = None,
    tracking: InTensors | None = None,
    *,
    fods: FodField | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Routes | FlowRoutes]:
    """Find the routes from one region to another, step by step; previews are the fibers that arrived since the last.

    In tensors, rays leave every voxel of the source. Those that reach the target are kept; those that pass near it are
    turned until they meet it. Fibers that run alike make one route. In fixels and FODs, through crossings, it is
    `napari_gpubio.fibers.flow.routes`: best paths in the middle of the flow.

    Parameters
    ----------
    field
        Tensors, fixels, or FODs, of which the peaks are taken.
    source, target
        Where fibers start and end.
    settings
        Seeds, the two-point solver, and what is one route, `ConnectSettings`; in fixels and FODs
        `napari_gpubio.fibers.flow.RouteSettings`.
    directions
        In tensors, the fan of rays at each seed, by default 50 in a cone of 45 degrees around the principal direction;
        where it goes both ways, as many leave the other way. Streamlines (EuDX) have the principal direction alone.
    tracking
        In tensors, method, metric, step and stops; see `napari_gpubio.fibers.settings`.
    fods
        Beside tensors, FODs of the same brain, if there are any: a note then says on which share of the way they have
        two directions.
    device
        Of the rays of the fan, see `napari_gpubio.core.device.choose_device`; the solver runs on the CPU.
    stop
        Set it to stop early; the routes are then those of what was done, and ``complete`` is False.

    Returns
    -------
    Routes or FlowRoutes
        Perhaps none: ``message`` then says why, and what to change. Both have a table with a row for each route.

    Raises
    ------
    InvalidInput
        If a region lies outside the mask, or in the other one, or what is of tensors alone is given with fixels or
        FODs; voxels that both regions hold are left out, which ``notes`` says.

    Examples
    --------
    >>> from napari_gpubio import diffusion, fibers
    >>> from napari_gpubio.diffusion.regions import Sphere
    >>> field = diffusion.fit_tensors(diffusion.phantom.load_brain_phantom())
    >>> left = Sphere(name="left", center_mm=(-8, -5, 22), radius_mm=4)
    >>> right = Sphere(name="right", center_mm=(8, -5, 22), radius_mm=4)
    >>> routes = fibers.connect(field, left, right, device="cpu")
    >>> len(routes) > 0
    True
    """
    in_tensors = not isinstance(field, FodField | FixelField)
    if settings is not None and isinstance(settings, ConnectSettings) != in_tensors:
        needed = "ConnectSettings" if in_tensors else "fibers.flow.RouteSettings"
        raise InvalidInput(f"settings of a {type(field).__name__} are {needed}; {type(settings).__name__} was given")
    if isinstance(field, FodField | FixelField):
        if directions is not None or tracking is not None or fods is not None:
            raise InvalidInput("directions, tracking and fods are of routes in tensors; leave them out")
        how: Any = settings
        return (yield from routes_steps(field, source, target, how, device=device, stop=stop))
    how = settings, directions, tracking
    return (yield from tensor_routes_steps(field, source, target, *how, fods=fods, device=device, stop=stop))


connect = driven(connect_steps)


def tensor_routes_steps(  # noqa: PLR0913 - what a user may know of a run
    field: TensorField,
    source: AnyRegion,
    target: AnyRegion,
    settings: ConnectSettings | None = None,
    directions: Directions | None = None,
    tracking: InTensors | None = None,
    *,
    fods: FodField | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Routes]:
    """Find the routes from one region to another in tensors; see `connect_steps`.

    Rays leave every voxel of the source. Those that reach the target are kept; those that pass near it are turned
    until they meet it. Fibers that run alike make one route.
    """
    settings, tracking = settings or ConnectSettings(), tracking or Hamiltonian()
    if tracking.points_every != 1:
        raise InvalidInput(f"every {tracking.points_every}th point is kept; connections need all, so choose 1")
    check_tensors(field)
    chosen, stop = choose_device(device), stop or threading.Event()
    ends = ends_of(field, source, target, settings.per_voxel)
    launch = make_launch(field, ends.seeds_mm, tracking.directions(directions, FAN)).one_way()
    problem = RayProblem(field, launch, dataclasses.replace(tracking, min_length_mm=0.0), target=ends.target)
    found = _Found(problem, ends.goal, settings, chosen)
    done = 0
    for done, fresh in chunks_of(found.filtered(), chosen, stop):
        found.near += [piece.which for piece in fresh]
        yield Step(done, len(launch), "tracing fibers").showing([piece.fibers for piece in fresh])
    found.launched = done
    yield from found.trace_near()
    if isinstance(settings.near_misses, Solve) and isinstance(tracking, TensorGeodesic):
        yield from found.solve(stop)
    yield Step(0, 1, "comparing routes")
    complete = done == len(launch) and not stop.is_set()
    routes = _routes(found, (source.name, target.name), tracking)
    crossings = crossing_notes(routes.tractogram, fods, chosen)
    return dataclasses.replace(routes, complete=complete, notes=(*ends.notes, *crossings))


class _Found:
    """What the rays of a fan lead to.

    Most rays go elsewhere and leave nothing behind: those that come near the target are filtered out first, where they
    are traced, and only those are traced again with all their points.
    """

    def __init__(self, problem: RayProblem, goal: Goal, settings: ConnectSettings, device: Device) -> None:
        self.problem, self.settings, self.device = problem, settings, device
        self.near = list[Array]()  # indices of rays
        self.arrived = list[Tractogram]()
        self.launched, self.turned, self.solved = 0, 0, 0
        self._goal, self._misses = goal, Misses.none()
        self.seeds_mm = np.unique(problem.launch.points_mm, axis=0)
        near = settings.near_misses
        self._near = near if isinstance(near, Solve) else Solve()  # of which only numbers are reported
        self._per_seed = len(problem.launch) // len(self.seeds_mm)

    def filtered(self) -> RayProblem:
        """The problem of finding the rays that come near the target."""
        return dataclasses.replace(self.problem, target=self._goal.within(self._near.near_mm), only_target=True)

    def trace_near(self) -> Generator[Step, None, None]:
        """Trace those that come near with all their points: they arrive, or miss the target."""
        rays = np.sort(np.concatenate([np.zeros(0, np.int64), *self.near]))
        fibers = self._traced(rays)
        hits = fibers.per_fiber["stop_reason"] == StopReason.TARGET
        self._misses = self._goal.misses(fibers.select(~hits)).nearest_of_each_seed(self._near.per_seed)
        self.arrived.append(fibers.select(hits))
        yield Step(len(rays), len(rays), "tracing fibers that come near").showing(self.arrived)

    def solve(self, stop: threading.Event) -> Generator[Step, None, None]:
        """Turn near misses until they meet the target, and trace them again as all others are."""
        near, problem = self._misses, self.problem
        self.turned = len(near.seeds)
        for first in range(0, self.turned, _SOLVED_TOGETHER):
            if stop.is_set():
                return
            part = np.arange(first, min(self.turned, first + _SOLVED_TOGETHER))
            aims = near.aims.of(part)
            solved = solve(problem.field, aims, problem.geodesic, tolerance_mm=_CLOSE_ENOUGH_MM, iterations=12)
            good = solved.misses_mm <= _CLOSE_ENOUGH_MM
            launch = Launch(aims.starts_mm[good], solved.directions[good], ONE_WAY)
            again = trace_problem(dataclasses.replace(problem, launch=launch, only_target=True), self.device)
            fibers = _numbered(again, near.seeds[part[good]][again.per_fiber["seed"]], solved=1)
            self.arrived.append(fibers)
            self.solved += len(fibers)
            yield Step(int(part[-1]) + 1, self.turned, "solving near misses").showing([fibers])

    def search(self) -> Search:
        """What became of the rays; if none arrived, a sample of them says why."""
        seeds = len(self.seeds_mm)
        counted = Search(seeds=seeds, launched=self.launched, near_misses=self.turned, solved=self.solved)
        if any(len(fibers) for fibers in self.arrived) or not self.launched:
            return counted
        some = np.unique(np.linspace(0, self.launched - 1, min(self.launched, _SAMPLE)).astype(np.int64))
        fibers = self._traced(some)
        nearest = self._goal.misses(fibers).misses_mm
        reasons, counts = np.unique(fibers.per_fiber["stop_reason"], return_counts=True)
        return dataclasses.replace(
            counted,
            sampled=len(some),
            stops={StopReason(int(reason)): int(n) for reason, n in zip(reasons, counts, strict=True)},
            nearest_mm=np.bincount(np.minimum(nearest, NEAREST_BINS).astype(int), minlength=NEAREST_BINS + 1),
            closest_mm=float(nearest.min(initial=np.inf)),
        )

    def _traced(self, rays: npt.NDArray[np.int64]) -> Tractogram:
        fibers = trace_problem(dataclasses.replace(self.problem, launch=self.problem.launch.some(rays)), self.device)
        return _numbered(fibers, rays[fibers.per_fiber["seed"]] // self._per_seed)


def _numbered(fibers: Tractogram, seeds: Array, solved: int = 0) -> Tractogram:
    """Say from which seed of the source fibers come, and whether the solver made them."""
    return dataclasses.replace(
        fibers, per_fiber=dict(fibers.per_fiber) | {"seed": seeds, "solved": np.full(len(fibers), solved, np.uint8)}
    )


def _routes(found: _Found, names: tuple[str, str], tracking: InTensors) -> Routes:
    """Group the fibers that arrived, and score each group."""
    field, settings, fibers = found.problem.field, found.settings, Tractogram.join(found.arrived)
    fibers = fibers.select(fibers.per_fiber["length_mm"] >= tracking.min_length_mm)
    distances = distances_from_streamlines(fibers, _classic(found, tracking))
    score = route_scores(fibers.per_fiber["alignment_fa"], distances)
    groups = cluster(fibers, settings.route_distance_mm, directed=True)
    order = np.lexsort((-score, groups.labels))
    best = order[np.searchsorted(groups.labels[order], np.arange(len(groups)))]
    ranked = np.argsort(-score[best], kind="stable")
    listed, rank = ranked[: settings.max_routes], np.zeros(len(groups), np.int64)
    rank[listed] = np.arange(1, len(listed) + 1)
    numbers: dict[str, Array] = {"route": rank[groups.labels], "score": score, "eudx_distance_mm": distances}
    return Routes(
        source=names[0],
        target=names[1],
        tractogram=dataclasses.replace(fibers, per_fiber=dict(fibers.per_fiber) | numbers),
        best=best[listed],
        counts=groups.counts[listed],
        weakest_link=weakest_links(field, fibers.select(best[listed]), _geodesic(tracking)),
        unlisted=len(groups) - len(listed),
        search=found.search(),
    )


def _geodesic(tracking: InTensors) -> TensorGeodesic:
    """Settings that have a metric, also of streamlines."""
    return tracking if isinstance(tracking, TensorGeodesic) else as_method(Hamiltonian, tracking)


def _classic(found: _Found, tracking: InTensors) -> Tractogram:
    """EuDX from some of the seeds, evenly chosen."""
    some = found.seeds_mm[:: -(-len(found.seeds_mm) // _MAX_EUDX)]
    settings = dataclasses.replace(as_method(EuDX, tracking), points_every=2)
    return track(found.problem.field, some, Principal(), settings, device=found.device)
