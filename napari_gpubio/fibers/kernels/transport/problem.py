"""Transport of mass along fixels, the same for both backends."""

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.chunks import items_within_memory
from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.memory import Memory
from napari_gpubio.fibers.flow.nodes import FixelNodes, Members
from napari_gpubio.fibers.flow.settings import FlowSettings

Array = npt.NDArray[Any]
LANES = 32  # regions that a GPU does side by side
SUBSTEP = 0.5  # voxels
LEAST_SHARE = 0.25  # of the voxels around a place, by weight, that must have a fixel to go on along
FULL = 0.02  # sum of the strengths of the fixels of a voxel, by angle, from which it takes all mass that it is given
MEMORY_SHARE = 0.25  # of a GPU, for regions that are done together, whose overlaps are then found there, too
_SMALLEST = 0.01  # of a region's largest mass at the start: no larger mass is dropped


class Spread(NamedTuple):
    """What becomes of the mass of some regions.

    ``start``: the first region. The nodes that mass of region r went on from lie from ``offsets[r - start]`` on, in
    ascending order, with the mass that did. ``arrivals``, shape (regions, R): mass that enters each region from
    outside. ``rest``, shape (regions,): mass that had gone the maximum length. ``overlaps``: of all regions if these
    are all, shape (R, R), or None.
    """

    start: int
    offsets: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int32]
    masses: npt.NDArray[np.float32]
    arrivals: npt.NDArray[np.float64]
    rest: npt.NDArray[np.float64]
    overlaps: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class TransportProblem(Problem):
    """Mass that leaves regions along fixels, or other sources that go to them; items are those that it leaves.

    From the center of a node's voxel the fixels are followed for a step. There, mass is shared among the eight voxels
    around, and in each of them among its fixels within an angle, in proportion to strength and nearness in angle. These
    shares are a sparse matrix T, whose rows sum to 1, or less where mass ends. Walls take those entries out of T on
    whose way one lies, and change no other. The mass that leaves a region A, in proportion to the strengths of its
    fixels and one half either way, is ``p_0``, and ``p_k+1 = T' p_k``; what went on from a node, summed over k, are its
    visits. All sums are in the order of the nodes, so any number of threads, and both backends, give the same.
    """

    work = "the flow of fibers"
    at_first = 4
    nodes: FixelNodes
    settings: FlowSettings
    members: Members
    cache: Any  # of the field that was given: it keeps the matrix
    sources: tuple[npt.NDArray[np.int32], ...] | None = None  # fixels of each, where they are not the regions

    @property
    def regions(self) -> int:
        """Number of regions that mass arrives in."""
        return len(self.members.first) - 1

    @property
    def items(self) -> int:
        """Number of regions, or sources, that mass leaves."""
        return self.regions if self.sources is None else len(self.sources)

    @property
    def bytes_per_item(self) -> int:
        """Bytes of the mass of a region on a GPU: now, next, and all that went on; and of its list of nodes."""
        return 20 * self.nodes.count

    def first_chunk(self, device: Device) -> int:
        """On a GPU all that fit; few on the CPU, so that Stop works."""
        return items_within_memory(device, self.bytes_per_item, MEMORY_SHARE) if device.is_gpu else self.at_first

    def memory(self, device: Device) -> Memory:
        """Fixels, the matrix, what walls make of it, and mass of the regions that are done at once."""
        together = self.first_chunk(device) if device.is_gpu else os.cpu_count() or 1
        count = min(self.items, together)
        matrix = 32 * self.nodes.count + 16 * self._entries
        return Memory(inputs=matrix + self._bytes_of_walls, scratch=count * self.bytes_per_item)

    @property
    def _entries(self) -> int:
        """Of the matrix, about."""
        return 8 * self.nodes.count

    @property
    def _bytes_of_walls(self) -> int:
        """Marks, what steps meet and where mass ends, and the weights, again for each set of gates that is shut."""
        if (walls := self.nodes.walls) is None:
            return 0
        gates = int(np.bitwise_or.reduce(walls.marks) >> 1).bit_count()
        return walls.marks.nbytes + 10 * self.nodes.count + (4 * self._entries << gates)

    @property
    def step_mm(self) -> float:
        """Length of a step."""
        return self.settings.step_voxels * self.nodes.voxel_size_mm

    @property
    def steps(self) -> int:
        """Largest number of steps."""
        return max(1, math.ceil(self.settings.max_length_mm / self.step_mm - 1e-9))

    @cached_property
    def scalars(self) -> dict[str, Any]:
        """Numbers that the kernels take, without walls: see ``steps.py``."""
        settings, substeps = self.settings, max(1, round(self.settings.step_voxels / SUBSTEP))
        shape = tuple(int(n) for n in self.nodes.field.shape)
        return {
            "to_voxel": tuple(np.linalg.inv(self.nodes.field.affine[:3, :3]).ravel().tolist()),
            "substep_mm": self.step_mm / substeps,
            "least_cosine": math.cos(math.radians(settings.angle_deg)),
            "spread": math.radians(settings.spread_deg),
            "shape": shape,
            "substeps": substeps,
            "closed": 0,
        }

    @property
    def key(self) -> tuple[Any, ...]:
        """What the matrix depends on, besides the field."""
        s = self.settings
        return "transport", s.step_voxels, s.angle_deg, s.spread_deg, s.least_amplitude

    def start_mass(self, item: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the fixels of a region or source, and the mass that each of their two nodes has at first."""
        first, stop = (0, 0) if self.sources is not None else self.members.first[item : item + 2]
        fixels = self.members.fixels[first:stop] if self.sources is None else self.sources[item]
        strengths = self.nodes.strengths[fixels]
        return fixels, (strengths / (2.0 * max(strengths.sum(), 1e-30))).astype(np.float32)

    def let_out(self, fixels: npt.NDArray[np.int32], masses: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return masses at the start, of which none lies in a shut gate; what is dropped follows from all of them."""
        walls = self.nodes.walls
        return masses if walls is None else masses * self.nodes.outside(walls.closed, fixels)

    @cached_property
    def beside_walls(self) -> npt.NDArray[np.int32]:
        """Nodes from which a step may reach a wall or a gate."""
        nodes, walls = self.nodes, self.nodes.walls
        if walls is None:
            return np.zeros(0, np.int32)
        shape, to_voxel = nodes.field.shape, np.linalg.inv(nodes.field.affine[:3, :3])
        reach = np.ceil(self.step_mm * np.linalg.norm(to_voxel, axis=1)) + 1
        places = np.stack(np.unravel_index(nodes.voxels, shape), axis=1)
        near = np.zeros(len(places), bool)
        for bit in 1 << np.arange(8):
            if len(inside := np.flatnonzero(walls.marks & bit)):
                box = np.stack(np.unravel_index(inside, shape), axis=1)
                near |= ((places >= box.min(axis=0) - reach) & (places <= box.max(axis=0) + reach)).all(axis=1)
        fixels = np.flatnonzero(near)
        return np.stack([2 * fixels, 2 * fixels + 1], axis=1).ravel().astype(np.int32)

    def least_mass(self, masses: npt.NDArray[np.float32]) -> np.float32:
        """Masses below it are dropped; in regions of very many fixels all are small at the start."""
        return np.float32(min(self.settings.least_mass, _SMALLEST * float(masses.max(initial=0.0))))
