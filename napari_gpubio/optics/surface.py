"""The surface of a label volume: where a ray meets it, the nearest point of it, its inward normal; and what lies there.

The surface is made of the faces between tissue (any label) and the outside (label 0, or beyond the grid), as the engine
sees it. Positions and directions are world mm; ``affine`` takes the index of a voxel's center to the world.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.space import apply_affine, in_grid, nearest_voxels, rotation_of, voxel_sizes_mm
from napari_gpubio.optics.model import OUTSIDE
from napari_gpubio.optics.sources import (
    AllRound,
    Disk,
    EmittingVolume,
    Gaussian,
    Hyperboloid,
    Rectangle,
    Round,
    Source,
)

Array = npt.NDArray[Any]
Point = npt.NDArray[np.float64]
LIFT = 1e-3  # a source on the surface floats above it by this share of a voxel's smallest edge, so it is not in tissue
_SIGMA_VOXELS = 2.5  # fewer leave the steps of the voxels in the normal, more round off what is truly curved
_CLEAR_VOXELS, _STEPS_ACROSS = 4.0, 7
_PARTS_ACROSS, _PARTS_AROUND = 20, 24
_FIRST_BOX = 8  # voxels to each side; most points that are looked for are that near


def label_at(labels: Array, affine: Array, position_mm: npt.ArrayLike) -> int:
    """Label at a world position; 0 outside the grid."""
    voxel = nearest_voxels(affine, position_mm)
    if (voxel < 0).any() or (voxel >= labels.shape).any():
        return OUTSIDE
    return int(labels[tuple(voxel)])


def first_tissue(
    labels: Array, affine: Array, start_mm: npt.ArrayLike, direction: npt.ArrayLike, *, whole_line: bool = False
) -> Point | None:
    """Where a ray first is in tissue, or None if it never is.

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z).
    start_mm, direction
        The ray, world; a start in tissue is the answer itself.
    whole_line
        Begin infinitely far behind ``start_mm``, as for the line of sight through a pixel.
    """
    # in voxels, from the outer corner of the first one: the voxel i lies between i and i + 1
    inverse = np.linalg.inv(affine)
    start = apply_affine(inverse, start_mm) + 0.5
    step = inverse[:3, :3] @ np.asarray(direction, np.float64)
    crossings = _crossings(start, step, labels.shape, -np.inf if whole_line else 0.0)
    if crossings is None:
        return None
    middles = start + step * ((crossings[:-1] + crossings[1:]) / 2)[:, None]
    voxels = np.clip(np.floor(middles).astype(int), 0, np.array(labels.shape) - 1)
    hits = np.flatnonzero(labels[tuple(voxels.T)] != OUTSIDE)
    if not len(hits):
        return None
    return np.asarray(start_mm, np.float64) + crossings[hits[0]] * np.asarray(direction, np.float64)


def _crossings(start: Point, step: Point, shape: tuple[int, ...], earliest: float) -> Array | None:
    """Parameters of a line where it passes from voxel to voxel, with both ends; None if it misses the grid."""
    moving = np.flatnonzero(np.abs(step) > 1e-12 * np.linalg.norm(step))
    still = np.setdiff1d(range(3), moving)
    if (start[still] < 0).any() or (start[still] >= np.array(shape)[still]).any():
        return None
    faces = np.sort([-start[moving] / step[moving], (np.array(shape) - start)[moving] / step[moving]], axis=0)
    first, last = max(faces[0].max(), earliest), faces[1].min()
    if first >= last:
        return None
    inner = np.concatenate([(np.arange(1, shape[axis]) - start[axis]) / step[axis] for axis in moving])
    return np.concatenate([[first], np.sort(inner[(inner > first) & (inner < last)]), [last]])


def nearest_surface(labels: Array, affine: Array, position_mm: npt.ArrayLike, *, across: int | None = None) -> Point:
    """The point of the surface nearest to a world position.

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z); its axes must be perpendicular.
    position_mm
        World position.
    across
        A voxel axis: stay in the slice across it that the position lies in.

    Raises
    ------
    InvalidInput
        If there is no tissue (in that slice).
    """
    sizes = voxel_sizes_mm(affine)
    place = (apply_affine(np.linalg.inv(affine), position_mm) + 0.5) * sizes  # mm along the axes of the volume
    if across is not None and not 0 <= place[across] < labels.shape[across] * sizes[across]:
        raise InvalidInput("the click is outside the volume; click near the tissue")
    reach = _FIRST_BOX * float(sizes.min())
    while True:
        found, covered = _nearest_in_box(labels, sizes, place, reach, across)
        if found is not None and (covered or np.linalg.norm(found - place) <= reach):
            return apply_affine(affine, found / sizes - 0.5)
        if covered:
            raise InvalidInput("there is no tissue here (every voxel is 0); choose another slice, or label the tissue")
        reach *= 2


def _nearest_in_box(
    labels: Array, sizes: Point, place: Point, reach: float, across: int | None
) -> tuple[Point | None, bool]:
    """Nearest point on a face of the voxels within ``reach`` mm, and whether these are all there are."""
    shape = np.array(labels.shape)
    low, high = np.floor((place - reach) / sizes).astype(int), np.floor((place + reach) / sizes).astype(int) + 1
    if across is not None:
        low[across] = np.floor(place[across] / sizes[across])
        high[across] = low[across] + 1
    free = [axis for axis in range(3) if axis != across]
    covered = bool((low[free] <= 0).all() and (high[free] >= shape[free]).all())
    low, high = np.clip(low, 0, shape), np.clip(high, 0, shape)
    if (low >= high).any():
        return None, covered
    # one voxel more to each side, to see the neighbors; beyond the grid is the outside
    outer = tuple(slice(max(a - 1, 0), b + 1) for a, b in zip(low, high, strict=True))
    missing = [(int(a == 0), int(b == n)) for a, b, n in zip(low, high, shape, strict=True)]
    tissue = np.pad(labels[outer] != OUTSIDE, missing)
    candidates = [_nearest_on_faces(tissue, low, sizes, place, axis, side) for axis in free for side in (0, 1)]
    points = [point for point in candidates if point is not None]
    return min(points, key=lambda point: float(np.linalg.norm(point - place)), default=None), covered


def _nearest_on_faces(tissue: Array, low: Array, sizes: Point, place: Point, axis: int, side: int) -> Point | None:
    """Nearest point on the faces that look along one axis to one side; ``tissue`` has a border of one voxel."""
    inner = (slice(1, -1),) * 3
    neighbor = list(inner)
    neighbor[axis] = slice(2, None) if side else slice(0, -2)
    corners = (np.argwhere(tissue[inner] & ~tissue[tuple(neighbor)]) + low) * sizes
    if not len(corners):
        return None
    points = np.clip(place, corners, corners + sizes)
    points[:, axis] = corners[:, axis] + side * sizes[axis]
    return np.asarray(points[np.argmin(((points - place) ** 2).sum(axis=1))])


def inward_normal(
    labels: Array, affine: Array, position_mm: npt.ArrayLike, *, smoothing_mm: float | None = None
) -> Point:
    """Unit vector into the tissue: the gradient of the tissue mask, smoothed with a Gaussian, at a world position.

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z); its axes must be perpendicular.
    position_mm
        World position, on the surface or near it.
    smoothing_mm
        Standard deviation of the Gaussian; by default 2.5 of the voxel's longest edges.

    Raises
    ------
    InvalidInput
        If there is no surface within three standard deviations.

    Notes
    -----
    The Gaussian is integrated over each voxel, so that the normal is exact for the voxels as they are, whatever their
    shape, and changes smoothly with the position.
    """
    from scipy.special import ndtr

    sizes = voxel_sizes_mm(affine)
    sigma = usual_smoothing_mm(affine) if smoothing_mm is None else float(smoothing_mm)
    if not (np.isfinite(sigma) and sigma > 0):
        raise InvalidInput(f"smoothing_mm is {smoothing_mm}; it must be greater than 0")
    tissue, low, place = tissue_within(labels, affine, position_mm, 3 * sigma)
    edges = [(np.arange(low[a], low[a] + tissue.shape[a] + 1) * sizes[a] - place[a]) / sigma for a in range(3)]
    whole = [np.diff(ndtr(edge)) for edge in edges]
    slope = [-np.diff(np.exp(-(edge**2) / 2)) for edge in edges]  # of the integral, when the position moves
    gradient = np.array(
        [
            np.einsum("ijk,i,j,k->", tissue, *[slope[b] if b == a else whole[b] for b in range(3)], optimize=True)
            for a in range(3)
        ]
    )
    length = np.linalg.norm(gradient)
    if length < 1e-6:
        raise InvalidInput(
            "there is no surface near this position, so it has no normal; move it to the surface, or give a direction"
        )
    return np.asarray(rotation_of(affine) @ (gradient / length))


def usual_smoothing_mm(affine: Array) -> float:
    """Standard deviation of the Gaussian that smooths the tissue for its normals, mm."""
    return _SIGMA_VOXELS * float(voxel_sizes_mm(affine).max())


def tissue_within(
    labels: Array, affine: Array, position_mm: npt.ArrayLike, reach_mm: float
) -> tuple[Array, Array, Point]:
    """Mask of the tissue near a position, its first voxel, and the position in mm from the first voxel's outer corner.

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z).
    position_mm
        World position.
    reach_mm
        How far the mask goes to each side along the axes of the volume, at least, as far as the volume does.
    """
    sizes = voxel_sizes_mm(affine)
    place = (apply_affine(np.linalg.inv(affine), position_mm) + 0.5) * sizes
    low = np.clip(np.floor((place - reach_mm) / sizes).astype(int), 0, labels.shape)
    high = np.clip(np.ceil((place + reach_mm) / sizes).astype(int), 0, labels.shape)
    return labels[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] != OUTSIDE, low, place


def above_surface(affine: Array, point_mm: npt.ArrayLike, normal: npt.ArrayLike) -> Point:
    """Just outside a point of the surface, so that what is there counts as outside (and loses its specular part)."""
    lift = LIFT * float(voxel_sizes_mm(affine).min())
    return np.asarray(point_mm, np.float64) - lift * np.asarray(normal, np.float64)


def clearance_mm(labels: Array, affine: Array, source: Source) -> float:
    """How far before its position a wide collimated beam must start so that all of it starts outside the tissue.

    A flat disk that touches a curved surface lies partly in the tissue; light that starts there would miss the specular
    reflection and a part of its way. The kinds that are no collimated beams, and points, need no clearance.
    """
    deepest = _deepest_mm(labels, affine, source, across_beam(source))
    return deepest + LIFT * float(voxel_sizes_mm(affine).min()) if deepest > 0 else 0.0


def _deepest_mm(labels: Array, affine: Array, source: Source, across: Point) -> float:
    """How far behind the surface, along its direction, the deepest of some points of a source's cross-section lies."""
    if not len(across):
        return 0.0
    ahead = source.frame()[2]
    reach = float(np.linalg.norm(across, axis=1).max()) + _CLEAR_VOXELS * float(voxel_sizes_mm(affine).max())
    deepest = 0.0
    for place in np.asarray(source.position_mm) + across:
        hit = first_tissue(labels, affine, place - reach * ahead, ahead)
        if hit is not None:
            deepest = max(deepest, float((place - hit) @ ahead))
    return deepest


