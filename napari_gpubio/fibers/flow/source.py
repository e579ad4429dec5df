"""The flow from one source after another to the regions of an atlas: which it reaches, live while it is moved."""

import dataclasses
import functools
import hashlib
import threading
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs, how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.steps import Step, drive, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.regions import AnyRegion, Atlas
from napari_gpubio.fibers.flow.model import Flow
from napari_gpubio.fibers.flow.nodes import FixelNodes, nodes_of
from napari_gpubio.fibers.flow.regions import Placed, place_regions
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
class Targets:
    """Regions that sources are compared by, on the grid of fixels.

    Parameters
    ----------
    fixels
        That mass moves on.
    settings
        How it moves.
    placed
        The regions.
    flow
        Mass that left them; None: it is not known, and sources are ranked by arrivals.
    """

    fixels: FixelField
    settings: FlowSettings
    placed: Placed
    flow: Flow | None = None

    @property
    def nodes(self) -> FixelNodes:
        """Fixels that are strong enough."""
        return nodes_of(self.fixels, self.settings.least_amplitude)

    @functools.cached_property
    def totals(self) -> npt.NDArray[np.float64]:
        """Overlaps of each region with all others, shape (R,)."""
        assert self.flow is not None
        return np.asarray(np.nansum(self.flow.matrix("plain_overlap"), axis=1))

    @functools.cached_property
    def visits(self) -> Any:
        """Visits of the regions by node."""
        from napari_gpubio.fibers.kernels.transport.cpu import VisitLists

        assert self.flow is not None
        return VisitLists.of((self.flow.offsets, self.flow.visited, self.flow.masses), self.nodes.count)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SourceFlow:
    """Mass that left a source, and the regions that it reaches.

    Numbers of the regions can be compared with each other, not with those of other sources.

    Parameters
    ----------
    flow
        Of the source alone, whose label is 1: its mass, where it ends, and where it is lost.
    targets
        The regions; None: there are none.
    arrived
        Share of the mass that enters each region from outside, shape (R,).
    around
        Whether the source lies in each region, in part at least, shape (R,).
    overlaps
        Of the flow of the source and that of each region, shape (R,); None where these are not known.
    """

    flow: Flow
    targets: Targets | None
    arrived: npt.NDArray[np.float64]
    around: npt.NDArray[np.bool_]
    overlaps: npt.NDArray[np.float64] | None

    @property
    def name(self) -> str:
        """Name of the source."""
        return self.flow.names[0]

    @property
    def complete(self) -> bool:
        """Whether the flows of all regions are known, by which they are ranked best."""
        return self.targets is None or (self.targets.flow is not None and self.targets.flow.complete)

    @property
    def affine(self) -> npt.NDArray[np.float64]:
        """Voxel to world, mm, of the maps."""
        return self.flow.affine

    @property
    def mass(self) -> npt.NDArray[np.float32]:
        """Mass that went through each voxel, on the grid of the field."""
        return self.flow.mass(1)

    @functools.cached_property
    def scores(self) -> npt.NDArray[np.float64]:
        """What regions are ranked by: overlaps over totals or, where these are not known, arrivals; shape (R,)."""
        if self.targets is None or self.overlaps is None:
            return self.arrived
        others = np.where(self.around, 0.0, self.overlaps)
        return np.asarray(others / np.sqrt(np.maximum(np.nansum(others) * self.targets.totals, 1e-30)))

    def ranked(self) -> list[Reached]:
        """Return the regions, that with the largest score first; those around the source last."""
        if self.targets is None:
            return []
        placed, scores = self.targets.placed, np.where(self.around, -1.0, np.nan_to_num(self.scores))
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
        if self.around.any() and self.targets is not None:
            inside = [self.targets.placed.names[n] for n in np.flatnonzero(self.around)]
            notes.append(f"The source lies in {', '.join(inside)}, so that is not ranked.")
        if self.targets is not None and self.overlaps is None:
            notes.append("Ranked by arrivals, since the flows of the regions are not known yet.")
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
        if self.targets is None or self.targets.flow is None:
            raise InvalidInput("the flows of the regions are not known yet; wait until they are, or find routes")
        density = self.flow.visits(1) * self.targets.flow.visits(label).reshape(-1, 2)[:, ::-1].ravel()
        return np.asarray(density.reshape(-1, 2).sum(axis=1))

    def density(self, label: int) -> npt.NDArray[np.float32]:
        """Density of the routes from the source to a region, the largest 1, on the grid of the field."""
        volume = self.flow.volume_of(self.flow.nodes.voxels, self.fixel_density(label))
        return volume / max(float(volume.max(initial=0.0)), 1e-30)


