"""Trajectories made ready for a backend: which photons, and how many of their vertices."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.memory import Memory
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import DetectedList
from napari_gpubio.optics.detectors import DetectedPhotons
from napari_gpubio.probes.kernels.replay.problem import different_photon

VERTEX_NUMBERS = 5  # x, y, z (grid mm), weight, optical path (mm)


class TrailRecord(NamedTuple):
    """Vertices of some photons, one photon after the other.

    Parameters
    ----------
    counts
        Vertices that each photon has had, shape (N,), those beyond the room too.
    kinds, numbers
        Of those that are kept: kind, shape (V,), and numbers, shape (V, VERTEX_NUMBERS).
    """

    counts: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class TrailProblem(Problem):
    """Which photons are traced again, and what is noted of them.

    Parameters
    ----------
    voxels
        The simulation.
    chosen
        Indices of the photons, shape (N,), increasing.
    photons
        Detected photons as the result lists them; those among the chosen must arrive as they did.
    room
        Most vertices of a photon that are kept.
    crossings
        Whether faces that do not change the direction are vertices, too.
    """

    work = "the volume"
    run = "TrailRun"
    at_first = 256
    voxels: VoxelProblem
    chosen: npt.NDArray[np.uint64]
    photons: DetectedPhotons
    room: int
    crossings: bool

    @property
    def items(self) -> int:
        """Number of photons."""
        return len(self.chosen)

    def memory(self, device: Device) -> Memory:  # noqa: ARG002 - as every problem
        """The volume, and a tally that nothing is made of."""
        return Memory(inputs=self.voxels.grid_bytes, scratch=8 * self.voxels.cells)

    @property
    def bytes_per_item(self) -> int:
        """Bytes that a photon takes."""
        return 16 + self.room * (1 + 4 * VERTEX_NUMBERS) + self.voxels.detected_bytes

    def packed(
        self,
        start: int,
        counts: npt.NDArray[np.int64],
        kinds: npt.NDArray[np.uint8],
        numbers: npt.NDArray[np.float32],
        found: DetectedList,
    ) -> TrailRecord:
        """Vertices without the room that is left, once it is sure that detected photons arrived as they did.

        Raises
        ------
        InvalidInput
            If one did not.
        """
        items = self.chosen[start : start + len(counts)]
        lines = np.flatnonzero(np.isin(self.photons.photon, items))
        order = np.argsort(found.photons)
        order = order[np.isin(found.photons[order], self.photons.photon[lines])]
        weights = dict(zip(found.photons[order].tolist(), found.numbers[order, 1].tolist(), strict=True))
        listed = zip(self.photons.photon[lines].tolist(), self.photons.weight[lines].tolist(), strict=True)
        if different := [photon for photon, weight in listed if weights.get(photon) != weight]:
            raise different_photon(different[0], len(different), len(lines))
        kept = np.arange(self.room) < counts[:, None]
        return TrailRecord(counts, kinds[kept], numbers[kept])
