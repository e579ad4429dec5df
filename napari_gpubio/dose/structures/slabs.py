"""The slab convention: how far each plane of contours holds along the normal."""

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.contours import ContourStructure

Array = npt.NDArray[np.float64]
_BREAK = 1.9  # times the usual distance of planes: where one is missing, a structure has two parts


def slab_bounds(structure: ContourStructure, caps: str = "half") -> tuple[Array, Array]:
    """Where each plane begins and ends to hold, mm along the normal; shape (planes,) each.

    That is half way to its neighbors, and half a slice beyond the ends of the structure and of its parts.

    Parameters
    ----------
    structure
        With at least one plane.
    caps
        ``"half"``, or ``"none"`` to end in the planes of the first and last contour.

    Raises
    ------
    InvalidInput
        If there is a single plane and its thickness is not known.
    """
    positions = np.array([plane.position_mm for plane in structure.planes])
    usual = usual_distance_mm(structure)
    gaps = np.diff(positions)
    halves = np.where(is_break(gaps, usual), 0.5 * usual if caps == "half" else 0.0, 0.5 * gaps)
    end = 0.5 * usual if caps == "half" else 0.0
    return positions - np.concatenate([[end], halves]), positions + np.concatenate([halves, [end]])


def usual_distance_mm(structure: ContourStructure) -> float:
    """Distance of neighboring planes (the median), or the slice thickness where there is one plane only."""
    positions = [plane.position_mm for plane in structure.planes]
    if len(positions) > 1:
        return float(np.median(np.diff(positions)))
    if structure.thickness_mm is None:
        raise InvalidInput(
            f"{structure.name!r} has contours in a single plane, which does not tell how thick it is; give thickness_mm"
        )
    return structure.thickness_mm


def gap_notes(structure: ContourStructure) -> tuple[str, ...]:
    """A sentence if gaps part the structure: there may be a contour missing."""
    gaps, usual = np.diff([plane.position_mm for plane in structure.planes]), usual_distance_mm(structure)
    wide = gaps[is_break(gaps, usual)]
    if not len(wide):
        return ()
    note = f"{structure.name!r} has {len(wide)} gaps of up to {wide.max():.4g} mm among contours {usual:.4g} mm apart"
    return (f"{note} and is counted in {len(wide) + 1} parts",)


def is_break(gaps: Array, usual: float) -> npt.NDArray[np.bool_]:
    """Whether a gap between planes is so wide that it parts the structure."""
    return np.asarray(gaps > _BREAK * usual)
