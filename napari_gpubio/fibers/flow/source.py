"""The flow from one source after another to the regions of an atlas: which it reaches, live while it is moved."""

import dataclasses
import functools
import hashlib
import threading
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.drivers import Runs, how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.steps import Step, drive, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.regions import AnyRegion, Atlas, Region
from napari_gpubio.fibers.flow.gates import nodes_through, passing
from napari_gpubio.fibers.flow.model import LEAST_PASSING, Flow
from napari_gpubio.fibers.flow.nodes import FixelNodes
from napari_gpubio.fibers.flow.regions import Placed, place_regions, place_source
from napari_gpubio.fibers.flow.run import Directed, fixels_of, flow_of, flow_steps
from napari_gpubio.fibers.flow.settings import FlowSettings
from napari_gpubio.fibers.kernels.transport.problem import TransportProblem

Array = npt.NDArray[Any]


class Reached(NamedTuple):
    """What a source has to do with a region.

    ``rank``: from 1 on; 0 of a region that the source lies in, whose numbers mean nothing. ``overlap``: of both flows
    over the root of the totals of both; NaN where the flows of the regions are not known. ``arrivals``: share of the
    mass of the source that enters the region from outside.
    """

    rank: int
    label: int
    region: str
    overlap: float
    arrivals: float


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Ground:
    """What sources flow on, and the regions that they are compared by.

    Parameters
    ----------
    fixels
        That mass moves on.
    settings
        How it moves.
    ways
        Its nodes with walls, and with gates shut, and their signs; see `nodes_through`.
    placed
        The regions, or None.
    flow
        Mass that left the regions; None: it is not known, and sources are ranked by arrivals.
    """

    fixels: FixelField
    settings: FlowSettings
    ways: tuple[tuple[int, FixelNodes], ...]
    placed: Placed | None = None
    flow: Flow | None = None

    @property
    def nodes(self) -> FixelNodes:
        """Fixels that are strong enough."""
        return self.ways[0][1]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the regions."""
        return () if self.placed is None else self.placed.names

    @functools.cached_property
    def between(self) -> npt.NDArray[np.float64]:
        """Overlaps of each two regions, not divided by totals, shape (R, R)."""
        assert self.flow is not None
        return np.nan_to_num(self.flow.matrix("plain_overlap"))

    @functools.cached_property
    def visits(self) -> Any:
        """Visits of the regions by node."""
        from napari_gpubio.fibers.kernels.transport.cpu import VisitLists

        assert self.flow is not None
        return VisitLists.of((self.flow.offsets, self.flow.visited, self.flow.masses), self.nodes.count)

    def overlaps_with(self, source: Flow) -> npt.NDArray[np.float64]:
        """Overlaps of the flow of a source and those of the regions, through all gates, shape (R,)."""
        flow, strengths = self.flow, self.nodes.strengths
        assert flow is not None
        if not source.avoiding:
            own = source.offsets, source.visited, source.masses
            return np.asarray(self.visits.overlaps(own, strengths, len(flow))[0])
        reverse = flow.visited ^ 1
        every = source.visits(1)[reverse] * flow.masses
        passing = every.copy()
        for (sign, masses), (_, own_masses) in zip(flow.avoiding, source.avoiding, strict=True):
            there = np.zeros(self.nodes.count)
            there[source.visited] = own_masses
            passing += sign * there[reverse] * masses
        passing[passing <= LEAST_PASSING * every] = 0.0
        parts = strengths[flow.visited >> 1] * np.sqrt(passing)
        owners = np.repeat(np.arange(len(flow)), np.diff(flow.offsets))
        return np.asarray(np.bincount(owners, parts, minlength=len(flow)), np.float64)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SourceFlow(Tabular):
    """Mass that left a source, and the regions that it reaches.

    Numbers of the regions can be compared with each other, not with those of other sources.

    Parameters
    ----------
    flow
        Of the source alone, whose label is 1: its mass, where it ends, and where it is lost.
    ground
        What it flowed on, and the regions, if there are any.
    arrived
        Share of the mass that enters each region from outside, shape (R,).
    starts
        Fixels of the source.
    around
        Whether the source lies in each region, in part at least, shape (R,).
    overlaps
        Of the flow of the source and that of each region, shape (R,); None where these are not known.
    """

    flow: Flow
    ground: Ground
    arrived: npt.NDArray[np.float64]
    starts: npt.NDArray[np.int32]
    around: npt.NDArray[np.bool_]
    overlaps: npt.NDArray[np.float64] | None

    @property
    def name(self) -> str:
        """Name of the source."""
        return self.flow.names[0]

    @functools.cached_property
    def center_mm(self) -> npt.NDArray[np.float64]:
        """World position of the middle of the source."""
        field, voxels = self.flow.nodes.field, np.unique(self.flow.nodes.voxels[self.starts])
        middle = np.stack(np.unravel_index(voxels, field.shape), axis=1).mean(axis=0)
        return apply_affine(field.affine, middle)

    @property
    def complete(self) -> bool:
        """Whether the flows of all regions are known, by which they are ranked best."""
        return self.ground.placed is None or self.overlaps is not None

    @property
    def affine(self) -> npt.NDArray[np.float64]:
        """Voxel to world, mm, of the maps."""
        return self.flow.affine

    @property
    def mass(self) -> npt.NDArray[np.float32]:
        """Mass that went through each voxel after it had passed all gates, on the grid of the field."""
        flow = self.flow
        passing = flow.masses.astype(np.float64) + sum(sign * masses for sign, masses in flow.avoiding)
        return flow.volume_of(flow.nodes.voxels[flow.visited >> 1], np.maximum(passing, 0.0))

    @functools.cached_property
    def scores(self) -> npt.NDArray[np.float64]:
        """What regions are ranked by: overlaps over totals or, where these are not known, arrivals; shape (R,)."""
        if self.overlaps is None:
            return self.arrived
        others = np.where(self.around, 0.0, self.overlaps)
        totals = self.ground.between @ ~self.around + others  # of a region: with all others, and with the source
        return np.asarray(others / np.sqrt(np.maximum(others.sum() * totals, 1e-30)))

    def ranked(self) -> list[Reached]:
        """Return the regions, that with the largest score first; those around the source last."""
        placed = self.ground.placed
        if placed is None:
            return []
        scores = np.where(self.around, -1.0, np.nan_to_num(self.scores))
        order, found = np.argsort(-scores, kind="stable"), list[Reached]()
        ranks = np.searchsorted(-scores[order], -scores, side="left") + 1
        for n in order:
            overlap = float("nan") if self.overlaps is None or self.around[n] else float(self.scores[n])
            arrivals = float("nan") if self.around[n] else float(self.arrived[n])
            rank = 0 if self.around[n] else int(ranks[n])
            found.append(Reached(rank, int(placed.labels[n]), placed.names[n], overlap, arrivals))
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the numbers, in sentences."""
        notes = [*self.flow.notes]
        if self.around.any():
            inside = [self.ground.names[n] for n in np.flatnonzero(self.around)]
            notes.append(f"The source lies in {', '.join(inside)}, so that is not ranked.")
        if not self.complete:
            notes.append("Ranked by arrivals, since the flows of the regions are not known yet.")
        notes.append(f"Mass moves in steps of {self.flow.step_mm:.3g} mm, up to {self.flow.max_length_mm:.0f} mm.")
        return tuple(notes)

    @property
    def message(self) -> str:
        """What was found, in a sentence; where the mass ended if it reached nothing."""
        best = [one for one in self.ranked() if one.rank and one.arrivals > 0][:3]
        if best:
            return f"{self.name} reaches {', '.join(one.region for one in best)} first."
        return f"What became of the mass of {self.name}: {self.flow.endings_text(1)}."

    def fixel_density(self, label: int) -> npt.NDArray[np.float64]:
        """Density of the routes from the source to a region at each fixel of its nodes, shape (F,).

        See `Flow.fixel_density`. InvalidInput if there is no such label, or the flows of the regions are not known.
        """
        flow = self.ground.flow
        if flow is None:
            raise InvalidInput("the flows of the regions are not known yet; wait until they are, or find routes")
        place, own = flow.place_of(label), self.flow
        rows = slice(int(flow.offsets[place]), int(flow.offsets[place + 1]))
        ways = zip(((1, own.masses), *own.avoiding), ((1, flow.masses), *flow.avoiding), strict=True)
        every, *others = (
            sign * self._on_nodes(own.visited, mine) * self._on_nodes(flow.visited[rows] ^ 1, theirs[rows])
            for (sign, mine), (_, theirs) in ways
        )
        passing = every + sum(others)
        if others:
            passing[passing <= LEAST_PASSING * every] = 0.0
        return np.asarray(passing.reshape(-1, 2).sum(axis=1))

    def _on_nodes(self, nodes: Array, masses: Array) -> npt.NDArray[np.float64]:
        mass = np.zeros(self.ground.nodes.count)
        mass[nodes] = masses
        return mass

    def density(self, label: int) -> npt.NDArray[np.float32]:
        """Density of the routes from the source to a region, the largest 1, on the grid of the field."""
        volume = self.flow.volume_of(self.flow.nodes.voxels, self.fixel_density(label))
        return volume / max(float(volume.max(initial=0.0)), 1e-30)