def across_beam(source: Source) -> Point:
    """Points all over the cross-section of a collimated beam, from its middle, mm, shape (N, 3)."""
    u, v, _ = source.frame()
    if isinstance(source, Rectangle):
        steps = np.linspace(-0.5, 0.5, _STEPS_ACROSS)
        first, second = np.meshgrid(steps * source.width_mm, steps * source.across_mm)
    elif isinstance(source, (Disk, Gaussian, Hyperboloid)):
        # at twice its 1/e^2 radius a Gaussian beam has fallen to 3e-4
        radii = np.linspace(0.0, source.outer_radius_mm * (1.0 if isinstance(source, Disk) else 2.0), 5)
        first, second = (np.outer(radii, f(np.linspace(0.0, 2 * np.pi, 12, endpoint=False))) for f in (np.cos, np.sin))
    else:
        return np.empty((0, 3))
    return np.asarray(first.ravel()[:, None] * u + second.ravel()[:, None] * v)


def share_inside(labels: Array, affine: Array, source: Source) -> float:
    """Part of the light of a disk, a beam or a rectangle that starts in tissue, from 0 to 1.

    Between 0 and 1 the surface cuts the source: what starts behind it has no specular reflection and a shorter way.

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z).
    source
        The source; one that is a point or a line starts on one side.
    """
    places = np.asarray(source.position_mm) + _equal_parts(source)
    return np.count_nonzero(_labels_at(labels, affine, places) != OUTSIDE) / len(places)


