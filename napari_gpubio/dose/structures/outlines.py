"""Outlines of structures in slabs, with contours as they were drawn, and the edges of outlines."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.contours import ContourStructure

Array = npt.NDArray[np.float64]
_BREAK = 1.9  # times the usual distance of planes: where one is missing, a structure has two parts


def slab_bounds(structure: ContourStructure, caps: str = "half") -> tuple[Array, Array]:
    """Where each plane begins and ends to hold, mm along the normal; shape (planes,) each.

    That is half way to its neighbors, and half a slice beyond the ends of the structure and of its parts; with
    ``caps`` of ``"none"`` it ends in the planes of the first and last contour.
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
            f"{structure.name!r} has contours in a single plane, whose thickness is not known; give thickness_mm"
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


class Outlines(NamedTuple):
    """The outlines of all slabs, one after another, in the structure's frame, mm."""

    # shape (N, 4): x and y of one end, x and y of the other. What lies inside those of a slab by the even-odd
    # rule belongs to the structure, so their order and direction mean nothing
    segments: Array
    counts: npt.NDArray[np.int64]  # how many of them each slab has, at least one, shape (slabs,)
    low: Array  # where the slabs begin and end along the normal, shape (slabs,)
    high: Array
    tips: int = 0  # ends of the structure that are contours of nearly no area; see `napari_gpubio.dose.structures.tips`


def slab_outlines(structure: ContourStructure, caps: str = "half") -> Outlines:
    """Each contour as it was drawn, half way to its neighbors; see `slab_bounds`."""
    loops = [loop for plane in structure.planes for loop in plane.loops]
    points = np.concatenate(loops)
    following = np.concatenate([part for loop in loops for part in (loop[1:], loop[:1])])
    counts = np.array([sum(map(len, plane.loops)) for plane in structure.planes])
    return Outlines(np.concatenate([points, following], axis=1), counts, *slab_bounds(structure, caps))


class Edges(NamedTuple):
    """The edges of a structure, slab after slab, without those along x."""

    table: Array  # lower y, upper y, x at the lower end, x per y; mm, shape (E, 4)
    # where the edges of each slab end, shape (slabs,), int64; they begin where those of the slab before end
    ends: npt.NDArray[np.int64]
    extents: Array  # least x and y, largest x and y of each slab, mm, shape (slabs, 4)
    low: Array  # where the slabs begin and end along the normal, mm, shape (slabs,)
    high: Array


def edges_of(outlines: Outlines) -> Edges:
    """The edges of outlines, at least one segment in each slab."""
    from napari_gpubio.dose.structures.geometry import fill_edges

    table = np.empty((len(outlines.segments), 4))
    ends, extents = np.empty(len(outlines.counts), np.int64), np.empty((len(outlines.counts), 4))
    fill_edges(0, len(outlines.counts), outlines.segments, outlines.counts, table, ends, extents)
    return Edges(table[: ends[-1]], ends, extents, outlines.low, outlines.high)