def ground_of(
    field: FixelField,
    atlas: Atlas | None,
    settings: FlowSettings,
    include: Sequence[AnyRegion] = (),
    exclude: Sequence[AnyRegion] = (),
) -> Ground:
    """Return what sources flow on, while the flows of regions are not known; see `source_flow_steps`."""
    ways = tuple(nodes_through(field, settings, include, exclude))
    placed = None if atlas is None else place_regions(field, ways[0][1], atlas, settings.step_voxels)
    return Ground(fixels=field, settings=settings, ways=ways, placed=placed)


def ground_steps(
    field: FixelField,
    atlas: Atlas | None,
    settings: FlowSettings,
    device: Device,
    stop: threading.Event | None,
    include: Sequence[AnyRegion] = (),
    exclude: Sequence[AnyRegion] = (),
) -> Generator[Step, None, Ground]:
    """Return what sources flow on, with the flows of all regions; the fixels keep it, unless the run is stopped."""
    contents = *map(_content, (() if atlas is None else (atlas,))), *map(_content, include), *map(_content, exclude)
    key = "ground", contents, len(include), settings, device.kind
    known: Ground | None = field.cache.get(key, lambda: None)
    if known is not None:
        return known
    ground = ground_of(field, atlas, settings, include, exclude)
    if atlas is not None:
        walls: dict[str, Any] = {"include": include, "exclude": exclude}
        flow = yield from flow_steps(field, atlas, settings, **walls, device=device, stop=stop)
        if not flow.complete:
            return ground
        ground = dataclasses.replace(ground, flow=flow)
    field.cache.keep(key, ground)
    return ground


