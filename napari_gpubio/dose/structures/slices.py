"""What structures that were drawn on the same slices, and the image that has them, tell of each other's slices.

A distance of planes that is longer than those beside it is a gap of a structure where others have planes in it; where
others have slices as far apart, it is none. A structure of a single plane is as thick as the slices around it are
apart.
"""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.contours import ContourStructure, on_slices
from napari_gpubio.dose.structures.outlines import UNEVEN, is_longer, wide_distances

Array = npt.NDArray[np.float64]
_PARALLEL = 1e-3  # sine of the angle between normals of slices that are the same
_TELLING = 2  # planes of another structure, that more are needed of to tell how far slices are apart
_BESIDE = 0.15  # share of the distance of planes, by which positions of other structures may differ
_ON_SLICE = 0.25  # share of the distance of slices, by which a plane may lie beside the slice that it was drawn on
_FAR = 1.9  # times the widest distance of slices: what is farther away is no neighbor


def with_slices(
    structures: Sequence[ContourStructure], image_slices: npt.ArrayLike | None = None, image_frame: str = ""
) -> list[ContourStructure]:
    """Structures with what the others, and an image, tell of the slices they were drawn on.

    Parameters
    ----------
    structures
        Those of one file.
    image_slices
        World position (mm) of the same pixel of each slice of the image, shape (K, 3), ascending along its normal.
    image_frame
        The frame of reference of the image, where it is known.

    Returns
    -------
    structures
        Without copies of contours beside them, with `ContourStructure.joined_mm` and ``parted_mm``, and with
        ``thickness_mm`` where a structure has a single plane and none; with notes.
    """
    structures = _without_copies(structures, image_slices, image_frame)
    positions = [_positions(one) for one in structures]
    found = []
    for n, (one, own) in enumerate(zip(structures, positions, strict=True)):
        pairs = zip(structures[:n] + structures[n + 1 :], positions[:n] + positions[n + 1 :], strict=True)
        others = [row for other, row in pairs if len(row) and _are_of_one_image(one, other)]
        image = _along(one, image_slices, image_frame)
        if len(own) > 1:
            found.append(_parted(one, own, others, image))
        elif len(own) == 1 and one.thickness_mm is None:
            found.append(_thick(one, float(own[0]), others, image))
        else:
            found.append(one)
    return found


def _parted(
    structure: ContourStructure, own: Array, others: Sequence[Array], image: Sequence[Array]
) -> ContourStructure:
    """A structure of several planes with what is known of the distances between them."""
    between = _between(own, [*image, *others])
    is_gap = [row is not None and is_longer(_in_slices(own, row), n, row) for n, row in enumerate(between)]
    thickness, notes = structure.thickness_mm, structure.notes
    if all(is_gap) and thickness is None:
        thickness = float(np.median(np.concatenate([np.diff(row) for row in between if row is not None])))
    if any(row is not None and not gap for row, gap in zip(between, is_gap, strict=True)):
        text = f"there are slices between contours of {structure.name!r} that are no farther apart than others"
        notes = (*notes, f"{text}; each holds half way to its neighbors")
    return dataclasses.replace(
        structure,
        joined_mm=_joined(own, others, image),
        parted_mm=tuple(_gap(own[n], own[n + 1], [*others, *image]) for n in np.flatnonzero(is_gap)),
        thickness_mm=thickness,
        notes=notes,
    )


def _in_slices(positions: Array, slices: Array) -> Array:
    """Distances of planes: in slices that lie at all of them, or else in mm."""
    gaps, apart = np.diff(positions), np.abs(slices - positions[:, None])
    counts = np.diff(apart.argmin(axis=1))
    is_there = (counts > 0).all() and (apart.min(axis=1) <= _BESIDE * gaps.min()).all()
    return counts.astype(np.float64) if is_there and len(counts) > 1 else gaps


def _gap(low: float, high: float, others: Sequence[Array]) -> tuple[float, float, float]:
    """The position of the plane before a gap, and how far the next slices in it lie from its ends; 0: not known."""
    found = []
    for end, way in ((low, 1), (high, -1)):
        along = [way * (row - end)[::way] for row in others]  # ascending into the gap
        near = [row[n : n + 2] for row in along if (n := int(np.abs(row).argmin())) + 1 < len(row)]
        apart = [float(b - a) for a, b in near if abs(a) <= _BESIDE * (b - a) and b - a < high - low]
        found.append(min(apart, default=0.0))
    return float(low), found[0], found[1]


def _without_copies(
    structures: Sequence[ContourStructure], image_slices: npt.ArrayLike | None, image_frame: str
) -> list[ContourStructure]:
    """Structures without copies of contours, by the slices of the image, or of the structure with most planes."""
    alone = [on_slices(one, None) for one in structures]
    found = []
    for one, own in zip(structures, alone, strict=True):
        rows = [_positions(other) for other in alone if other is not own and _are_of_one_image(own, other)]
        most = max(_along(one, image_slices, image_frame) or rows, key=len, default=np.empty(0))
        found.append(on_slices(one, float(np.diff(most).min())) if len(most) > _TELLING else own)
    return found


