"""The paths of single photons, as vertices between which they went straight."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.model import Domain

# What happens at a vertex, in the order of the numbers that both backends have for it.
KINDS = (
    "start", "scattered", "crossed", "refracted", "reflected", "left", "entered", "escaped", "truncated", "roulette",
)  # fmt: skip
_ENTERED = KINDS.index("entered")


@dataclass(frozen=True, eq=False, kw_only=True)
class Trajectories(ShortRepr):
    """The paths of some photons, as vertices between which they went straight.

    Parameters
    ----------
    domain
        Where they went.
    photon
        Index of each photon, shape (N,), increasing.
    starts
        The vertices of photon number i are ``starts[i]`` to ``starts[i + 1] - 1``, shape (N + 1,).
    position_mm
        World position of each vertex, shape (V, 3).
    weight, time_ns
        Weight of the packet there, and time since it entered the tissue, shape (V,).
    kind
        What happens there, a number in `KINDS`, shape (V,). After ``"left"`` a photon goes on at the other side of a
        cyclic grid, at ``"entered"``.
    vertex_counts
        Vertices that each photon had in all, shape (N,); of those with more than were requested, the first are kept.
    parameters
        Device, software and what was requested, as JSON can hold it.
    """

    domain: Domain
    photon: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    position_mm: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float32]
    time_ns: npt.NDArray[np.float64]
    kind: npt.NDArray[np.uint8]
    vertex_counts: npt.NDArray[np.int64]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.photon)

    @property
    def is_cut(self) -> npt.NDArray[np.bool_]:
        """Which photons had more vertices than are kept, shape (N,)."""
        return np.asarray(self.vertex_counts > np.diff(self.starts))

    def vertices(self, number: int) -> slice:
        """Vertices of a photon, by its place among these."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def lines(self) -> Iterator[tuple[int, slice]]:
        """Unbroken lines of two or more vertices: the place of the photon, and its vertices."""
        for number in range(len(self)):
            whole = self.vertices(number)
            breaks = whole.start + np.flatnonzero(self.kind[whole] == _ENTERED)
            edges = [whole.start, *breaks.tolist(), whole.stop]
            for start, stop in itertools.pairwise(edges):
                if stop - start > 1:
                    yield number, slice(start, stop)