def _content(region: Atlas | AnyRegion) -> str:
    """Checksum of what a region or an atlas is."""
    if isinstance(region, Atlas):
        parts = region.labels.tobytes(), region.affine.tobytes(), repr(sorted(region.names.items())).encode()
    elif isinstance(region, Region):
        parts = region.voxels.tobytes(), region.affine.tobytes(), region.name.encode()
    else:
        parts = repr(region).encode(), b"", b""
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()


def move_from(ground: Ground, source: AnyRegion) -> SourceFlow:
    """Move the mass of one source, on the CPU, which takes less time for one than a GPU: what follows a drag.

    Parameters
    ----------
    ground
        What it flows on.
    source
        Where mass leaves.

    Raises
    ------
    InvalidInput
        If the source is empty or has no fixels.
    """
    clock, field, settings = RunClock(), ground.fixels, ground.settings
    placed, own = place_source(field, ground.nodes, source, ground.placed)
    flows, arrived = list[Flow](), np.zeros(len(ground.names))
    for sign, nodes in ground.ways:
        problem = TransportProblem(nodes, settings, placed.members, field.cache, sources=(own,))
        with Runs(problem, CPU) as runs:
            drive(runs.steps("moving mass along fixels", None))
            (part,) = runs.take()
            ended = runs.each[0].ended
        alone = part._replace(arrivals=np.zeros((1, 1)), overlaps=np.zeros((1, 1)))
        flows.append(flow_of(field, problem, placed, [alone], ended, {}))
        if ground.placed is not None:
            arrived += sign * part.arrivals[0]
    flow = dataclasses.replace(flows[0], parameters=how_made(CPU, clock.seconds, flow=plain_fields(settings)))
    if len(flows) > 1:
        flow = passing(flow, [(sign, other) for (sign, _), other in zip(ground.ways[1:], flows[1:], strict=True)])
    around = np.zeros(len(ground.names), bool)
    if ground.placed is not None:
        around[placed.members.regions_of(own)] = True
    overlaps = None if ground.flow is None else ground.overlaps_with(flow)
    reached = np.maximum(arrived, 0.0)
    return SourceFlow(flow=flow, ground=ground, arrived=reached, starts=own, around=around, overlaps=overlaps)


