"""Structures drawn as closed contours in parallel planes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.dose.structures.overlaps import OVERLAPS, UNION, near_copies, overlapping, united

Array = npt.NDArray[np.float64]
_FLAT_MM = 0.05  # how far the points of a contour may lie off its plane, and contours of one plane from each other
_FARTHEST_MM = 1e6  # that a coordinate may be: a kilometer
_ALIGNED = 1e-6  # sine of the angle below which a normal is taken to be a world axis
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


def plane_frame(loops: Sequence[Array], name: str) -> Array:
    """Frame to world, 4 x 4, orthonormal: columns x and y in the planes, z along their normal, origin at 0.

    Loops are world points (N, 3) in mm, N >= 3; InvalidInput if they do not lie in parallel planes.
    """
    points, firsts = np.concatenate(loops), _firsts(loops)
    normal = _common_normal(_area_vectors(points, firsts))
    if normal is None:  # all of them have no area
        return np.eye(4)
    frame = np.eye(4)
    frame[:3, :3] = _axes(normal)
    low, high = _ranges(points @ frame[:3, 2], firsts)
    if (worst := float((high - low).max())) > _FLAT_MM:
        raise InvalidInput(
            f"a contour of {name!r} leaves its plane by {worst:.3g} mm; contours must be planar and parallel to each "
            "other: export the structure in one orientation"
        )
    return frame


def by_plane(loops: Sequence[Array], frame: Array) -> list[tuple[float, list[Array]]]:
    """Loops of each plane in the frame's x and y, with the plane's position along the normal, ascending, mm."""
    if not loops:
        return []
    local, firsts = apply_affine(np.linalg.inv(frame), np.concatenate(loops)), _firsts(loops)
    low, high = _ranges(local[:, 2], firsts)
    depths, parts = 0.5 * (low + high), np.split(local[:, :2], firsts[1:])
    planes: list[tuple[float, list[Array]]] = []
    for n in np.argsort(depths, kind="stable"):
        if not planes or depths[n] - planes[-1][0] > _FLAT_MM:
            planes.append((float(depths[n]), []))
        planes[-1][1].append(parts[n])
    return planes


def _firsts(loops: Sequence[Array]) -> npt.NDArray[np.int64]:
    """Where each loop begins among the points of all."""
    lengths = np.array([len(loop) for loop in loops])
    return np.cumsum(lengths) - lengths


def _ranges(values: Array, firsts: npt.NDArray[np.int64]) -> tuple[Array, Array]:
    """Least and largest value of each loop."""
    return np.minimum.reduceat(values, firsts), np.maximum.reduceat(values, firsts)


def _area_vectors(points: Array, firsts: npt.NDArray[np.int64]) -> Array:
    """Normals of loops with the lengths of their areas (Newell), shape (loops, 3)."""
    lengths = np.diff(firsts, append=len(points))
    beside = np.arange(1, len(points) + 1)
    beside[firsts + lengths - 1] = firsts  # after the last point comes the first
    local = points - np.repeat(points[firsts], lengths, axis=0)
    return np.asarray(0.5 * np.add.reduceat(np.cross(local, local[beside]), firsts))


def _common_normal(areas: Array) -> Array | None:
    """The unit normal that loops of either direction share, or None if they have no area."""
    largest = areas[(areas**2).sum(axis=1).argmax()]
    total = (np.where(areas @ largest >= 0, 1.0, -1.0)[:, None] * areas).sum(axis=0)
    length = float(np.linalg.norm(total))
    return None if length == 0 else total / length


def _axes(normal: Array) -> Array:
    """Orthonormal axes as columns, the last one along the normal; world axes where the normal is one of them."""
    main = int(np.abs(normal).argmax())
    normal = normal * np.sign(normal[main])
    if np.abs(np.delete(normal, main)).max() < _ALIGNED:
        normal = np.eye(3)[main]
    across = np.eye(3)[(main + 1) % 3]
    x = across - (across @ normal) * normal
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(normal, x), normal], axis=1)


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
class ContourStructure:
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
        Distance between slices, needed for a structure of a single plane; otherwise it follows from the planes.
    color
        Red, green, blue, 0 to 255, where it is known.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where that is known.
    notes
        What was left out, in sentences.
    overlaps
        What became of loops that overlap in part; see `contour_structure`.
    """

    name: str
    planes: tuple[Plane, ...]
    frame: Array = field(default_factory=lambda: np.eye(4))
    thickness_mm: float | None = None
    color: Color | None = None
    frame_of_reference: str = ""
    notes: tuple[str, ...] = ()
    overlaps: str = UNION

    @property
    def world_loops(self) -> list[Array]:
        """All loops, plane after plane, as world points (N, 3) in mm."""
        loops = [np.column_stack([loop, np.full(len(loop), z)]) for z, parts in self.planes for loop in parts]
        return [loop @ self.frame[:3, :3].T + self.frame[:3, 3] for loop in loops]


def contour_structure(
    name: str,
    loops: Iterable[npt.ArrayLike],
    *,
    thickness_mm: float | None = None,
    color: Color | None = None,
    frame_of_reference: str = "",
    overlaps: str = UNION,
) -> ContourStructure:
    """Make a structure of closed contours.

    Parameters
    ----------
    name
        For curves and tables.
    loops
        World points (RAS) in mm, each of shape (N, 3), in parallel planes; the last point is joined to the first.
        Direction and first point mean nothing. Those of fewer than three different points are left out, and of
        several copies of one loop (also with other digits) all but one, with a note.
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

    Raises
    ------
    InvalidInput
        If the points are not finite numbers in three dimensions, or not in parallel planes, or ``overlaps`` is another
        word.
    """
    if thickness_mm is not None and not (np.isfinite(thickness_mm) and thickness_mm > 0):
        raise InvalidInput(f"the slice thickness of {name!r} is {thickness_mm!r}; give a positive length in mm")
    if overlaps not in OVERLAPS:
        raise InvalidInput(f"overlaps of {name!r} is {overlaps!r}; give {' or '.join(map(repr, OVERLAPS))}")
    given = [_checked(loop, name) for loop in loops]
    usable = [loop for loop in given if len(loop) >= 3]
    notes = []
    if lost := len(given) - len(usable):
        notes.append(f"{lost} contours of {name!r} have fewer than three points and were left out")
    frame = plane_frame(usable, name) if usable else np.eye(4)
    planes = tuple(Plane(z, _without_copies(parts)) for z, parts in by_plane(usable, frame))
    if copies := len(usable) - sum(len(plane.loops) for plane in planes):
        notes.append(f"{copies} contours of {name!r} are copies of others and were left out")
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
    )


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
    farthest = float(np.abs(points).max())  # NaN if a point is
    if not math.isfinite(farthest):
        raise InvalidInput(f"a contour of {name!r} has points that are not finite; export the structure again")
    if farthest > _FARTHEST_MM:
        raise InvalidInput(f"a contour of {name!r} has a coordinate of {farthest:.3g} mm; give lengths in mm")
    return without_repeats(points)