def targets_of(field: FixelField, atlas: Atlas, settings: FlowSettings) -> Targets:
    """Return the labels of an atlas as targets, whose flows are not known yet; the fixels keep them.

    InvalidInput if no label has fixels, or it is not known how the atlas lies to them.
    """
    key = _key(atlas, settings)

    def place() -> Targets:
        nodes = nodes_of(field, settings.least_amplitude)
        placed = place_regions(field, nodes, atlas, settings.step_voxels)
        return Targets(fixels=field, settings=settings, placed=placed)

    targets: Targets = field.cache.get(("targets", *key), place)
    return targets


def targets_steps(
    field: FixelField, atlas: Atlas, settings: FlowSettings, device: Device, stop: threading.Event | None
) -> Generator[Step, None, Targets]:
    """Return the labels of an atlas as targets with their flows, which the fixels keep unless the run is stopped."""
    key, targets = _key(atlas, settings), targets_of(field, atlas, settings)
    known: Targets | None = field.cache.get(("targets' flows", *key, device.kind), lambda: None)
    if known is None:
        flow = yield from flow_steps(field, atlas, settings, device=device, stop=stop)
        known = dataclasses.replace(targets, flow=flow)
        if flow.complete:
            field.cache.keep(("targets' flows", *key, device.kind), known)
    return known


def _key(atlas: Atlas, settings: FlowSettings) -> tuple[Any, ...]:
    """What targets depend on, besides the fixels; names, too."""
    content = hashlib.blake2b(atlas.labels.tobytes() + atlas.affine.tobytes(), digest_size=16)
    return content.hexdigest(), atlas.labels.shape, tuple(sorted(atlas.names.items())), settings


def move_from(
    field: FixelField, source: AnyRegion, targets: Targets | None, settings: FlowSettings, device: Device
) -> SourceFlow:
    """Move the mass of one source: what follows a drag.

    Parameters
    ----------
    field
        The fixels.
    source
        Where mass leaves.
    targets
        Regions of the same fixels and settings, but for the least mass; None: there are none.
    settings
        Perhaps with a larger least mass, which is faster and coarser.
    device
        A single processor.

    Raises
    ------
    InvalidInput
        If the source is empty or has no fixels.
    """
    clock, nodes = RunClock(), nodes_of(field, settings.least_amplitude)
    placed = place_regions(field, nodes, [source], 0.0)  # thin ones are those that mass arrives in
    members, own = (placed if targets is None else targets.placed).members, placed.members.fixels
    problem = TransportProblem(nodes, settings, members, field.cache, sources=(own,))
    with Runs(problem, device) as runs:
        drive(runs.steps("moving mass along fixels", None))
        (part,) = runs.take()
        ended = runs.each[0].ended
    alone = part._replace(arrivals=np.zeros((1, 1)), overlaps=np.zeros((1, 1)))
    made = how_made(device, clock.seconds, flow=plain_fields(settings))
    flow = flow_of(field, problem, placed, [alone], ended, made)
    arrived, around = part.arrivals[0], np.zeros(problem.regions, bool)
    around[members.regions_of(own)] = True
    if targets is None:
        arrived, around = arrived[:0], around[:0]
    overlaps = None
    if targets is not None and targets.flow is not None:
        overlaps = targets.visits.overlaps((flow.offsets, flow.visited, flow.masses), nodes.strengths, len(arrived))[0]
    return SourceFlow(flow=flow, targets=targets, arrived=arrived, around=around, overlaps=overlaps)


def source_flow_steps(
    field: Directed,
    source: AnyRegion,
    atlas: Atlas | None = None,
    settings: FlowSettings | None = None,
    *,
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
    device
        See `napari_gpubio.core.device.choose_device`.
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
    targets = None if atlas is None else (yield from targets_steps(fixels, atlas, settings, chosen, stop))
    if targets is not None and not (targets.flow is not None and targets.flow.complete):
        targets = dataclasses.replace(targets, flow=None)
    yield Step(0, 1, "moving the mass of the source")
    return move_from(fixels, source, targets, settings, chosen.each[0])


source_flow = driven(source_flow_steps)
