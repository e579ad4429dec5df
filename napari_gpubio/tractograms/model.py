"""Tractograms: fibers as lines in world mm, with the numbers of fibers, points and groups."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.rows import stacked_rows
from napari_gpubio.core.space import checked_affine, same_grid

Array = npt.NDArray[Any]
_FIBERS_EACH = 4096  # worth a thread


class StopReason(IntEnum):
    """Why a ray ended."""

    VOLUME = 1
    MASK = 2
    FA = 3
    STEPS = 4
    LENGTH = 5
    CURVATURE = 6
    DRIFT = 7
    INVALID = 8
    TARGET = 9
    FOD = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class Tractogram(Tabular):
    """Fibers in millimeters, packed one behind the other.

    Parameters
    ----------
    points
        Shape (P, 3), float32, world mm (RAS).
    offsets
        Shape (F + 1,), int64; fiber ``f`` is ``points[offsets[f]:offsets[f + 1]]``.
    per_fiber
        Named numbers of each fiber, shape (F,) or (F, k).
    per_point
        Named numbers of each point, shape (P,) or (P, k).
    affine, shape
        Grid of the volume that the fibers belong to (voxel to world, mm; dimensions).
    parameters
        How they were made; only what JSON can hold.
    complete
        False if the run was stopped before its end.
    per_group
        Named numbers of groups of fibers, by the group's name; shape (k,).
    notes
        What a reader assumed or left out.
    """

    points: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    affine: npt.NDArray[np.float64]
    shape: tuple[int, int, int]
    per_fiber: Mapping[str, Array] = field(default_factory=dict)
    per_point: Mapping[str, Array] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    per_group: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        points, offsets = np.asarray(self.points, np.float32), np.asarray(self.offsets, np.int64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise InvalidInput(f"points have shape (P, 3); this array has shape {points.shape}")
        if offsets.ndim != 1 or not len(offsets) or offsets[0] != 0 or offsets[-1] != len(points):
            raise InvalidInput(f"offsets must run from 0 to the number of points, {len(points)}")
        if (np.diff(offsets) < 0).any():
            raise InvalidInput("offsets must not decrease")
        for what, table, rows in (
            ("fiber", self.per_fiber, len(offsets) - 1),
            ("point", self.per_point, len(points)),
        ):
            for name, values in table.items():
                if len(values) != rows:
                    raise InvalidInput(f"{name!r} has {len(values)} values for {rows} {what}s")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "affine", checked_affine(self.affine))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[npt.NDArray[np.float32]]:
        return (self.points[a:b] for a, b in zip(self.offsets[:-1], self.offsets[1:], strict=True))

    def __getitem__(self, fiber: int) -> npt.NDArray[np.float32]:
        n = range(len(self))[fiber]
        return self.points[self.offsets[n] : self.offsets[n + 1]]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of points of each fiber."""
        return np.diff(self.offsets)

    def lengths_mm(self) -> npt.NDArray[np.float64]:
        """Length of each fiber in mm, from its points."""
        from napari_gpubio.core.jit import read_only, run_blocks
        from napari_gpubio.tractograms.kernels.distances import find_lengths

        lengths = np.empty(len(self))
        points = read_only(np.ascontiguousarray(self.points))
        run_blocks(find_lengths, len(self), points, read_only(self.offsets), lengths, least=_FIBERS_EACH)
        return lengths

    def fiber_of_point(self) -> npt.NDArray[np.int64]:
        """Index of the fiber that each point belongs to, shape (P,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    def part(self, first: int, last: int) -> "Tractogram":
        """The fibers from one up to, not including, another; points and numbers are not copied."""
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        return dataclasses.replace(
            self,
            points=self.points[begin:end],
            offsets=self.offsets[first : last + 1] - begin,
            per_fiber={name: values[first:last] for name, values in self.per_fiber.items()},
            per_point={name: values[begin:end] for name, values in self.per_point.items()},
        )

    def select(self, keep: npt.ArrayLike) -> "Tractogram":
        """Return some fibers with all their numbers; ``keep``: a boolean for each fiber, or indices."""
        which = self._indices(np.asarray(keep))
        counts = self.counts[which]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        rows = np.repeat(self.offsets[which] - offsets[:-1], counts) + np.arange(offsets[-1])
        return dataclasses.replace(
            self,
            points=self.points[rows],
            offsets=offsets,
            per_fiber={name: np.asarray(values)[which] for name, values in self.per_fiber.items()},
            per_point={name: np.asarray(values)[rows] for name, values in self.per_point.items()},
        )

    def _indices(self, keep: Array) -> npt.NDArray[np.int64]:
        """Fiber indices from a boolean for each fiber, or from indices (negative ones count from the end)."""
        if keep.dtype == bool:
            if keep.shape != (len(self),):
                raise InvalidInput(f"there are {keep.size} choices for {len(self)} fibers; give one for each")
            return np.flatnonzero(keep)
        if keep.size and not np.issubdtype(keep.dtype, np.integer):
            raise InvalidInput(f"fibers are chosen by booleans or integers, not by {keep.dtype} values")
        which = keep.astype(np.int64)
        if which.size and (which.min() < -len(self) or which.max() >= len(self)):
            raise InvalidInput(f"fiber {which[np.argmax(np.abs(which))]} was requested; there are {len(self)}")
        return np.where(which < 0, which + len(self), which)

    @staticmethod
    def join(parts: Sequence["Tractogram"]) -> "Tractogram":
        """Put tractograms of one volume one behind the other; only numbers that all of them have are kept.

        Raises
        ------
        InvalidInput
            If there are none or they belong to different volumes.
        """
        if not parts:
            raise InvalidInput("there are no tractograms to join; give at least one")
        first = parts[0]
        if any(not same_grid(first.shape, first.affine, p.shape, p.affine) for p in parts):
            raise InvalidInput("the tractograms belong to different volumes; join those of one volume")
        shifts = np.cumsum([0] + [len(p.points) for p in parts[:-1]])
        offsets = [np.array([0])] + [p.offsets[1:] + shift for p, shift in zip(parts, shifts, strict=True)]

        def stacked(tables: list[Mapping[str, Array]]) -> dict[str, Array]:
            return {n: stacked_rows([t[n] for t in tables]) for n in tables[0] if all(n in t for t in tables)}

        return dataclasses.replace(
            first,
            points=stacked_rows([p.points for p in parts]),
            offsets=np.concatenate(offsets),
            per_fiber=stacked([p.per_fiber for p in parts]),
            per_point=stacked([p.per_point for p in parts]),
            complete=all(p.complete for p in parts),
            per_group={group: numbers for p in reversed(parts) for group, numbers in p.per_group.items()},
            notes=tuple(dict.fromkeys(note for p in parts for note in p.notes)),
        )