def _labels_at(labels: Array, affine: Array, places: Array) -> Array:
    """Labels at world points, shape (N, 3); those beyond the grid are left out."""
    voxels = nearest_voxels(affine, places)
    return labels[tuple(voxels[in_grid(voxels, labels.shape)].T)]


def depth_inside_mm(labels: Array, affine: Array, source: Source) -> float:
    """How far a source reaches below the surface: along its direction, to the deepest part that starts in tissue.

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z).
    source
        The source, some of which lies outside.
    """
    return _deepest_mm(labels, affine, source, _equal_parts(source))


def _equal_parts(source: Source) -> Point:
    """Points of a source's cross-section that stand for as much light each, from its middle, mm, shape (N, 3)."""
    u, v, _ = source.frame()
    shares = (np.arange(_PARTS_ACROSS) + 0.5) / _PARTS_ACROSS
    if isinstance(source, Rectangle):
        first, second = np.meshgrid((shares - 0.5) * source.width_mm, (shares - 0.5) * source.across_mm)
    elif isinstance(source, Round):
        is_beam = isinstance(source, (Gaussian, Hyperboloid))
        radii = source.outer_radius_mm * np.sqrt(-0.5 * np.log(1.0 - shares) if is_beam else shares)
        turns = 2.0 * np.pi * np.arange(_PARTS_AROUND) / _PARTS_AROUND
        first, second = np.outer(radii, np.cos(turns)), np.outer(radii, np.sin(turns))
    else:
        first = second = np.zeros((1, 1))
    return np.asarray(first.ravel()[:, None] * u + second.ravel()[:, None] * v)