def _positions(structure: ContourStructure) -> Array:
    return np.array([plane.position_mm for plane in structure.planes])


def _are_of_one_image(one: ContourStructure, other: ContourStructure) -> bool:
    cosine = abs(float(one.frame[:3, 2] @ other.frame[:3, 2]))
    return one.frame_of_reference == other.frame_of_reference and cosine > 1 - 0.5 * _PARALLEL**2


def _along(structure: ContourStructure, image_slices: npt.ArrayLike | None, image_frame: str) -> list[Array]:
    """Positions of an image's slices along a structure's normal, if it was drawn on them."""
    points = np.empty((0, 3)) if image_slices is None else np.asarray(image_slices, np.float64)
    if len(points) < 2 or len({structure.frame_of_reference, image_frame} - {""}) > 1:
        return []
    normal, way = structure.frame[:3, 2], points[-1] - points[0]
    if np.linalg.norm(np.cross(way, normal)) > _PARALLEL * np.linalg.norm(way):
        return []
    return [np.sort(points @ normal)]


def _between(positions: Array, others: Sequence[Array]) -> list[Array | None]:
    """Others that have planes between each plane and the next, and closer ones than these; None where nobody has."""
    several = [one for one in others if len(one) > 1]
    return [next((one for one in several if _has_closer(one, *ends)), None) for ends in pairwise(positions)]


def _has_closer(positions: Array, low: float, high: float) -> bool:
    """Whether some positions lie between two, and are closer to each other there."""
    return _has_some(positions, low, high) and high - low > UNEVEN * _closest(positions, low, high)


def _has_some(positions: Array, low: float, high: float) -> bool:
    """Whether some positions lie between two, and not beside them."""
    beside = _BESIDE * min(high - low, _closest(positions, low, high))
    return bool(((positions > low + beside) & (positions < high - beside)).any())


def _closest(positions: Array, low: float, high: float) -> float:
    """The least distance of positions around or between two; infinite where there is none."""
    return float(np.diff(positions)[(positions[1:] > low) & (positions[:-1] < high)].min(initial=np.inf))


def _joined(positions: Array, others: Sequence[Array], image: Sequence[Array]) -> tuple[float, ...]:
    """Planes after which a wide distance is none, since others have slices as far apart there and none between.

    Slices of an image have no gaps; those of a structure may, as its own.
    """
    found = []
    for n in np.flatnonzero(wide_distances(np.diff(positions))):
        low, high = positions[n], positions[n + 1]
        if any(_has_some(one, low, high) for one in (*others, *image)):
            continue
        of_image = any(_are_neighbors(one, low, high) for one in image)
        if of_image or any(_has_slices_at(one, low, high) for one in others):
            found.append(float(low))
    return tuple(found)


def _has_slices_at(positions: Array, low: float, high: float) -> bool:
    """Whether two positions are neighboring planes of a structure, without a gap between them."""
    place = int(np.abs(positions - low).argmin())
    return _are_neighbors(positions, low, high) and not wide_distances(np.diff(positions))[place]


def _are_neighbors(positions: Array, low: float, high: float) -> bool:
    places = [int(np.abs(positions - end).argmin()) for end in (low, high)]
    return places[1] == places[0] + 1 and bool(np.abs(positions[places] - (low, high)).max() <= _BESIDE * (high - low))


def _thick(
    structure: ContourStructure, position: float, others: Sequence[Array], image: Sequence[Array]
) -> ContourStructure:
    """A structure of a single plane with the distance of the slices around it; unchanged where none is known."""
    rows = [one for one in (*others, *image) if len(one) > 1]
    if not rows:
        return structure
    usual = [float(np.median(np.diff(one))) for one in rows]
    apart, beside = np.concatenate([*rows, *others]) - position, _ON_SLICE * min(usual)
    closest = apart[np.abs(apart).argmin()]
    is_on_slice = abs(closest) <= beside
    apart = apart - closest if is_on_slice else apart
    near = [side.min(initial=np.inf) for side in (apart[apart > beside], -apart[apart < -beside])]
    near = [distance for distance in near if distance <= _FAR * max(usual)]
    if is_on_slice:
        near = [float(np.mean(near))] if near else []
    elif len(near) < 2:
        near = []
    thickness = sum(near) or min(usual)
    source = "slices of the image" if image else "slices of other structures"
    note = f"{structure.name!r} lies in a single plane and is taken to be {thickness:.3g} mm thick, as {source}"
    return dataclasses.replace(structure, thickness_mm=thickness, notes=(*structure.notes, note))
