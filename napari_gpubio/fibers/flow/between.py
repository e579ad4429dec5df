"""The routes between two regions, through crossings: best paths in the middle of the flow, with their shares of it."""

import functools
import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import in_mask, nearest_voxels
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.regions import AnyRegion, Region, voxels_on
from napari_gpubio.fibers.flow.model import Flow
from napari_gpubio.fibers.flow.nodes import FixelNodes
from napari_gpubio.fibers.flow.paths import Path, PathSearch, centered, fixel_centers_mm, flow_strengths
from napari_gpubio.fibers.flow.regions import fixels_in
from napari_gpubio.fibers.flow.routes_model import FlowRoutes
from napari_gpubio.fibers.flow.run import Directed, fixels_of, flow_steps
from napari_gpubio.fibers.flow.settings import RouteSettings
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
_SAME_WAY = 0.8  # cosine between a fixel and the route that it belongs to


def routes_steps(
    field: Directed,
    source: AnyRegion,
    target: AnyRegion,
    settings: RouteSettings | None = None,
    *,
    include: Sequence[AnyRegion] = (),
    exclude: Sequence[AnyRegion] = (),
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, FlowRoutes]:
    """Find the routes from one region to another along fixels, step by step, those with most of the flow first.

    Mass flows from both regions; where both flows meet, the other way round, is a route. Best paths are searched there,
    each of the next ones away from those before, and moved to the middle of the flow.

    Parameters
    ----------
    field
        Fixels; or FODs, of which the peaks are taken; or tensors, each as one fixel of its FA.
    source, target
        The regions; voxels of both belong to neither.
    settings
        Of the flow, and which routes are distinct.
    include
        Gates, at most three: routes pass each of them, in any order.
    exclude
        Regions that routes do not enter.
    device
        Of the flow, see `napari_gpubio.core.device.choose_device`; paths are searched on the CPU.
    stop
        Set it to stop early; ``complete`` is then False.

    Returns
    -------
    FlowRoutes
        Perhaps none: ``message`` then says where the mass ended.

    Raises
    ------
    InvalidInput
        If a region has no fixels outside of what is excluded, or lies in the other one, or there are more than three
        gates.

    Examples
    --------
    >>> from napari_gpubio import fibers
    >>> from napari_gpubio.diffusion.phantom.crossings import crossing
    >>> from napari_gpubio.diffusion.regions import Sphere
    >>> west, east = (Sphere(name=n, center_mm=(x, 0, 0), radius_mm=3) for n, x in (("west", -14), ("east", 14)))
    >>> found = fibers.flow.routes(crossing(60).fixels, west, east, device="cpu")
    >>> len(found)
    1
    """
    settings, chosen, stop = settings or RouteSettings(), choose_device(device), stop or threading.Event()
    fixels = fixels_of(field, chosen)
    ends, notes = _apart(fixels, source, target)
    how: dict[str, Any] = {"include": include, "exclude": exclude, "device": chosen, "stop": stop}
    flow = yield from flow_steps(fixels, ends, settings.flow, **how)
    inside = [np.sort(flow.nodes.ordered[np.flatnonzero(region.voxels)]) for region in ends]
    search = PathSearch(flow.nodes, settings, *(_open_in(flow.nodes, voxels) for voxels in inside))
    yield Step(0, 2, "searching for paths")
    density = flow.fixel_density(1, 2)
    usable = flow.nodes.open & ((density > 0) if include else True)
    strengths = np.where(usable, flow_strengths(density) if density.any() else flow.nodes.strengths, 0.0)
    middle = functools.partial(centered, flow.nodes, density)
    gates = [voxels_on(region, fixels.shape, fixels.affine) for region in include]

    def passes(path: Path, line: Array) -> bool:
        places = nearest_voxels(fixels.affine, np.concatenate([path.points_mm, line]))
        return all(in_mask(places, gate).any() for gate in gates)

    paths = (
        []
        if stop.is_set()
        else search.distinct(strengths, settings.max_routes, lambda path: middle(path.points_mm), passes)
    )
    yield Step(1, 2, "searching for paths")
    widest = None if stop.is_set() else search.best(np.where(usable, flow.nodes.strengths, 0.0), widest=True)
    return FlowRoutes(
        source=source.name,
        target=target.name,
        tractogram=_tractogram(flow, search, paths, density, settings),
        widest=np.inf if widest is None else widest[1],
        flow=flow,
        complete=flow.complete and not stop.is_set(),
        notes=(*notes, *flow.notes),
    )


