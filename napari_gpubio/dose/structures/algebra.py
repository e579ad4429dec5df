"""Structures joined, cut and grown, as voxels of a grid.

Contours become voxels at a resolution that is stated: `regions_on_grid`. What comes out is counted like any labels:
`Region.structure`.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine, checked_affine, same_grid, voxel_sizes_mm, voxel_volume_mm3
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures
from napari_gpubio.dose.structures.outlines import slab_bounds, usual_distance_mm
from napari_gpubio.dose.structures.raster import Shape, inside

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_MAX_VOXELS = 1 << 30
_SURFACE = 0.25  # voxels that the outermost centers inside a curved surface lie within it, in the mean; seen on balls


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Region(ShortRepr):
    """A structure as voxels.

    Parameters
    ----------
    name
        For curves and tables.
    mask
        Which voxels belong to it, bool, shape (X, Y, Z).
    affine
        Voxel centers to world mm (RAS), 4 x 4.
    """

    name: str
    mask: Mask
    affine: Array

    def __post_init__(self) -> None:
        mask = np.asarray(self.mask)
        if mask.ndim != 3 or mask.dtype != np.bool_:
            raise InvalidInput(f"the mask of {self.name!r} is {mask.dtype} of shape {mask.shape}; give bool (x, y, z)")
        object.__setattr__(self, "affine", checked_affine(self.affine))

    @property
    def volume_cc(self) -> float:
        """Of all its voxels."""
        return float(np.count_nonzero(self.mask)) * voxel_volume_mm3(self.affine) / 1000.0

    def structure(self) -> LabelStructures:
        """As labels, which can be counted."""
        return LabelStructures(labels=self.mask.view(np.uint8), affine=self.affine, structures={1: self.name})


def label_region(structures: LabelStructures, name: str) -> Region:
    """One of the structures of a label volume.

    Raises
    ------
    InvalidInput
        If there is none of that name.
    """
    if name not in structures.names:
        raise InvalidInput(f"there is no structure {name!r}; there are {', '.join(structures.names)}")
    value = structures.values[structures.names.index(name)]
    return Region(name=name, mask=structures.labels == value, affine=structures.affine)


def regions_on_grid(
    structures: Sequence[ContourStructure],
    *,
    resolution_mm: float,
    room_mm: float = 0.0,
    interpolation: str = "slab",
    caps: str = "half",
) -> tuple[Region, ...]:
    """Contours as voxels of one grid that holds them all, in the frame of the first one.

    Parameters
    ----------
    structures
        At least one with contours; those without become empty regions.
    resolution_mm
        Edge of a voxel in the planes of contours. Across them it is at most as long, and goes evenly into the distance
        of the first structure's planes, so that slabs end between voxels.
    room_mm
        Left free on every side, to grow into.
    interpolation, caps
        See `napari_gpubio.dose.settings.DvhSettings`.

    Raises
    ------
    InvalidInput
        If there is no contour, or the grid would be too large.
    """
    drawn = [structure for structure in structures if structure.planes]
    if not drawn:
        raise InvalidInput("none of the structures has contours, so there is no grid to draw them on")
    if not (np.isfinite(resolution_mm) and resolution_mm > 0):
        raise InvalidInput(f"resolution_mm is {resolution_mm!r}; give the edge of a voxel in mm")
    if not (np.isfinite(room_mm) and room_mm >= 0):
        raise InvalidInput(f"room_mm is {room_mm!r}; give a length in mm")
    affine, shape = _grid_around(drawn, resolution_mm, room_mm)
    masks = (inside(one, affine, shape, interpolation=interpolation, caps=caps) for one in structures)
    return tuple(Region(name=one.name, mask=mask, affine=affine) for one, mask in zip(structures, masks, strict=True))


def union(a: Region, b: Region, name: str = "") -> Region:
    """What lies in one of two regions, or in both; errors if they are not on one grid."""
    return _combined(a, b, operator.or_, name or f"{a.name} + {b.name}")


def intersection(a: Region, b: Region, name: str = "") -> Region:
    """What lies in both of two regions; errors if they are not on one grid."""
    return _combined(a, b, operator.and_, name or f"{a.name} and {b.name}")


def difference(a: Region, b: Region, name: str = "") -> Region:
    """What lies in the first of two regions and not in the second; errors if they are not on one grid."""
    return _combined(a, b, operator.gt, name or f"{a.name} - {b.name}")


def _combined(a: Region, b: Region, operation: Callable[[Mask, Mask], Mask], name: str) -> Region:
    if not same_grid(a.mask.shape, a.affine, b.mask.shape, b.affine):
        raise InvalidInput(f"{a.name!r} and {b.name!r} lie on different grids; draw both with one regions_on_grid")
    return Region(name=name, mask=operation(a.mask, b.mask), affine=a.affine)


def margin(region: Region, mm: float | Sequence[float], name: str = "", *, clip: bool = False) -> Region:
    """A region grown by a margin, or shrunk by a negative one.

    An ellipsoid is added or taken off all around (Euclidean distances between voxel centers), which moves the surface
    with an error of a fraction of a voxel.

    Parameters
    ----------
    region
        What is changed.
    mm
        On all sides, or one number for each axis of the grid; all of them not negative, or all of them negative or 0.
    name
        Of the new region.
    clip
        Whether what grows out of the grid is cut off; otherwise that is an error.

    Raises
    ------
    InvalidInput
        If the margin is no length, has both signs, or does not fit on the grid.
    """
    lengths = _lengths(mm, region.name)
    named = name or f"{region.name} {'+' if lengths.max() > 0 else '-'} {np.abs(lengths).max():g} mm"
    reach = np.ceil(np.abs(lengths) / voxel_sizes_mm(region.affine)).astype(int) + 1
    padded = _moved(np.pad(region.mask, [(n, n) for n in reach]), lengths, region, reach)
    mask = padded[tuple(slice(n, -n) for n in reach)]
    if not clip and (lost := int(np.count_nonzero(padded)) - int(np.count_nonzero(mask))):
        raise InvalidInput(
            f"{named!r} has {lost} voxels outside the grid; give room_mm, or cut them off with clip=True"
        )
    return Region(name=named, mask=np.ascontiguousarray(mask), affine=region.affine)


def _lengths(mm: float | Sequence[float], name: str) -> Array:
    """A margin along the three axes of a grid."""
    given = np.asarray(mm, np.float64)
    if given.shape not in ((), (3,)) or not np.isfinite(given).all() or given.min() < 0 < given.max():
        raise InvalidInput(f"the margin of {name!r} is {mm!r} mm; give a length, or three of one sign")
    return np.broadcast_to(given, 3)


def _moved(padded: Mask, lengths: Array, region: Region, reach: npt.NDArray[np.int64]) -> Mask:
    """A mask with room around it, grown or shrunk; only the box that can change is computed."""
    from scipy.ndimage import distance_transform_edt

    box = _box_of(region.mask, reach)
    if box is None:
        return padded
    sizes = voxel_sizes_mm(region.affine)
    per_axis = sizes / (np.abs(lengths) + _SURFACE * sizes)  # so that the ellipsoid reaches to a distance of 1
    if lengths.max() > 0:
        padded[box] = distance_transform_edt(~padded[box], sampling=per_axis) <= 1.0
    else:
        padded[box] = distance_transform_edt(padded[box], sampling=per_axis) > 1.0
    return padded


def _box_of(mask: Mask, reach: npt.NDArray[np.int64]) -> tuple[slice, ...] | None:
    """The part of a padded grid that a margin can change; None for an empty mask."""
    from scipy.ndimage import find_objects

    found = find_objects(mask.view(np.uint8))
    if not found or found[0] is None:
        return None
    return tuple(slice(part.start, part.stop + 2 * int(n)) for part, n in zip(found[0], reach, strict=True))


def _grid_around(structures: Sequence[ContourStructure], resolution: float, room: float) -> tuple[Array, Shape]:
    """Affine and shape of a grid in the frame of the first structure."""
    frame, distance = structures[0].frame, usual_distance_mm(structures[0])
    parts = max(int(np.ceil(distance / resolution - 1e-9)), 1)
    sizes = np.array([resolution, resolution, distance / parts])
    into = np.linalg.inv(frame)
    corners = np.concatenate([apply_affine(into, _corners_of(structure)) for structure in structures])
    low, high = corners.min(axis=0) - room, corners.max(axis=0) + room
    origin = np.array([low[0], low[1], structures[0].planes[0].position_mm - 0.5 * distance])  # a border of voxels
    first, end = np.floor((low - origin) / sizes - 1e-6), np.ceil((high - origin) / sizes + 1e-6)
    shape = (end - first).astype(np.int64)
    if shape.prod() > _MAX_VOXELS:
        raise InvalidInput(
            f"a grid of {resolution:g} mm around the structures has {shape.prod():.2g} voxels; choose a larger "
            "resolution_mm"
        )
    affine = np.diag([*sizes, 1.0])
    affine[:3, 3] = origin + (first + 0.5) * sizes
    return frame @ affine, (int(shape[0]), int(shape[1]), int(shape[2]))


def _corners_of(structure: ContourStructure) -> Array:
    """World points that a structure lies between, caps included."""
    low, high = slab_bounds(structure)
    points = np.concatenate([loop for plane in structure.planes for loop in plane.loops])
    ends = np.array([points.min(axis=0), points.max(axis=0)])
    corners = [(x, y, z) for x in ends[:, 0] for y in ends[:, 1] for z in (low[0], high[-1])]
    return apply_affine(structure.frame, corners)
