"""Structures drawn as closed contours in parallel planes."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.labels import AnyStructures
from napari_gpubio.dose.structures.overlaps import OVERLAPS, UNION, near_copies, overlapping, united
from napari_gpubio.dose.structures.planes import BENT_MM, FLAT_MM, by_plane, one_slice_each, planar_frame

Array = npt.NDArray[np.float64]
_FARTHEST_MM = 1e6  # that a coordinate may be: a kilometer
_REACH_MM = 2000.0  # from the middle of its contours, that no structure of a patient has
_ROUNDED_MM = 0.15  # by which planes that are one may lie apart since coordinates were rounded
_LIKE, _ALIKE = 0.05, 0.5  # share of area by which copies in planes beside each other may differ, as near or farther
Color = tuple[int, int, int]


def without_repeats(points: Array) -> Array:
    """The points of a loop, shape (N, 2) or (N, 3), without those that repeat the one before them."""
    return points[(points != following(points)).any(axis=1)]


def following(points: Array) -> Array:
    """The point after each one; after the last comes the first; much faster than ``numpy.roll``."""
    return np.concatenate([points[1:], points[:1]])


def without_duplicates(loops: Iterable[Array]) -> tuple[Array, ...]:
    """Loops of one plane, each kept once: two copies of the same loop would cancel by the even-odd rule."""
    parts = tuple(loops)
    return parts if len(parts) < 2 else tuple({_identity(loop): loop for loop in parts}.values())


def _identity(loop: Array) -> bytes:
    """The same for loops that differ only in where they start and which way they run."""
    first = int(np.lexsort((loop[:, 1], loop[:, 0]))[0])
    forward = np.roll(loop, -first, axis=0)
    backward = np.roll(forward[::-1], 1, axis=0)
    return min(forward.tobytes(), backward.tobytes())


class Plane(NamedTuple):
    """The loops of one plane.

    Parameters
    ----------
    position_mm
        Along the normal.
    loops
        Points in the plane, mm, each of shape (N, 2). What lies inside an odd number of them belongs to the
        structure: so a loop in a loop is a hole, and loops side by side are parts. Loops that overlap in part are
        united before; see `contour_structure`.
    """

    position_mm: float
    loops: tuple[Array, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class ContourStructure(AnyStructures):
    """Closed contours in parallel planes of any orientation; made by `contour_structure`.

    Parameters
    ----------
    name
        For curves and tables.
    planes
        In ascending position; none for an empty structure.
    frame
        Plane coordinates (x, y, position), mm, to world mm: orthonormal, 4 x 4.
    thickness_mm
        Distance between slices, needed for a structure of a single plane, or of planes that gaps part from each other;
        otherwise it follows from the planes.
    color
        Red, green, blue, 0 to 255, where it is known.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where that is known.
    notes
        What was left out, in sentences.
    overlaps
        What became of loops that overlap in part; see `contour_structure`.
    joined_mm
        Positions of planes whose distance to the next one is no gap, wide as it is, since the slices of an image or
        other structures are as far apart there; see `napari_gpubio.dose.structures.slices`.
    parted_mm
        Of each gap where other structures or the image have slices: the position of the plane before it, and how far
        the next slice lies from this plane and from the one behind the gap (0: not known).
    patient
        As `napari_gpubio.dose.Dose.patient`.
    """

    name: str
    planes: tuple[Plane, ...]
    frame: Array = field(default_factory=lambda: np.eye(4))
    thickness_mm: float | None = None
    color: Color | None = None
    frame_of_reference: str = ""
    notes: tuple[str, ...] = ()
    overlaps: str = UNION
    joined_mm: tuple[float, ...] = ()
    parted_mm: tuple[tuple[float, float, float], ...] = ()
    patient: str = ""

    @property
    def world_loops(self) -> list[Array]:
        """All loops, plane after plane, as world points (N, 3) in mm."""
        loops = [np.column_stack([loop, np.full(len(loop), z)]) for z, parts in self.planes for loop in parts]
        return [loop @ self.frame[:3, :3].T + self.frame[:3, 3] for loop in loops]


def emptied(structure: ContourStructure, reason: object) -> ContourStructure:
    """A structure without its contours, with a note that says why."""
    return dataclasses.replace(structure, planes=(), notes=(*structure.notes, f"{reason}; it was left out"))


def contour_structure(  # noqa: PLR0913 - what may be known of contours
    name: str,
    loops: Iterable[npt.ArrayLike],
    *,
    thickness_mm: float | None = None,
    color: Color | None = None,
    frame_of_reference: str = "",
    overlaps: str = UNION,
    slice_mm: float | None = None,
    joined_mm: Iterable[float] = (),
    parted_mm: Iterable[tuple[float, float, float]] = (),
) -> ContourStructure:
    """Make a structure of closed contours.

    Parameters
    ----------
    name
        For curves and tables.
    loops
        World points (RAS) in mm, each of shape (N, 3), in parallel planes; the last point is joined to the first.
        Direction and first point mean nothing. Points that lie up to 0.25 mm off their plane are moved into it. Left
        out, with a note, are those of fewer than three different points, those with points that are not finite or
        farther away than two meters, those that leave the planes of the others, and of several copies of one loop (with
        other digits, or in planes far closer to each other than slices are) all but one.
    thickness_mm
        Distance between slices, for a structure of a single plane.
    color
        Red, green, blue, 0 to 255.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where that is known.
    overlaps
        What becomes of loops of one plane that cover each other in part: ``"union"`` joins them, with a note;
        ``"xor"`` leaves out what an even number of them holds. A loop inside another one is a hole in either case, and
        so is what a loop surrounds that is joined to the outer one by a bridge (a keyhole). A loop that crosses itself
        is taken by the even-odd rule.
    slice_mm
        Least distance of slices where it is known, to tell copies of a contour beside it from slices of their own; 0
        to keep all of them.
    joined_mm, parted_mm
        See `ContourStructure`.

    Raises
    ------
    InvalidInput
        If none of the loops with three points or more can be used, points are not in three dimensions, or ``overlaps``
        is another word.
    """
    if thickness_mm is not None and not (np.isfinite(thickness_mm) and thickness_mm > 0):
        raise InvalidInput(f"the slice thickness of {name!r} is {thickness_mm!r}; give a positive length in mm")
    if overlaps not in OVERLAPS:
        raise InvalidInput(f"overlaps of {name!r} is {overlaps!r}; give {' or '.join(map(repr, OVERLAPS))}")
    usable, notes = _usable([_checked(loop, name) for loop in loops], name)
    frame, off = planar_frame(usable) if usable else (np.eye(4), np.empty(0))
    flat = [loop for loop, height in zip(usable, off, strict=True) if height <= BENT_MM]
    if bent := len(usable) - len(flat):
        notes.append(f"{bent} contours of {name!r} leave their plane by up to {off.max():.3g} mm and were left out")
    if usable and not flat:
        raise InvalidInput(
            f"a contour of {name!r} leaves its plane by {off.max():.3g} mm; contours must be planar and parallel to "
            "each other: export the structure in one orientation"
        )
    rounded = off[(off > FLAT_MM) & (off <= BENT_MM)]
    if len(rounded):
        notes.append(
            f"points of {len(rounded)} contours of {name!r} lie up to {rounded.max():.2g} mm off a plane, as rounded "
            "ones do, and are taken to lie in it"
        )
    planes, found = _slices(by_plane(flat, frame, off[off <= BENT_MM]), name, slice_mm)
    notes += found
    if overlaps == UNION:
        planes, more = _without_overlaps(planes, name)
        notes += more
    return ContourStructure(
        name=name,
        planes=planes,
        frame=frame,
        thickness_mm=thickness_mm,
        color=color,
        frame_of_reference=frame_of_reference,
        notes=tuple(notes),
        overlaps=overlaps,
        joined_mm=tuple(joined_mm),
        parted_mm=tuple(parted_mm),
    )


def on_slices(structure: ContourStructure, slice_mm: float | None) -> ContourStructure:
    """A structure without copies of contours beside them, where the distance of slices became known later."""
    planes, notes = _slices(structure.planes, structure.name, slice_mm)
    if len(planes) == len(structure.planes):
        return structure
    united, more = _without_overlaps(planes, structure.name) if structure.overlaps == UNION else (planes, [])
    return dataclasses.replace(structure, planes=united, notes=(*structure.notes, *notes, *more))


def _slices(
    drawn: Sequence[tuple[float, Sequence[Array]]], name: str, slice_mm: float | None
) -> tuple[tuple[Plane, ...], list[str]]:
    """The planes of slices, each loop kept once, and in sentences what was left out.

    Planes far closer to each other than slices are become one. Contours that are like those of the plane with most of
    them are copies, no holes of those around them, and left out; the less alike, the farther they lie apart.
    """
    found, apart = [], 0.0
    for group in one_slice_each(np.array([z for z, _ in drawn]), slice_mm):
        parts = sorted((drawn[n] for n in group), key=lambda part: -len(part[1]))
        width, loops = drawn[group[-1]][0] - drawn[group[0]][0], list(parts[0][1])
        share = _LIKE if width <= _ROUNDED_MM else _ALIKE
        more = [
            one for _, own in parts[1:] for one in own if not any(near_copies([loop, one], share) for loop in loops)
        ]
        found.append(Plane(drawn[group[0]][0] + 0.5 * width, _without_copies([*loops, *more])))
        apart = max(apart, width)
    notes = []
    if apart > FLAT_MM:
        notes.append(f"contours of {name!r} up to {apart:.2g} mm beside each other are taken to lie in one plane")
    if copies := sum(len(loops) for _, loops in drawn) - sum(len(plane.loops) for plane in found):
        notes.append(f"{copies} contours of {name!r} are copies of others and were left out")
    return tuple(found), notes


def _without_copies(loops: Sequence[Array]) -> tuple[Array, ...]:
    """Loops of one plane, each kept once, also where it was written with other digits."""
    parts = without_duplicates(loops)
    copies = near_copies(parts) if len(parts) > 1 else ()
    return tuple(loop for n, loop in enumerate(parts) if n not in copies) if copies else parts


def _without_overlaps(planes: tuple[Plane, ...], name: str) -> tuple[tuple[Plane, ...], list[str]]:
    """Planes whose loops are united where they cover each other in part, and that in sentences."""
    if all(len(plane.loops) == 1 for plane in planes):
        return planes, []
    found, joined, kept = [], 0, 0
    for plane in planes:
        loops = plane.loops
        for group in overlapping(loops) if len(loops) > 1 else ():
            around = united([plane.loops[n] for n in group])
            if around is None:
                kept += 1
            else:
                joined += 1
                members = {id(plane.loops[n]) for n in group}
                loops = (*(loop for loop in loops if id(loop) not in members), *around)
        found.append(Plane(plane.position_mm, loops))
    notes = []
    if joined:
        notes.append(
            f"contours of {name!r} overlap in part {joined} times and are united there; overlaps='xor' (--overlaps "
            "xor) leaves out what two of them hold"
        )
    if kept:
        notes.append(
            f"contours of {name!r} overlap in part {kept} times and cannot be united; what two hold is left out"
        )
    return tuple(found), notes


def _checked(loop: npt.ArrayLike, name: str) -> Array:
    points = np.asarray(loop, np.float64)
    if points.size == 0:
        return np.empty((0, 3))
    if points.ndim != 2 or points.shape[1] != 3:
        raise InvalidInput(f"a contour of {name!r} has shape {points.shape}; give points (N, 3) in mm")
    return without_repeats(points)


def _usable(loops: Sequence[Array], name: str) -> tuple[list[Array], list[str]]:
    """Loops that can be contours, and in sentences which others were left out; InvalidInput if all others are bad."""
    drawn = [loop for loop in loops if len(loop) >= 3]
    reach = [float(np.abs(loop).max()) for loop in drawn]  # NaN if a point is
    finite = [one for one in reach if math.isfinite(one)]
    farthest = max(finite, default=0.0)
    usable = [loop for loop, one in zip(drawn, reach, strict=True) if one <= _FARTHEST_MM]
    if farthest > _REACH_MM / 2 and usable:
        center = np.median([loop.mean(axis=0) for loop in usable], axis=0)
        usable = [loop for loop in usable if np.abs(loop - center).max() <= _REACH_MM]
    if drawn and not usable:
        raise InvalidInput(
            f"a contour of {name!r} has a coordinate of {farthest:.3g} mm; give lengths in mm"
            if finite
            else f"a contour of {name!r} has points that are not finite; export the structure again"
        )
    counts = {
        "have fewer than three points": len(loops) - len(drawn),
        "have points that are not finite": len(drawn) - len(finite),
        f"have coordinates of up to {farthest:.3g} mm, far from the others,": len(finite) - len(usable),
    }
    return usable, [f"{n} contours of {name!r} {why} and were left out" for why, n in counts.items() if n]
