"""Anatomy of the head phantom: outlines of its parts, and the depth below the folded cortex."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.spatial import cKDTree

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.phantom.shapes import (
    Floats,
    Lattice,
    blended_union,
    ellipsoid,
    fold,
    folded_right,
    rounded_overlap,
    tube,
)

HALF_FISSURE_MM = 1.1  # each hemisphere keeps this distance from the midline
CEREBELLUM_CENTER = (18.0, -58.0, -31.0)
_STEM = [(0, -14, -7, 11), (0, -18, -16, 12.5), (0, -22, -26, 14), (0, -26, -38, 9), (0, -28, -44, 7.5)]
_LATERAL_VENTRICLE = [  # of the right side: x, y, z, radius
    (6, 26, 4, 2.2), (7, 18, 10, 3.6), (7, 5, 15, 4), (8, -9, 16, 4), (12, -23, 14, 4.5), (18, -34, 8, 5),
    (22, -43, 5, 4.5), (23, -54, 4, 2.5),
]  # fmt: skip
_NUCLEI = [  # ellipsoids of the right side: center, semi-axes
    ((9.5, -17, 5), (8, 13, 8)),  # thalamus
    ((12, 13, 7), (4.5, 8, 7)),  # head of the caudate
    ((26, 2, 0), (4.5, 14, 9)),  # putamen
]
_FACE_FLOOR_MM = -66.0  # the head ends here, at the level of the upper jaw
_THINNEST_MM = 5.0  # soft tissue below the skull
_BLEND_MM = 12.0


def hemisphere(points: Floats) -> Floats:
    """Right hemisphere of the cerebrum with its temporal lobe, without folds."""
    whole = blended_union(_dome(points), _temporal_lobe(points), 5.0)
    return rounded_overlap(whole, HALF_FISSURE_MM - points[..., 0], 5.0)


def cerebellum(points: Floats) -> Floats:
    """Both hemispheres of the cerebellum."""
    return ellipsoid(folded_right(points), CEREBELLUM_CENTER, (30.0, 25.0, 20.0))


def brain_hull(points: Floats) -> Floats:
    """Hull of the whole brain: what the dura would follow if it had no thickness."""
    right = folded_right(points)
    hemispheres = blended_union(_dome(points), _temporal_lobe(right), _BLEND_MM)
    below = blended_union(cerebellum(points), tube(points, _STEM), _BLEND_MM)
    return blended_union(hemispheres, below, _BLEND_MM)


def white_core(points: Floats) -> Floats:
    """White matter that joins the hemispheres: callosum, surroundings of the thalami, brain stem."""
    right = folded_right(points)
    x, y, z = np.moveaxis(right, -1, 0)
    along_arch = np.hypot((y + 4.0) / 32.0, (z - 5.0) / 19.0)
    arch = np.abs(along_arch - 1.0) * 23.0 - (2.6 + 0.2 * x)  # thicker to the sides, where its fibers fan out
    callosum = rounded_overlap(rounded_overlap(arch, -3.0 - z, 5.0), x - 14.0, 5.0)
    thalami = ellipsoid(right, (9, -16, 4), (9, 13, 8))
    return np.asarray(np.min([callosum, thalami, tube(points, _STEM)], axis=0))


def deep_nuclei(points: Floats) -> Floats:
    """Gray matter in the depth."""
    right = folded_right(points)
    return np.asarray(np.min([ellipsoid(right, center, semi_axes) for center, semi_axes in _NUCLEI], axis=0))


def ventricles(points: Floats) -> Floats:
    """Lateral ventricles and the third."""
    third = ellipsoid(points, (0, -11, 1), (1.8, 14, 9))
    return np.minimum(tube(folded_right(points), _LATERAL_VENTRICLE), third)


def soft_tissue(points: Floats, skull: Floats, scalp_mm: Floats) -> Floats:
    """Outer surface of the head, from that of the skull: the scalp of the vault, and the stump of face and neck."""
    face = ellipsoid(points, (0, -18, -25), (69, 88, 46))
    whole = blended_union(skull - scalp_mm, face, 25.0)
    cut = rounded_overlap(whole, _FACE_FLOOR_MM - points[..., 2], 10.0)
    return np.minimum(cut, skull - _THINNEST_MM)


def _dome(points: Floats) -> Floats:
    """Cerebrum above the base of the skull, without temporal lobes."""
    x, y, z = np.moveaxis(points, -1, 0)
    egg = np.stack([x * (1.0 + 0.0011 * (y + 25.0)), y, z], axis=-1)  # narrower in front
    floor = -17.0 + 0.16 * np.maximum(0.0, -35.0 - y) + 0.10 * np.maximum(0.0, y - 10.0) - z
    return rounded_overlap(ellipsoid(egg, (0, -15, 13), (60, 77, 55)), floor, 12.0)


def _temporal_lobe(points: Floats) -> Floats:
    return ellipsoid(points, (38, -14, -15), (20, 36, 19))


CORTEX_MM = 2.9
LEAF_CORTEX_MM = 1.6  # of the cerebellum
_BOX = ((-2.0, -100.0, -60.0), (66.0, 70.0, 74.0))  # around the right hemisphere
_SULCUS_MM = 2.9  # width of a sulcus between the crowns, before they are rounded
_CROWN_MM = 2.5  # over which the crown of a gyrus is rounded into the sulcus
_REACH_MM = 6.5  # half of a gyrus is less, and so is the cortex
_LEAF_MM, _LEAF_DEPTH_MM, _LEAF_GAP_MM = 6.5, 7.0, 1.0  # of the cerebellum: period, depth and width of its fissures


@dataclass(frozen=True, eq=False)
class Pia(ShortRepr):
    """Surface of one hemisphere, kept on the right: ``level`` is positive inside the folds and known on the lattice."""

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
