"""The search for maxima of FODs, the same for both backends."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.chunks import items_within_memory
from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.memory import Memory
from napari_gpubio.diffusion.fods.harmonics import half_sphere, harmonics, lmax_of, paired, recurrence
from napari_gpubio.diffusion.fods.settings import PeakSettings

Array = npt.NDArray[Any]
NEIGHBORS = 6  # of each direction that is searched, on a lattice where most have six
_SAME_PEAK = 1e-3  # radians
_DIRECTIONS = {8: 300, 12: 600, 16: 1000}  # searched, by the largest order: lobes get narrower


@dataclass(frozen=True, eq=False, kw_only=True)
class PeakProblem(Problem):
    """FODs, and the directions that their maxima are searched from.

    A direction of a lattice on half a sphere whose amplitude is larger than that of its neighbors leads uphill to a
    maximum. Those that are too low, or too near a higher one, are left out.

    Parameters
    ----------
    coefficients
        Shape (M, N).
    settings
        Which maxima count.
    """

    work = "searching for peaks"
    coefficients: npt.NDArray[np.float32]
    settings: PeakSettings

    @property
    def items(self) -> int:
        """Number of voxels."""
        return len(self.coefficients)

    @property
    def bytes_per_item(self) -> int:
        """Bytes of the FOD of a voxel as the kernels take it, of its peaks, and of their number."""
        return 8 * len(self.columns) + 32 * self.settings.most + 1

    def memory(self, device: Device) -> Memory:
        """FODs, peaks and tables; on a GPU those of a chunk, at most: how long it is depends on the time it takes."""
        count = min(self.items, items_within_memory(device, self.bytes_per_item))
        tables = self.directions.nbytes + self.neighbors.nbytes + self.columns.nbytes + self.table.nbytes
        result = 32 * self.settings.most + 1
        return Memory(inputs=tables + count * (self.bytes_per_item - result), results=count * result)

    @property
    def lmax(self) -> int:
        """Largest order."""
        return lmax_of(self.coefficients.shape[1])

    @cached_property
    def directions(self) -> npt.NDArray[np.float64]:
        """Directions that are searched, shape (K, 3)."""
        return half_sphere(next(count for lmax, count in _DIRECTIONS.items() if self.lmax <= lmax))

    @cached_property
    def neighbors(self) -> npt.NDArray[np.int32]:
        """Those nearest to each direction, either way along it, shape (K, `NEIGHBORS`)."""
        cosines = np.abs(self.directions @ self.directions.T)
        np.fill_diagonal(cosines, -1.0)
        return np.ascontiguousarray(np.argsort(-cosines, axis=1)[:, :NEIGHBORS], np.int32)

    @cached_property
    def columns(self) -> npt.NDArray[np.float64]:
        """Harmonics in the directions in the order of `paired`, shape (P, K)."""
        return np.ascontiguousarray(paired(harmonics(self.directions, self.lmax)).T)

    @cached_property
    def table(self) -> npt.NDArray[np.float64]:
        """Constants of the harmonics."""
        return recurrence(self.lmax)

    @property
    def least_cosine(self) -> float:
        """Of the angle between peaks that are one; two ways uphill to the same peak end a little apart."""
        return float(np.cos(max(np.deg2rad(self.settings.least_angle_deg), _SAME_PEAK)))
