"""Fibers that pass gates and avoid what is excluded: exact by inclusion and exclusion, as all mass moves linearly."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.regions import AnyRegion
from napari_gpubio.fibers.flow.model import LEAST_PASSING, Flow
from napari_gpubio.fibers.flow.nodes import EXCLUDED, FixelNodes, Walls, nodes_of
from napari_gpubio.fibers.flow.regions import fixels_in, voxels_of
from napari_gpubio.fibers.flow.settings import FlowSettings

MOST_GATES = 3


def nodes_through(
    fixels: FixelField, settings: FlowSettings, include: Sequence[AnyRegion] = (), exclude: Sequence[AnyRegion] = ()
) -> list[tuple[int, FixelNodes]]:
    """Return nodes with signs, such that what passes all gates is the signed sum of what moves on each of them.

    What passes a gate is all that moves, less what does where the gate is shut; of several gates, each set of them is
    shut once, with the sign of its number. So arrivals are signed sums of arrivals, and the density of routes between A
    and B is the signed sum of the products of both visits. On the first nodes all gates are open. All have the same
    numbers, so that visits can be added; those with gates shut are a part of the first ones. A `TransportProblem` of
    any of them moves mass there; they share what they find of the steps, so keep them while only sources change.

    Parameters
    ----------
    fixels
        That mass moves on.
    settings
        Which of them count.
    include
        Gates: regions each of which must be passed, at most three; mass that begins or ends in one has passed it.
    exclude
        Regions that may not be entered.

    Raises
    ------
    InvalidInput
        If there are too many gates, one has no fixels that may be entered, or it is not known how a region lies to the
        fixels.

    Examples
    --------
    >>> from napari_gpubio.diffusion.phantom.crossings import crossing
    >>> from napari_gpubio.diffusion.regions import Sphere
    >>> from napari_gpubio.fibers.flow import FlowSettings
    >>> middle = Sphere(name="middle", center_mm=(0, 0, 0), radius_mm=3)
    >>> [sign for sign, nodes in nodes_through(crossing(60).fixels, FlowSettings(), [middle])]
    [1, -1]
    """
    nodes = nodes_of(fixels, settings.least_amplitude)
    if len(include) > MOST_GATES:
        raise InvalidInput(f"there are {len(include)} regions to pass; give {MOST_GATES} at most, or join some of them")
    if not include and not exclude:
        return [(1, nodes)]
    marks = np.zeros(len(nodes.given), np.uint8)
    for region in exclude:
        marks[voxels_of(fixels, nodes, region)] |= EXCLUDED
    for n, region in enumerate(include):
        voxels = voxels_of(fixels, nodes, region)
        if not (marks[nodes.voxels[fixels_in(nodes, voxels)]] & EXCLUDED == 0).any():
            outside = " outside of what is excluded" if exclude else ""
            raise InvalidInput(f"the region {region.name!r} has no fixels{outside}, so no fibers pass it; move it")
        marks[voxels] |= np.uint8(EXCLUDED << n + 1)
    whole = Walls(marks=marks, closed=EXCLUDED)
    return [
        (
            -1 if shut.bit_count() % 2 else 1,
            dataclasses.replace(nodes, walls=dataclasses.replace(whole, closed=EXCLUDED | shut << 1)),
        )
        for shut in range(1 << len(include))
    ]


def passing(flow: Flow, others: Sequence[tuple[int, Flow]]) -> Flow:
    """Return the flow of what passes all gates: of all that moves, and with signs those where some gates are shut.

    They are those of the same regions on the nodes of `nodes_through`.
    """
    from napari_gpubio.fibers.kernels.transport.cpu import gated_overlaps_of

    masses = np.zeros((1 + len(others), len(flow.visited)), np.float32)
    masses[0], arrived, numbers = flow.masses, flow.arrived.copy(), _numbers(flow)
    for own, (sign, other) in zip(masses[1:], others, strict=True):
        own[np.searchsorted(numbers, _numbers(other))] = other.masses
        arrived += sign * other.arrived
    arrived[arrived <= LEAST_PASSING * flow.arrived] = 0.0
    signs = np.array([1, *(sign for sign, _ in others)])
    overlaps = gated_overlaps_of((flow.offsets, flow.visited), signs, masses, flow.nodes.strengths, LEAST_PASSING)
    missing = np.isnan(arrived).all(axis=1)
    overlaps[missing], overlaps[:, missing] = np.nan, np.nan
    return dataclasses.replace(
        flow,
        overlaps=overlaps,
        arrived=arrived,
        complete=not missing.any(),
        avoiding=tuple(zip(signs[1:].tolist(), masses[1:], strict=True)),
    )


def _numbers(flow: Flow) -> npt.NDArray[np.int64]:
    """A number of each visit, ascending: of its region and node."""
    return np.repeat(np.arange(len(flow)), np.diff(flow.offsets)) * flow.nodes.count + flow.visited