def emits_inside(labels: Array, affine: Array, source: EmittingVolume) -> bool:
    """Whether the center of a cell of an emitting volume that emits lies in tissue."""
    emission, frame = source.pattern, source.frame()
    sizes = np.array([source.width_mm, source.height_mm, source.length_mm])
    for plane in np.flatnonzero(emission.any(axis=(1, 2))):
        cells = np.insert(np.argwhere(emission[plane] > 0), 0, plane, axis=1)
        from_middle = ((cells + 0.5) / emission.shape - 0.5) * sizes
        places = np.asarray(source.position_mm) + from_middle @ frame
        if (_labels_at(labels, affine, places) != OUTSIDE).any():
            return True
    return False


def source_problem(labels: Array, affine: Array, source: Source) -> str:
    """Return what the user should know about where a source is, or an empty text.

    Parameters
    ----------
    labels, affine
        The volume, shape (X, Y, Z).
    source
        The source.
    """
    if isinstance(source, EmittingVolume):
        return "" if emits_inside(labels, affine, source) else "No cell of the volume that emits lies in the tissue."
    if label_at(labels, affine, source.position_mm) != OUTSIDE:
        return ""
    if isinstance(source, AllRound):
        return (
            f"The source is outside the tissue (label 0) and a source of kind '{source.kind}' emits in all "
            "directions: the light that goes away from the tissue is lost. Move it into the tissue."
        )
    hit = first_tissue(labels, affine, source.position_mm, source.direction)
    if hit is None and first_tissue(labels, affine, source.position_mm, source.direction, whole_line=True) is None:
        return (
            "The source is outside the tissue, and its line passes the tissue by, so no light enters. Move it, or turn "
            "it to the tissue."
        )
    if hit is None:
        return "The source is outside the tissue and points away from it, so no light enters. Reverse its direction."
    gap = float(np.linalg.norm(hit - source.position_mm))
    if gap > 2 * voxel_sizes_mm(affine).max():
        return f"The source is {short_number(gap, 3)} mm away from the tissue it points at (it is in label 0)."
    return ""
