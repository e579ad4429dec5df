"""Shapes of the head phantom: signed distances of simple solids, and the folds of the cortex."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import map_coordinates
from scipy.sparse import csr_matrix, diags_array
from scipy.spatial import cKDTree

from napari_gpubio.core.space import lengths_along

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
    """Points of a box, ``spacing_mm`` apart along each axis; the last lie at or just below ``highest`` (world mm)."""

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
        """Signed distance of all lattice points to points of a surface, shape (N, 3), mm; the sign is that of level."""
        distance, _ = cKDTree(surface).query(self.points)
        return np.asarray(np.copysign(distance, level))


PERIOD_MM = 14.0  # from one sulcus to the next: a gyrus and a sulcus
DEPTH_MM = 14.0  # of a sulcus without a name
_EXCITATION_MM = PERIOD_MM / 6.54  # a difference of Gaussians of widths s and 2 s lets waves of 6.54 s pass best
_WAVES = 48
_SETTLING, _SHARPENING = 60, 12  # rounds
_SETTLING_GAIN, _SHARPENING_GAIN = 2.9, 9.0  # low gain lets stripes join, high gain makes them equally deep


class Sulcus(NamedTuple):
    """A sulcus with a name."""

    name: str
    depth_mm: float
    course: tuple[tuple[float, float, float], ...]  # on or near the surface of the right hemisphere, world mm


SULCI = (
    Sulcus("central", 17, ((6, -27, 68), (20, -20, 64), (33, -12, 56), (44, -6, 42), (52, 0, 26), (56, 2, 12))),
    Sulcus("lateral", 25, ((40, 18, -4), (50, 4, -2), (56, -12, 3), (58, -28, 9), (54, -42, 16))),
    Sulcus(
        "superior temporal", 17, ((52, -2, -18), (56, -16, -14), (58, -32, -6), (54, -50, 2), (46, -62, 12))
    ),
    Sulcus("superior frontal", 14, ((22, 50, 32), (24, 36, 46), (26, 20, 56), (28, 4, 60))),
    Sulcus("inferior frontal", 14, ((46, 36, 10), (50, 24, 20), (50, 12, 28))),
    Sulcus("intraparietal", 17, ((34, -34, 60), (34, -48, 54), (30, -62, 46), (24, -76, 32))),
    Sulcus(
        "cingulate", 14,
        ((1, 40, 8), (1, 34, 26), (1, 18, 36), (1, -2, 40), (1, -22, 40), (1, -36, 44), (1, -44, 60)),
    ),
    Sulcus("parieto-occipital", 14, ((1, -52, 10), (1, -64, 22), (1, -72, 36), (10, -74, 46))),
    Sulcus("calcarine", 14, ((1, -50, 8), (1, -66, 4), (1, -82, 4))),
)  # fmt: skip


class Folds(NamedTuple):
    """Sulci on the points of a surface."""

    distance_mm: Floats  # along the surface to the middle line of the nearest sulcus, roughly, shape (N,)
    depth_mm: Floats  # how deep that sulcus is, shape (N,)


def fold(surface: Floats, side: float) -> Folds:
    """Lay sulci on points of the right hemisphere's surface, about 2 mm apart, shape (N, 3).

    ``side`` is 1 or -1: two sides of one brain, alike but not the same.
    """
    tree = cKDTree(surface)
    courses = [surface[tree.query(_course(sulcus, number, side))[1]] for number, sulcus in enumerate(SULCI)]
    to_sulci = np.stack([cKDTree(course).query(surface)[0] for course in courses])
    prescribed = to_sulci.min(axis=0) < 1.6
    pattern = _stripes(surface, _waves(surface, side), prescribed)
    distance = 0.85 * PERIOD_MM / (2 * np.pi) * np.arccos(np.clip(-pattern, -1.0, 1.0))
    extra = [
        (sulcus.depth_mm - DEPTH_MM) * np.exp(-0.5 * (reach / 5.0) ** 2)
        for sulcus, reach in zip(SULCI, to_sulci, strict=True)
    ]
    return Folds(distance, DEPTH_MM + np.max(extra, axis=0))


def _course(sulcus: Sulcus, number: int, side: float) -> Floats:
    """Closely spaced points of a great sulcus, wound a little to different sides left and right."""
    knots = np.asarray(sulcus.course, np.float64)
    along = lengths_along(knots)
    at = np.linspace(0.0, along[-1], 80)
    x, y, z = (np.interp(at, along, knots[:, axis]) for axis in range(3))
    return np.stack([x, y + 1.5 * side * np.sin(z / 9 + number), z + 1.5 * side * np.sin(y / 11 + number)], axis=-1)


def _waves(surface: Floats, side: float) -> Floats:
    """A sum of plane waves of the period from all sides, partly the same left and right: where the pattern starts."""
    n = np.arange(_WAVES) + 0.5
    height, turn = 1.0 - 2.0 * n / _WAVES, n * np.pi * (3.0 - np.sqrt(5.0))
    flat = np.sqrt(1.0 - height**2)
    directions = np.stack([flat * np.cos(turn), flat * np.sin(turn), height])
    phase = 2 * np.pi / PERIOD_MM * surface @ directions
    both, own = np.cos(phase + 1.7 * n**2), np.cos(1.05 * phase + 2.3 * n**2 + 1.0)
    return np.asarray(0.3 * (both + 0.8 * side * own).sum(axis=1) / np.sqrt(_WAVES / 2))


def _stripes(surface: Floats, start: Floats, prescribed: Floats) -> Floats:
    """Let the pattern settle; -1 in the middle of a sulcus, 1 on the crown of a gyrus, shape (N,)."""
    wide = _smoother(surface, 2 * _EXCITATION_MM)
    interaction = _smoother(surface, _EXCITATION_MM) - wide
    pattern = start
    for gain in [_SETTLING_GAIN] * _SETTLING + [_SHARPENING_GAIN] * _SHARPENING:
        pattern = np.tanh(gain * (interaction @ pattern))
        pattern[prescribed] = -1.0
    wave = interaction @ pattern  # a pure wave again, whose phase gives the distance from the middle line
    return np.asarray(wave / np.sqrt(2.0 * (wide @ (wide @ wave**2))))


def _smoother(surface: Floats, width_mm: float) -> csr_matrix:
    """Matrix that smooths values on scattered points with a Gaussian, whatever their density; shape (N, N)."""
    tree = cKDTree(surface)
    density = np.asarray(_gaussian(tree, 2.0).sum(axis=1)).ravel()
    weights = _gaussian(tree, width_mm) @ diags_array(1.0 / density)
    return csr_matrix(diags_array(1.0 / np.asarray(weights.sum(axis=1)).ravel()) @ weights)


def _gaussian(tree: cKDTree, width_mm: float) -> csr_matrix:
    pairs = tree.sparse_distance_matrix(tree, 3.0 * width_mm, output_type="coo_matrix")
    values = np.exp(-0.5 * (pairs.data / width_mm) ** 2)
    return csr_matrix((values, (pairs.row, pairs.col)), shape=pairs.shape)
