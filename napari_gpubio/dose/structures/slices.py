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

from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.outlines import is_longer, wide_distances
from napari_gpubio.dose.structures.planes import FLAT_MM

Array = npt.NDArray[np.float64]
_PARALLEL = 1e-3  # sine of the angle between normals of slices that are the same
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
        With `ContourStructure.joined_mm`, and ``thickness_mm`` where a structure has a single plane and none; with a
        note.
    """
    positions = [np.array([plane.position_mm for plane in one.planes]) for one in structures]
    found = []
    for n, one in enumerate(structures):
        others = [
            positions[m]
            for m, other in enumerate(structures)
            if m != n and len(positions[m]) and _are_of_one_image(one, other)
        ]
        image = [] if len({one.frame_of_reference, image_frame} - {""}) > 1 else _along(one, image_slices)
        if len(positions[n]) > 1:
            gaps, between = np.diff(positions[n]), _between(positions[n], [*others, *image])
            is_gap = [row is not None and is_longer(gaps, m, row) for m, row in enumerate(between)]
            parted = tuple(positions[n][:-1][is_gap].tolist())
            known = dataclasses.replace(one, joined_mm=_joined(positions[n], others, image), parted_mm=parted)
            if all(is_gap) and one.thickness_mm is None:
                slices = [np.diff(row) for row in between if row is not None]
                known = dataclasses.replace(known, thickness_mm=float(np.median(np.concatenate(slices))))
            if any(row is not None and not gap for row, gap in zip(between, is_gap, strict=True)):
                text = f"there are slices between contours of {one.name!r} that are no farther apart than others"
                known = dataclasses.replace(
                    known, notes=(*known.notes, f"{text}; each holds half way to its neighbors")
                )
            found.append(known)
        elif len(positions[n]) == 1 and one.thickness_mm is None:
            found.append(_thick(one, float(positions[n][0]), others, image))
        else:
            found.append(one)
    return found


def _are_of_one_image(one: ContourStructure, other: ContourStructure) -> bool:
    normals = one.frame[:3, 2], other.frame[:3, 2]
    is_parallel = float(np.linalg.norm(np.cross(*normals))) < _PARALLEL
    return one.frame_of_reference == other.frame_of_reference and is_parallel


def _along(structure: ContourStructure, image_slices: npt.ArrayLike | None) -> list[Array]:
    """Positions of an image's slices along a structure's normal, if it was drawn on them."""
    points = np.empty((0, 3)) if image_slices is None else np.asarray(image_slices, np.float64)
    if len(points) < 2:
        return []
    normal, way = structure.frame[:3, 2], points[-1] - points[0]
    if np.linalg.norm(np.cross(way, normal)) > _PARALLEL * np.linalg.norm(way):
        return []
    return [np.sort(points @ normal)]


def _between(positions: Array, others: Sequence[Array]) -> list[Array | None]:
    """Others that have planes between each plane and the next; None where nobody has."""
    found = []
    for low, high in pairwise(positions):
        rows = (one for one in others if len(one) > 1 and ((one > low + FLAT_MM) & (one < high - FLAT_MM)).any())
        found.append(next(rows, None))
    return found


def _joined(positions: Array, others: Sequence[Array], image: Sequence[Array]) -> tuple[float, ...]:
    """Planes after which a wide distance is none, since others have slices as far apart there and none between.

    Slices of an image have no gaps; those of a structure may, as its own.
    """
    found = []
    for n in np.flatnonzero(wide_distances(np.diff(positions))):
        low, high = positions[n], positions[n + 1]
        if any(((one > low + FLAT_MM) & (one < high - FLAT_MM)).any() for one in (*others, *image)):
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
    return places[1] == places[0] + 1 and bool(np.abs(positions[places] - (low, high)).max() <= FLAT_MM)


def _thick(
    structure: ContourStructure, position: float, others: Sequence[Array], image: Sequence[Array]
) -> ContourStructure:
    """A structure of a single plane with the distance of the slices around it; unchanged where none is known."""
    rows = [one for one in (*others, *image) if len(one) > 1]
    if not rows:
        return structure
    widest = _FAR * max(float(np.median(np.diff(one))) for one in rows)
    apart = np.concatenate([*rows, *others]) - position
    near = [side.min(initial=np.inf) for side in (apart[apart > FLAT_MM], -apart[apart < -FLAT_MM])]
    near = [distance for distance in near if distance <= widest]
    thickness = float(np.mean(near)) if near else min(float(np.median(np.diff(one))) for one in rows)
    source = "slices of the image" if image else "slices of other structures"
    note = f"{structure.name!r} lies in a single plane and is taken to be {thickness:.3g} mm thick, as {source}"
    return dataclasses.replace(structure, thickness_mm=thickness, notes=(*structure.notes, note))
