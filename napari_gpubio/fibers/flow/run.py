"""The flow of fibers between regions: one sparse matrix of a field, by which the mass of each region is moved."""

import dataclasses
import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs, how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.run import find_peaks
from napari_gpubio.diffusion.fods.settings import PeakSettings
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import AnyRegion, Atlas
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map, principal_direction
from napari_gpubio.fibers.flow.gates import nodes_through, passing
from napari_gpubio.fibers.flow.model import Flow
from napari_gpubio.fibers.flow.nodes import FixelNodes, nodes_of
from napari_gpubio.fibers.flow.regions import Placed, place_regions
from napari_gpubio.fibers.flow.settings import FlowSettings
from napari_gpubio.fibers.kernels.transport.problem import Spread, TransportProblem

Array = npt.NDArray[Any]
Directed = FixelField | FodField | TensorField
PEAKS = PeakSettings()


def flow_steps(
    field: Directed,
    regions: Atlas | Sequence[AnyRegion],
    settings: FlowSettings | None = None,
    *,
    include: Sequence[AnyRegion] = (),
    exclude: Sequence[AnyRegion] = (),
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Flow]:
    """Let mass flow from each region along the fixels, step by step: all paths at once, without sampling.

    Parameters
    ----------
    field
        Fixels; or FODs, of which the peaks are taken; or tensors, each as one fixel of its FA.
    regions
        An atlas, all labels of which are regions, or some regions, which may overlap; their labels are then 1, 2, ...
    settings
        Step, angles, and which fixels count.
    include
        Gates, at most three: what is counted passes each of them on its way between two regions, in any order. Those
        that begin or end in a gate pass it. Each gate doubles the time.
    exclude
        Regions that mass may not enter. A wall of one voxel stops it.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; rows of regions that were not reached are NaN, and ``complete`` is False.

    Returns
    -------
    Flow
        Matrices of the regions, and the density of the routes between any two. The same bits for any number of threads
        and chunks, and for any order in which the arrays are stored.

    Raises
    ------
    InvalidInput
        If a region is empty or has no fixels outside of what is excluded, it is not known how regions lie to the
        fixels, or there are more than three gates.
    OutOfGpuMemory
        If a GPU has too little memory.

    Examples
    --------
    >>> from napari_gpubio import fibers
    >>> from napari_gpubio.diffusion.phantom.crossings import crossing
    >>> from napari_gpubio.diffusion.regions import Sphere
    >>> places = {"west": (-14, 0, 0), "east": (14, 0, 0), "north": (7, 12, 0)}
    >>> regions = [Sphere(name=name, center_mm=place, radius_mm=3) for name, place in places.items()]
    >>> found = fibers.flow.flow(crossing(60).fixels, regions, device="cpu")
    >>> [name for label, name, score in found.ranked(1)]
    ['east', 'north']
    """
    settings, chosen, clock = settings or FlowSettings(), choose_device(device), RunClock()
    yield Step(0, 1, "finding how mass moves")
    fixels = fixels_of(field, chosen)
    ways = nodes_through(fixels, settings, include, exclude)
    placed = place_regions(fixels, ways[0][1], regions, settings.step_voxels)
    flow, *others = yield from _moved(field, placed, [nodes for _, nodes in ways], settings, fixels.cache, chosen, stop)
    if others:
        flow = passing(flow, [(sign, other) for (sign, _), other in zip(ways[1:], others, strict=True)])
    named = {"include": [one.name for one in include], "exclude": [one.name for one in exclude]}
    made = {"flow": plain_fields(settings), **{name: names for name, names in named.items() if names}}
    return dataclasses.replace(flow, parameters=how_made(chosen, clock.seconds, **made))


flow = driven(flow_steps)


def _moved(
    field: Directed,
    placed: Placed,
    ways: list[FixelNodes],
    settings: FlowSettings,
    cache: Any,
    device: Device,
    stop: threading.Event | None,
) -> Generator[Step, None, list[Flow]]:
    """The flow on each of several nodes."""
    flows = list[Flow]()
    for nodes in ways:
        problem = TransportProblem(nodes, settings, placed.members, cache)
        with Runs(problem, device) as runs:
            yield from runs.steps("moving what avoids gates" if flows else "moving mass along fixels", stop)
            parts = sorted(runs.take(), key=lambda part: part.start)
            flows.append(flow_of(field, problem, placed, parts, runs.each[0].ended, {}))
    return flows


