"""The folded surface of the cortex (pia), and how deep below it a point lies."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.spatial import cKDTree

from napari_gpubio.light.phantom.folds import fold
from napari_gpubio.light.phantom.outlines import CEREBELLUM_CENTER, cerebellum, hemisphere
from napari_gpubio.light.phantom.shapes import Floats, Lattice, blended_union

CORTEX_MM = 2.9
LEAF_CORTEX_MM = 1.6  # of the cerebellum
_BOX = ((-2.0, -100.0, -60.0), (66.0, 70.0, 74.0))  # around the right hemisphere
_SULCUS_MM = 2.9  # width of a sulcus between the crowns, before they are rounded
_CROWN_MM = 2.5  # over which the crown of a gyrus is rounded into the sulcus
_REACH_MM = 6.5  # half of a gyrus is less, and so is the cortex
_LEAF_MM, _LEAF_DEPTH_MM, _LEAF_GAP_MM = 6.5, 7.0, 1.0  # of the cerebellum: period, depth and width of its fissures


@dataclass(frozen=True, eq=False)
class Pia:
    """Surface of one hemisphere, kept on the right.

    Parameters
    ----------
    level
        Positive inside the folded hemisphere and zero on its surface, on the lattice.
    surface
        Its points.
    lattice
        Where ``level`` is known.
    """

    level: Floats
    surface: cKDTree
    lattice: Lattice

    def depth_mm(self, points: Floats) -> Floats:
        """Depth of points below the surface, mm: exact to `_REACH_MM`, rough beyond, and negative outside."""
        depth = self.lattice.value(self.level, points)
        cortical = (depth > 0) & (depth < _REACH_MM)
        depth[cortical] = self.surface.query(points[cortical])[0]
        return depth


def cortex_depth_mm(points: Floats) -> Floats:
    """Depth of world points below the pia of the hemisphere they are in, mm; negative in the fluid."""
    mirrored = points * np.array([-1.0, 1.0, 1.0])
    return np.maximum(pia(1).depth_mm(points), pia(-1).depth_mm(mirrored))


def cerebellar_depth_mm(points: Floats) -> Floats:
    """Depth of world points below the surface of the cerebellum, whose leaves fan out around its middle, mm."""
    depth = -cerebellum(points)
    up, back = points[..., 2] - CEREBELLUM_CENTER[2], CEREBELLUM_CENTER[1] + 6.0 - points[..., 1]
    phase = 2 * np.pi / _LEAF_MM * 20.0 * np.arctan2(up, back)  # the period is that at 20 mm from the middle
    to_fissure = _LEAF_MM / (2 * np.pi) * np.arccos(np.clip(-np.cos(phase), -1.0, 1.0))
    return np.where(depth < _LEAF_DEPTH_MM, np.minimum(depth, to_fissure - _LEAF_GAP_MM / 2), depth)


@cache
def pia(side: int) -> Pia:
    """The folded surface of the right (1) or left (-1) hemisphere, both kept on the right; made once."""
    coarse, fine = Lattice(*_BOX, 2.0), Lattice(*_BOX, 1.25)
    outline = coarse.surface(hemisphere(coarse.points))
    level = _folded(fine.points, outline, fold(outline, side))
    return Pia(level, cKDTree(fine.surface(level)), fine)


def _folded(points: Floats, outline: Floats, folds: tuple[Floats, Floats]) -> Floats:
    """Level of the folded hemisphere: depth below the outline, less the sulci that go down from it."""
    level = -hemisphere(points)
    bark = np.abs(level - 12.0) < 15.0  # deeper than any sulcus, and a little outside
    depth = level[bark]
    to_middle, deepest = _from_nearest(points[bark], outline, folds)
    width = _SULCUS_MM * (1.0 - np.clip(depth / deepest, 0.0, 1.0) ** 3)
    below = np.maximum(depth - deepest, 0.0)
    to_wall = np.hypot(to_middle, below) - width / 2
    level[bark] = blended_union(depth, to_wall, np.where(depth < 8.0, _CROWN_MM, 0.1))  # a fundus keeps its shape
    return level


def _from_nearest(points: Floats, outline: Floats, values: tuple[Floats, ...]) -> list[Floats]:
    """Values at scattered points of a surface, carried to points near it along its normal."""
    distance, nearest = cKDTree(outline).query(points, k=5)
    weights = np.exp(-0.5 * (distance**2 - distance[:, :1] ** 2) / 2.0**2)
    weights /= weights.sum(axis=1, keepdims=True)
    return [(value[nearest] * weights).sum(axis=1) for value in values]