def source_flow_steps(
    field: Directed,
    source: AnyRegion,
    atlas: Atlas | None = None,
    settings: FlowSettings | None = None,
    *,
    include: Sequence[AnyRegion] = (),
    exclude: Sequence[AnyRegion] = (),
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, SourceFlow]:
    """Let mass flow from a source, and rank the regions of an atlas by what they have to do with it, step by step.

    The flows of the regions take most of the time; the fixels keep them, so that further sources take a moment.

    Parameters
    ----------
    field
        Fixels; or FODs, of which the peaks are taken; or tensors, each as one fixel of its FA.
    source
        Where mass leaves: a region, or a sphere.
    atlas
        Its labels are the regions; None: there are none.
    settings
        Step, angles, and which fixels count.
    include, exclude
        Gates that are passed, and regions that may not be entered, as for `napari_gpubio.fibers.flow.flow`.
    device
        Of the flows of the regions, see `napari_gpubio.core.device.choose_device`; the source is moved on the CPU.
    stop
        Set it to stop early; regions are then ranked by arrivals where the flows of some are missing.

    Returns
    -------
    SourceFlow
        Mass everywhere, and the ranked regions.

    Raises
    ------
    InvalidInput
        If the source or all regions have no fixels, or it is not known how they lie to the fixels.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import fibers
    >>> from napari_gpubio.diffusion.phantom.crossings import crossing
    >>> from napari_gpubio.diffusion.regions import Atlas, Sphere
    >>> fixels = crossing(60).fixels
    >>> labels = np.zeros(fixels.shape, np.uint8)
    >>> labels[-6:] = 1
    >>> labels[:, -6:] = 2
    >>> atlas = Atlas(labels=labels, affine=fixels.affine, names={1: "east", 2: "north"})
    >>> west = Sphere(name="west", center_mm=(-14, 0, 0), radius_mm=3)
    >>> [one.region for one in fibers.flow.source_flow(fixels, west, atlas, device="cpu").ranked()]
    ['east', 'north']
    """
    settings, chosen = settings or FlowSettings(), choose_device(device)
    yield Step(0, 1, "finding how mass moves")
    fixels = fixels_of(field, chosen)
    ground = yield from ground_steps(fixels, atlas, settings, chosen, stop, include, exclude)
    yield Step(0, 1, "moving the mass of the source")
    return move_from(ground, source)


source_flow = driven(source_flow_steps)