def fixels_of(field: Directed, device: Device) -> FixelField:
    """Return fixels themselves, the peaks of FODs, or a fixel for each tensor, which the field keeps.

    InvalidInput if it is something else.
    """
    if isinstance(field, FixelField):
        return field
    if isinstance(field, FodField):
        return field.cache.get(("flow peaks",), lambda: find_peaks(field, PEAKS, device=device))
    if isinstance(field, TensorField):
        return field.cache.get(("flow fixels",), lambda: _of_tensors(field))
    raise InvalidInput(f"fibers flow along fixels, FODs or tensors, and a {type(field).__name__} was given")


def _of_tensors(field: TensorField) -> FixelField:
    amplitudes = np.where(field.mask, fa_map(field), 0.0)
    return FixelField.from_dense(
        principal_direction(field)[..., np.newaxis, :], amplitudes[..., np.newaxis], field.affine
    )


def transport_problem(
    fixels: FixelField, regions: Atlas | Sequence[AnyRegion], settings: FlowSettings
) -> tuple[TransportProblem, Placed]:
    """Return what the backends do, and the regions on the grid of the fixels."""
    nodes = nodes_of(fixels, settings.least_amplitude)
    placed = place_regions(fixels, nodes, regions, settings.step_voxels)
    return TransportProblem(nodes, settings, placed.members, fixels.cache), placed


def needed_memory(
    field: FixelField,
    regions: Atlas | Sequence[AnyRegion],
    settings: FlowSettings | None = None,
    *,
    include: Sequence[AnyRegion] = (),
    exclude: Sequence[AnyRegion] = (),
    device: str | Device = "auto",
) -> Memory:
    """Memory that `flow` takes besides the fixels, at most; arguments are those of `flow_steps`.

    Its visits are as many as if the mass of each region reached all fixels; in brains they are a tenth of that.
    """
    problem, _ = transport_problem(field, regions, settings := settings or FlowSettings())
    visits = problem.items * problem.nodes.count
    ways = nodes_through(field, settings, include, exclude)
    walled = dataclasses.replace(problem, nodes=ways[0][1])
    return dataclasses.replace(walled.memory(choose_device(device)), results=4 * (1 + len(ways)) * visits)


def flow_of(
    field: Directed, problem: TransportProblem, placed: Placed, parts: list[Spread], ended: Any, made: dict[str, Any]
) -> Flow:
    """Put together what runs have made, by their first regions; those that were not reached are NaN."""
    count = problem.items
    arrived, rest = np.full((count, count), np.nan), np.full(count, np.nan)
    lengths, there = np.zeros(count, np.int64), np.zeros(count, bool)
    for part in parts:
        rows = slice(part.start, part.start + len(part.rest))
        arrived[rows], rest[rows], there[rows] = part.arrivals, part.rest, True
        lengths[rows] = np.diff(part.offsets)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    overlaps = parts[0].overlaps if len(parts) == 1 else None
    visited, masses = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32)
    while parts:  # each goes once it is copied: together they take as much memory again
        part = parts.pop()
        rows = slice(offsets[part.start], offsets[part.start + len(part.rest)])
        visited[rows], masses[rows] = part.nodes, part.masses
    if overlaps is None:
        from napari_gpubio.fibers.kernels.transport.cpu import overlaps_of

        overlaps = overlaps_of((offsets, visited, masses), problem.nodes.strengths)
        overlaps[~there], overlaps[:, ~there] = np.nan, np.nan
    return Flow(
        labels=placed.labels,
        names=placed.names,
        voxels=np.array([len(voxels) for voxels in placed.voxels], np.int64),
        overlaps=overlaps,
        arrived=arrived,
        complete=bool(there.all()),
        notes=placed.notes,
        parameters=made,
        affine=field.affine,
        shape=field.shape,
        nodes=problem.nodes,
        offsets=offsets,
        visited=visited,
        masses=masses,
        ended=ended,
        rest=rest,
        step_mm=problem.step_mm,
        max_length_mm=problem.steps * problem.step_mm,
    )
