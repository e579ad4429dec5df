"""Fixels as nodes that mass moves between, the regions that they lie in, and those that mass may not enter."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import voxel_volume_mm3
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.model import Cache

Array = npt.NDArray[Any]
EDGE, ANGLE, WALL = 1, 2, 3  # why mass ends: no fixel around the place that it reaches, none within the angle, a wall
EXCLUDED = 1  # bit of the voxels that no mass may enter


@dataclass(frozen=True, eq=False, kw_only=True)
class Walls(ShortRepr):
    """Regions that mass may not enter, on the grid of the ordered fixels.

    Parameters
    ----------
    marks
        Bits of each voxel, shape (X Y Z,): `EXCLUDED`, and a bit for each gate that it lies in.
    closed
        Bits of what mass may not enter: `EXCLUDED`, and those of the gates that are shut.
    cache
        Keeps where steps lead, for all nodes with the same marks.
    """

    marks: npt.NDArray[np.uint8]
    closed: int
    cache: Cache = field(default_factory=lambda: Cache(64))


@dataclass(frozen=True, eq=False, kw_only=True)
class FixelNodes(ShortRepr):
    """Fixels that are strong enough, in an order that does not depend on their storage.

    A node is a fixel followed one way: node 2 f is fixel f along its direction, node 2 f + 1 against it.

    Parameters
    ----------
    field
        All fixels in that order; see `FixelField.ordered`.
    fixels
        Those that are strong enough, their indices in ``field``, shape (F,).
    first
        The first fixel of each voxel, shape (X Y Z + 1,).
    voxels
        The voxel of each fixel, shape (F,).
    directions
        Unit directions in world axes, shape (F, 3).
    strengths
        Amplitudes over the reference, at most 1, shape (F,).
    reference
        Median over the voxels of the largest amplitude.
    given
        Flat index of each voxel in the grid of the field that was given, shape (X Y Z,).
    ordered
        The other way: the voxel of each in the grid that was given.
    walls
        What mass may not enter; None: it may go everywhere.
    """

    field: FixelField
    fixels: npt.NDArray[np.int64]
    first: npt.NDArray[np.int32]
    voxels: npt.NDArray[np.int32]
    directions: npt.NDArray[np.float64]
    strengths: npt.NDArray[np.float64]
    reference: float
    given: npt.NDArray[np.int64]
    ordered: npt.NDArray[np.int64]
    walls: Walls | None = None

    def outside(self, bits: int, fixels: Array | slice = slice(None)) -> npt.NDArray[np.bool_]:
        """Which of some fixels lie in no voxel that is marked with any of these bits."""
        voxels = self.voxels[fixels]
        return np.ones(len(voxels), bool) if self.walls is None else (self.walls.marks[voxels] & bits) == 0

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """Which fixels mass may enter, shape (F,)."""
        return self.outside(0 if self.walls is None else self.walls.closed)

    @property
    def count(self) -> int:
        """Number of nodes."""
        return 2 * len(self.voxels)

    @property
    def voxel_size_mm(self) -> float:
        """Edge of a cube of a voxel's volume."""
        return float(voxel_volume_mm3(self.field.affine) ** (1 / 3))


def nodes_of(field: FixelField, least_amplitude: float) -> FixelNodes:
    """Return the nodes of a field (made once): fixels of at least a share of the reference."""
    nodes: FixelNodes = field.cache.get(("flow nodes", least_amplitude), lambda: _make_nodes(field, least_amplitude))
    return nodes


def _make_nodes(field: FixelField, least_amplitude: float) -> FixelNodes:
    from nibabel.orientations import apply_orientation, io_orientation

    ordered = field.ordered()
    largest = ordered.amplitudes[ordered.first[ordered.mask]].astype(np.float64)
    reference = float(np.median(largest)) if len(largest) else 1.0
    kept = np.flatnonzero((ordered.amplitudes >= least_amplitude * reference) & (ordered.amplitudes > 0))
    voxels = np.repeat(np.arange(ordered.counts.size), ordered.counts.ravel())[kept]
    counts = np.bincount(voxels, minlength=ordered.counts.size)
    directions = ordered.directions[kept].astype(np.float64)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    leading = (np.abs(directions) > 1e-6).argmax(axis=1)[
        :, np.newaxis
    ]  # the sign that a fixel is stored with is chance
    directions *= np.sign(np.take_along_axis(directions, leading, axis=1))
    numbers = np.arange(field.counts.size).reshape(field.shape)
    given = np.ascontiguousarray(apply_orientation(numbers, io_orientation(field.affine))).ravel()
    return FixelNodes(
        field=ordered,
        fixels=kept,
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        voxels=voxels.astype(np.int32),
        directions=directions,
        strengths=np.minimum(1.0, ordered.amplitudes[kept].astype(np.float64) / max(reference, 1e-30)),
        reference=reference,
        given=given,
        ordered=np.argsort(given),
    )


class Members(NamedTuple):
    """Which fixels lie in which regions, both ways as lists one behind the other.

    ``first`` (R + 1,) and ``fixels``: of each region, ascending; ``first_region`` (F + 1,) and ``regions``: of each
    fixel, ascending. Regions may overlap.
    """

    first: npt.NDArray[np.int64]
    fixels: npt.NDArray[np.int32]
    first_region: npt.NDArray[np.int32]
    regions: npt.NDArray[np.int32]

    @classmethod
    def of(cls, lists: list[Array], count: int) -> "Members":
        """Make them of the fixels of each region; ``count``: of all fixels."""
        sizes = [len(fixels) for fixels in lists]
        fixels = np.concatenate([np.zeros(0, np.int32), *lists]).astype(np.int32)
        owners = np.repeat(np.arange(len(lists), dtype=np.int32), sizes)
        order = np.argsort(fixels, kind="stable")
        counts = np.bincount(fixels, minlength=count)
        return cls(
            first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            fixels=fixels,
            first_region=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
            regions=owners[order],
        )

    def regions_of(self, fixels: Array) -> npt.NDArray[np.int32]:
        """Regions that hold any of some fixels, ascending."""
        counts = self.first_region[fixels + 1] - self.first_region[fixels]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.unique(self.regions[np.repeat(self.first_region[fixels], counts) + within])


class Ended(NamedTuple):
    """What a transport does not pass on: the share of the mass of each node that ends, and why, shape (N,) each.

    ``why``: `EDGE`, `ANGLE`, `WALL`, or 0.
    """

    shares: npt.NDArray[np.float32]
    why: npt.NDArray[np.uint8]