routes = driven(routes_steps)


def _open_in(nodes: FixelNodes, voxels: Array) -> npt.NDArray[np.int32]:
    """Fixels of some voxels that mass may enter."""
    fixels = fixels_in(nodes, voxels)
    return fixels[nodes.open[fixels]]


def _apart(field: FixelField, source: AnyRegion, target: AnyRegion) -> tuple[tuple[Region, Region], tuple[str, ...]]:
    """Both regions as voxels of the field; those of both belong to neither."""
    start, end = (voxels_on(region, field.shape, field.affine) for region in (source, target))
    shared = start & end
    parts = []
    for own, inner, outer in ((start, source, target), (end, target, source)):
        if not own.any():
            raise InvalidInput(f"the region {inner.name!r} lies outside the volume; choose a region in the brain")
        if not (own & ~shared).any():
            raise InvalidInput(f"the region {inner.name!r} lies inside of {outer.name!r}; choose two that are apart")
        oriented = inner.is_oriented if isinstance(inner, Region) else True
        parts.append(Region(name=inner.name, voxels=own & ~shared, affine=field.affine, is_oriented=oriented))
    count = int(np.count_nonzero(shared))
    return (parts[0], parts[1]), (f"{count:,} voxels of both regions are left out.",) if count else ()


def _tractogram(
    flow: Flow, search: PathSearch, paths: list[tuple[Path, Array]], density: Array, settings: RouteSettings
) -> Tractogram:
    """The routes with enough of the flow, the largest share first; all of them where there is no flow."""
    lines = [line for _, line in paths]
    shares = _shares(flow.nodes, density, lines, settings.route_distance_mm)
    order = [n for n in np.argsort(-shares, kind="stable") if shares[n] >= settings.least_share or not density.any()]
    numbers = [search.numbers(paths[n][0]) for n in order]
    lines = [lines[n] for n in order]
    per_fiber: dict[str, Array] = {
        "route": np.arange(1, len(order) + 1),
        "share": shares[order].astype(np.float32),
        "length_mm": np.array([np.linalg.norm(np.diff(line, axis=0), axis=1).sum() for line in lines], np.float32),
    }
    names = ("cost_per_mm", "weakest_link", "sharpest_turn_deg_per_mm", "least_strength")
    per_fiber |= {name: np.array([getattr(one, name) for one in numbers], np.float32) for name in names}
    return Tractogram(
        points=np.concatenate([np.zeros((0, 3)), *lines]).astype(np.float32),
        offsets=np.cumsum([0, *map(len, lines)]),
        affine=flow.affine,
        shape=flow.shape,
        per_fiber=per_fiber,
        parameters=dict(flow.parameters),
    )


def _shares(nodes: FixelNodes, density: Array, lines: list[Array], distance_mm: float) -> npt.NDArray[np.float64]:
    """Share of the flow in the fixels of each line: near enough, nearer than to other lines, and along it."""
    from scipy.spatial import KDTree

    if not lines or not density.any():
        return np.zeros(len(lines))
    owners = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    tangents = np.concatenate([np.gradient(line, axis=0) if len(line) > 1 else np.zeros_like(line) for line in lines])
    tangents /= np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-9)
    there = np.flatnonzero(density)
    away, nearest = KDTree(np.concatenate(lines)).query(fixel_centers_mm(nodes)[there])
    cosines = np.abs((nodes.directions[there] * tangents[nearest]).sum(axis=1))
    belongs = (away <= distance_mm) & (cosines > _SAME_WAY)
    sums = np.bincount(owners[nearest[belongs]], density[there[belongs]], minlength=len(lines))
    return np.asarray(sums / density.sum())
