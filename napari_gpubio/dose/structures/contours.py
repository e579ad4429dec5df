"""A structure drawn as closed contours in parallel planes."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.frames import by_plane, plane_frame
from napari_gpubio.dose.structures.loops import without_duplicates, without_repeats

Array = npt.NDArray[np.float64]
Color = tuple[int, int, int]


class Plane(NamedTuple):
    """The loops of one plane.

    Parameters
    ----------
    position_mm
        Along the normal.
    loops
        Points in the plane, mm, each of shape (N, 2). What lies inside an odd number of them belongs to the
        structure: so a loop in a loop is a hole, and loops side by side are parts.
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
        Distance between slices, needed for a structure of a single plane; otherwise the planes tell it.
    color
        Red, green, blue, 0 to 255, where it is known.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where that is known.
    notes
        What was left out, in sentences.
    """

    name: str
    planes: tuple[Plane, ...]
    frame: Array = field(default_factory=lambda: np.eye(4))
    thickness_mm: float | None = None
    color: Color | None = None
    frame_of_reference: str = ""
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The structure's name, as the other kinds of structures give theirs."""
        return (self.name,)


def contour_structure(
    name: str,
    loops: Iterable[npt.ArrayLike],
    *,
    thickness_mm: float | None = None,
    color: Color | None = None,
    frame_of_reference: str = "",
) -> ContourStructure:
    """Make a structure of closed contours.

    Parameters
    ----------
    name
        For curves and tables.
    loops
        World points (RAS) in mm, each of shape (N, 3), in parallel planes; the last point is joined to the first.
        Direction and first point mean nothing. Those of fewer than three different points are left out, and of
        several copies of one loop all but one, with a note.
    thickness_mm
        Distance between slices, for a structure of a single plane.
    color
        Red, green, blue, 0 to 255.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where that is known.

    Raises
    ------
    InvalidInput
        If the points are not finite numbers in three dimensions, or not in parallel planes.
    """
    if thickness_mm is not None and not (np.isfinite(thickness_mm) and thickness_mm > 0):
        raise InvalidInput(f"the slice thickness of {name!r} is {thickness_mm!r}; give a positive length in mm")
    given = [_checked(loop, name) for loop in loops]
    usable = [loop for loop in given if len(loop) >= 3]
    notes = []
    if lost := len(given) - len(usable):
        notes.append(f"{lost} contours of {name!r} have fewer than three points and were left out")
    frame = plane_frame(usable, name) if usable else np.eye(4)
    planes = tuple(Plane(z, without_duplicates(parts)) for z, parts in by_plane(usable, frame))
    if copies := len(usable) - sum(len(plane.loops) for plane in planes):
        notes.append(f"{copies} contours of {name!r} are copies of others and were left out")
    return ContourStructure(
        name=name,
        planes=planes,
        frame=frame,
        thickness_mm=thickness_mm,
        color=color,
        frame_of_reference=frame_of_reference,
        notes=tuple(notes),
    )


def _checked(loop: npt.ArrayLike, name: str) -> Array:
    points = np.asarray(loop, np.float64)
    if points.size == 0:
        return np.empty((0, 3))
    if points.ndim != 2 or points.shape[1] != 3:
        raise InvalidInput(f"a contour of {name!r} has shape {points.shape}; give points (N, 3) in mm")
    if not np.isfinite(points).all():
        raise InvalidInput(f"a contour of {name!r} has points that are not finite; export the structure again")
    return without_repeats(points)
