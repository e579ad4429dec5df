"""The smoothed surface of a label volume, which light of a source enters through in place of the steps of its voxels.

A ray that meets a voxel meets one of three kinds of faces, however the surface lies; reflectance and refraction there
would change from voxel to voxel. What is meant is the surface that the voxels stand for.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.model import OUTSIDE
from napari_gpubio.optics.sources import Directed, Source
from napari_gpubio.optics.surface import (
    above_surface,
    across_beam,
    first_tissue,
    inward_normal,
    label_at,
    tissue_within,
    usual_smoothing_mm,
)

Array = npt.NDArray[Any]
Point = npt.NDArray[np.float64]
_ALONG_NORMAL = np.cos(np.deg2rad(5.0))  # more than a smoothed normal and the true one differ by
_FLAT = 0.1  # of a beam's width: a surface that is less deep below it does not say how its normal changes with depth


class SmoothSurface(NamedTuple):
    """A smoothed surface near a place, world axes.

    Parameters
    ----------
    place_mm, normal
        A place, and the inward normal there, of any length.
    turning_per_mm
        Change of the normal per mm, shape (3, 3): at x it is ``normal + turning_per_mm @ (x - place_mm)``.
    """

    place_mm: Point
    normal: Point
    turning_per_mm: Point


def entered_surface(labels: Array, affine: Array, source: Source) -> SmoothSurface | None:
    """The smoothed surface that light of a source enters through, or None if it enters through faces of voxels.

    It is the tangent plane of the smoothed mask of the tissue, and below a wide beam a surface whose normal changes
    linearly with the place (which is that of a sphere).

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z); its axes must be perpendicular.
    source
        The source; its ``entry`` says whether the smoothed surface is meant. Where the tissue is a box, or flat along
        the voxels, its faces are the surface.
    """
    if not isinstance(source, Directed) or source.entry == "faces":
        return None
    ahead = source.frame()[2]
    middle = _entry_of(labels, affine, np.asarray(source.position_mm), ahead)
    if middle is None or (source.entry == "auto" and middle[1] @ ahead < _ALONG_NORMAL):
        return None
    if _is_box(labels, affine, middle[0]):
        return None
    around = [
        _entry_of(labels, affine, np.asarray(source.position_mm) + offset, ahead) for offset in across_beam(source)
    ]
    places, normals = (np.array(column) for column in zip(middle, *filter(None, around), strict=True))
    place, normal = places.mean(axis=0), normals.mean(axis=0)
    turning = np.linalg.lstsq(places - place, normals - normal, rcond=_FLAT)[0].T
    return SmoothSurface(place, normal, turning)


def _entry_of(labels: Array, affine: Array, start_mm: Point, ahead: Point) -> tuple[Point, Point] | None:
    """Where a ray from outside enters the tissue, and the normal there; None if it does not, or from behind."""
    start = above_surface(affine, start_mm, 2 * ahead)  # what starts on a face comes from outside, too
    if label_at(labels, affine, start) != OUTSIDE or (hit := first_tissue(labels, affine, start, ahead)) is None:
        return None
    try:
        normal = inward_normal(labels, affine, hit)
    except InvalidInput:  # as much tissue on one side as on the other
        return None
    return (hit, normal) if normal @ ahead > 0 else None


def _is_box(labels: Array, affine: Array, place_mm: Point) -> bool:
    """Whether the tissue that a normal is found from is (a corner of) a box along the voxels."""
    tissue, _, _ = tissue_within(labels, affine, place_mm, 3 * usual_smoothing_mm(affine))
    x, y, z = (np.asarray(tissue.any(axis=tuple({0, 1, 2} - {axis}))) for axis in range(3))
    return np.array_equal(tissue, x[:, None, None] & y[:, None] & z)
