"""Shapes as signed distances in mm, negative inside, and lattices on which they are sampled.

World millimeters, RAS, with the origin where the anterior commissure would be. Distances to ellipsoids and blends are
of first order; `Lattice.distance` makes them exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


def ellipsoid(points: Floats, center: Sequence[float], semi_axes: Sequence[float]) -> Floats:
    """Signed distance to an ellipsoid: its level function over the length of its gradient, mm."""
    axes = np.asarray(semi_axes, np.float64)
    scaled = (points - np.asarray(center, np.float64)) / axes
    level = np.linalg.norm(scaled, axis=-1)
    slope = np.linalg.norm(scaled / axes, axis=-1)
    return np.asarray(level * (level - 1.0) / np.maximum(slope, 1e-9))


def tube(points: Floats, knots: Sequence[tuple[float, float, float, float]]) -> Floats:
    """Signed distance to straight pieces of pipe between knots (x, y, z, radius), mm."""
    line = np.asarray(knots, np.float64)
    pieces = [_pipe(points, start, end) for start, end in pairwise(line)]
    return np.asarray(np.min(pieces, axis=0))


def _pipe(points: Floats, start: Floats, end: Floats) -> Floats:
    axis = end[:3] - start[:3]
    share = np.clip((points - start[:3]) @ axis / (axis @ axis), 0.0, 1.0)
    off_axis = points - start[:3] - share[..., None] * axis
    return np.asarray(np.linalg.norm(off_axis, axis=-1) - (start[3] + share * (end[3] - start[3])))


def blended_union(a: Floats, b: Floats, width_mm: float | Floats) -> Floats:
    """Union of two shapes with its crease filled over a width (quadratic blend)."""
    share = np.clip(0.5 + 0.5 * (b - a) / width_mm, 0.0, 1.0)
    return np.asarray(b + (a - b) * share - width_mm * share * (1.0 - share))


def rounded_overlap(a: Floats, b: Floats, width_mm: float) -> Floats:
    """Intersection of two shapes with its edge rounded over a width."""
    return -blended_union(-a, -b, width_mm)


def folded_right(points: Floats) -> Floats:
    """Points of the left side mirrored to the right."""
    return np.concatenate([np.abs(points[..., :1]), points[..., 1:]], axis=-1)


@dataclass(frozen=True, eq=False)
class Lattice:
    """Points of a box, ``spacing_mm`` apart along each axis.

    Parameters
    ----------
    lowest, highest
        Corners of the box, world mm; the last points lie at or just below ``highest``.
    spacing_mm
        Distance of neighbors.
    """

    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    spacing_mm: float

    @property
    def points(self) -> Floats:
        """World mm, shape (X, Y, Z, 3)."""
        axes = [
            low + self.spacing_mm * np.arange(int((high - low) / self.spacing_mm + 1e-9) + 1)
            for low, high in zip(self.lowest, self.highest, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)

    def value(self, volume: Floats, points: Floats) -> Floats:
        """Value of a volume on the lattice at any points, linear between its own, and beyond it that of its edge."""
        index = (points - np.asarray(self.lowest)) / self.spacing_mm
        return np.asarray(map_coordinates(volume, np.moveaxis(index, -1, 0), order=1, mode="nearest"))

    def surface(self, level: Floats) -> Floats:
        """Points where a volume on the lattice changes its sign, linear between neighbors, shape (N, 3)."""
        points, found = self.points, []
        for axis in range(3):
            here, there = [slice(None)] * 3, [slice(None)] * 3
            here[axis], there[axis] = slice(None, -1), slice(1, None)
            a, b = level[tuple(here)], level[tuple(there)]
            changes = (a < 0) != (b < 0)
            share = (a[changes] / (a[changes] - b[changes]))[:, None]
            start, end = points[tuple(here)][changes], points[tuple(there)][changes]
            found.append(start + share * (end - start))
        return np.concatenate(found)

    def distance(self, surface: Floats, level: Floats) -> Floats:
        """Signed distance of every lattice point to a surface, mm.

        Parameters
        ----------
        surface
            Points of the surface, shape (N, 3); the closer they lie, the more exact it is near them.
        level
            Any volume on the lattice with the right sign.
        """
        distance, _ = cKDTree(surface).query(self.points)
        return np.asarray(np.copysign(distance, level))
