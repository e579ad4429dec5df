"""The flow of fibers between regions: how much, by which way, and where it ends."""

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import opened_npz
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.core.foreign import json_of
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.fibers.flow.nodes import ANGLE, EDGE, WALL, Ended, FixelNodes
from napari_gpubio.tractograms.connectome.model import RegionMatrices

Array = npt.NDArray[Any]
OVERLAP, ARRIVALS = "overlap", "arrivals"
LEAST_PASSING = 1e-6  # share of all that flows: less that passes gates is not distinguished from rounding
MATRICES: Mapping[str, str] = {
    OVERLAP: "overlap of the flows of two regions over the totals of both: the score that ranks pairs best",
    ARRIVALS: "root of the shares of the mass of each region that arrive in the other",
    "one_way": "share of the mass of the row's region that arrives in the column's",
    "plain_overlap": "overlap of the flows, not divided by totals",
}
"""Matrices of a flow, and what they are."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FlowMatrices(RegionMatrices):
    """Matrices of the flow of fibers between regions; with the names and labels of a connectome.

    The numbers of one row can be compared with each other. Between rows, subjects and scans only ranks can: mass falls
    with distance, and no threshold tells pairs that are connected from those that are not.

    Parameters
    ----------
    overlaps
        Sum over fixels and senses of the root of the visits from A and, the other way, from B, shape (R, R).
    arrived
        Share of the mass of the row's region that enters the column's from outside, shape (R, R). It may exceed 1 on
        rings, where mass enters again.
    complete
        False if the mass of some regions was not moved: their rows are NaN.
    notes
        What to know of the regions, as sentences.
    parameters
        How it was made, as JSON can hold it.
    """

    overlaps: npt.NDArray[np.float64]
    arrived: npt.NDArray[np.float64]
    complete: bool = True
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def matrix(self, of: str = OVERLAP) -> npt.NDArray[np.float64]:
        """Return a matrix of the regions, shape (R, R), zero on the diagonal; InvalidInput if ``of`` is not a name.

        ``of``: one of `MATRICES`. All but ``"one_way"`` are symmetric.
        """
        if of not in MATRICES:
            raise InvalidInput(f"there is no matrix {of!r} of a flow; choose one of {', '.join(MATRICES)}")
        if of == "one_way":
            matrix = self.arrived.copy()
        elif of == ARRIVALS:
            matrix = np.sqrt(self.arrived * self.arrived.T)
        else:
            matrix = self.overlaps.copy()
        np.fill_diagonal(matrix, 0.0)
        if of == OVERLAP:
            totals = np.nansum(matrix, axis=1)
            matrix /= np.sqrt(np.maximum(totals[:, np.newaxis] * totals, 1e-30))
        return matrix

    def ranks(self, of: str = OVERLAP) -> npt.NDArray[np.int64]:
        """Return the rank of the column's region among those of each row, from 1 on, shape (R, R); 0 for itself.

        Regions of the same number have the rank of the first of them. Arguments are those of `matrix`.
        """
        return ranks_of(self.matrix(of))

    def ranked(self, label: int, of: str = OVERLAP) -> list[tuple[int, str, float]]:
        """Return labels, names and numbers of the other regions, the largest number first.

        InvalidInput if there is no such label.
        """
        row, place = self.matrix(of)[self.place_of(label)], self.place_of(label)
        order = [n for n in np.argsort(-np.nan_to_num(row), kind="stable") if n != place]
        return [(int(self.labels[n]), self.names[n], float(row[n])) for n in order]

    def save(self, path: str | Path) -> None:
        """Write the matrices as npz, which `load` reads."""
        about = {"names": list(self.names), "notes": list(self.notes), "complete": self.complete}
        about["parameters"] = dict(self.parameters)
        with atomic_write(path) as part, part.open("wb") as file:
            np.savez_compressed(
                file, labels=self.labels, voxels=self.voxels, overlaps=self.overlaps, arrived=self.arrived,
                about=np.array(json.dumps(about)),
            )  # fmt: skip

    @staticmethod
    def load(path: str | Path) -> "FlowMatrices":
        """Read what `save` wrote; InvalidInput if it is something else."""
        path = existing_file(path)
        try:
            with opened_npz(path) as file:
                file.check_size()
                about = json_of(str(file.array("about")), path.name)
                found = FlowMatrices(
                    labels=file.array("labels"), voxels=file.array("voxels"), overlaps=file.array("overlaps"),
                    arrived=file.array("arrived"), names=tuple(map(str, about["names"])),
                    notes=tuple(map(str, about["notes"])), complete=bool(about["complete"]),
                    parameters=dict(about["parameters"]),
                )  # fmt: skip
        except InvalidInput:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path.name} is no flow of this program; make it anew") from error
        count = len(found.names)
        if found.labels.shape != (count,) or not found.overlaps.shape == found.arrived.shape == (count, count):
            raise InvalidInput(f"{path.name}: its matrices do not fit its {count} regions; the file is damaged")
        return found


def ranks_of(matrix: Array) -> npt.NDArray[np.int64]:
    """Return the ranks of the numbers of each row, see `FlowMatrices.ranks`."""
    matrix = np.nan_to_num(matrix, nan=-np.inf)
    np.fill_diagonal(matrix, -np.inf)
    ranks = np.array([np.searchsorted(np.sort(-row), -row) for row in matrix], np.int64).reshape(matrix.shape) + 1
    np.fill_diagonal(ranks, 0)
    return ranks


@dataclass(frozen=True, eq=False, kw_only=True)
class Flow(FlowMatrices):
    """Mass that left regions along all fibers at once, without sampling.

    Of it `matrices` alone are saved: the rest is large, and the same call, or its record, makes it again bit by bit.
    Where there are gates, matrices and densities of routes are those of what passes them all; visits, masses of one
    region, and where it ends are of all that moves, since what has not passed a gate yet may still do so.

    Parameters
    ----------
    affine, shape
        Of the grid of the field that was given.
    nodes
        The fixels that mass moved on.
    offsets, visited, masses
        Nodes that mass of region r went on from, ascending, and how much, from ``offsets[r]`` on.
    ended
        Share of the mass of each node that ends there, and why.
    rest
        Mass of each region that had gone the maximum length, shape (R,).
    step_mm, max_length_mm
        Length of a step, and of the way that mass may go.
    avoiding
        Signs and masses, at the same visits, of what avoids some of the gates; see `nodes_through`.
    """

    affine: npt.NDArray[np.float64]
    shape: tuple[int, int, int]
    nodes: FixelNodes
    offsets: npt.NDArray[np.int64]
    visited: npt.NDArray[np.int32]
    masses: npt.NDArray[np.float32]
    ended: Ended
    rest: npt.NDArray[np.float64]
    step_mm: float
    max_length_mm: float
    avoiding: tuple[tuple[int, npt.NDArray[np.float32]], ...] = ()

    @property
    def matrices(self) -> FlowMatrices:
        """The matrices alone."""
        names = [one.name for one in dataclasses.fields(FlowMatrices)]
        return FlowMatrices(**{name: getattr(self, name) for name in names})

    def visits(self, label: int) -> npt.NDArray[np.float64]:
        """Mass of a region that went on from each node, shape (N,); InvalidInput if there is no such label."""
        return self._on_nodes(label, self.masses)

    def mass(self, label: int) -> npt.NDArray[np.float32]:
        """Mass of a region that went through each voxel, on the given grid; InvalidInput if there is no such label."""
        nodes, masses = self._visits(label)
        return self.volume_of(self.nodes.voxels[nodes >> 1], masses)

    def fixel_density(self, one: int, other: int) -> npt.NDArray[np.float64]:
        """Density of the routes between two labels at each fixel of ``nodes``, shape (F,).

        The product of the mass of the one and, the other way, of the other, summed over both senses. InvalidInput if
        there is no such label.
        """
        every, *others = (
            sign * self._on_nodes(one, masses) * self._on_nodes(other, masses).reshape(-1, 2)[:, ::-1].ravel()
            for sign, masses in ((1, self.masses), *self.avoiding)
        )
        passing = every + sum(others)
        if others:
            passing[passing <= LEAST_PASSING * every] = 0.0
        return np.asarray(passing.reshape(-1, 2).sum(axis=1))

    def density(self, one: int, other: int) -> npt.NDArray[np.float32]:
        """Density of the routes between two labels, the largest 1, on the given grid; see `fixel_density`."""
        volume = self.volume_of(self.nodes.voxels, self.fixel_density(one, other))
        return volume / max(float(volume.max(initial=0.0)), 1e-30)

    def fixels(self, one: int, other: int) -> FixelField:
        """Fixels that the routes between two labels take, with their density, the largest 1, as ``flow``."""
        density = self.fixel_density(one, other)
        there = np.flatnonzero(density)
        ordered = self.nodes.field
        kept = self.nodes.fixels[there]
        voxels = self.nodes.voxels[there]
        return FixelField(
            counts=np.bincount(voxels, minlength=ordered.counts.size).reshape(ordered.shape).astype(np.uint8),
            directions=ordered.directions[kept],
            amplitudes=ordered.amplitudes[kept],
            affine=ordered.affine,
            numbers={"flow": (density[there] / max(density.max(initial=0.0), 1e-30)).astype(np.float32)},
        )

    def endings(self, label: int) -> dict[str, float]:
        """Share of the mass of a region by what became of it; InvalidInput if there is no such label."""
        nodes, masses = self._visits(label)
        lost, why = masses * self.ended.shares[nodes].astype(np.float64), self.ended.why[nodes]
        edge, angle, walled = (float(lost[why == reason].sum()) for reason in (EDGE, ANGLE, WALL))
        rest = float(self.rest[self.place_of(label)])
        return {
            "at the edge of the fixels": edge,
            "no fixel within the angle": angle,
            "in what is excluded": walled,
            f"went {self.max_length_mm:.0f} mm": rest,
            "dropped as too small": max(0.0, 1.0 - edge - angle - walled - rest) if len(nodes) else 0.0,
        }

    def endings_text(self, label: int) -> str:
        """`endings` in words, without those of less than half a percent."""
        return ", ".join(f"{100 * share:.0f} % {what}" for what, share in self.endings(label).items() if share > 0.005)

    def losses(self, label: int) -> npt.NDArray[np.float32]:
        """Mass of a region that ends in steps from each voxel, on the given grid; see `endings`."""
        nodes, masses = self._visits(label)
        return self.volume_of(self.nodes.voxels[nodes >> 1], masses * self.ended.shares[nodes])

    @functools.cached_property
    def message(self) -> str:
        """What was done, in a sentence."""
        gates, walls = (self.parameters.get(name, ()) for name in ("include", "exclude"))
        where = f" through {' and '.join(gates)}" * bool(gates) + f" without {' and '.join(walls)}" * bool(walls)
        return (
            f"Flow of {len(self):,} regions{where} in steps of {self.step_mm:.3g} mm, up to {self.max_length_mm:.0f} "
            f"mm; fixels from amplitude {self.nodes.reference * self.parameters['flow']['least_amplitude']:.3g} on."
        )

    def _visits(self, label: int) -> tuple[Array, Array]:
        rows = self._rows(label)
        return self.visited[rows], self.masses[rows].astype(np.float64)

    def _rows(self, label: int) -> slice:
        place = self.place_of(label)
        return slice(int(self.offsets[place]), int(self.offsets[place + 1]))

    def _on_nodes(self, label: int, masses: Array) -> npt.NDArray[np.float64]:
        mass, rows = np.zeros(self.nodes.count), self._rows(label)
        mass[self.visited[rows]] = masses[rows]
        return mass

    def volume_of(self, voxels: Array, values: Array) -> npt.NDArray[np.float32]:
        """Sums of values by voxel of the ordered fixels, ascending, as a volume of the given grid."""
        volume = np.zeros(int(np.prod(self.shape)), np.float32)
        if len(voxels):
            begins = np.flatnonzero(np.diff(voxels, prepend=-1))
            volume[self.nodes.given[voxels[begins]]] = np.add.reduceat(values, begins)
        return volume.reshape(self.shape)
