"""Outlines of structures in slabs, with contours as they were drawn, and the edges of outlines."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.planes import FLAT_MM

Array = npt.NDArray[np.float64]
_BREAK = 1.9  # times the distance of planes around: where one is missing, a structure has two parts
_WIDEST_USUAL_GAP_MM = 10.0
_REACH = 2  # planes on either side whose distances are those around
_PAIR = 3.5  # times the distance of planes: two such distances beside each other are those of other slices
_AT_END = 2.6  # times that of the planes on one side: what is no wider, at an end, may be the distance of other slices
UNEVEN = 1.5  # times the least distance of planes, to be worth a note


def slab_bounds(structure: ContourStructure, caps: str = "half") -> tuple[Array, Array]:
    """Where each plane begins and ends to hold, mm along the normal; shape (planes,) each.

    That is half way to its neighbors. Beyond the ends of the structure and of its parts it is half the distance of the
    planes there, or of slices in a gap where those are known; with ``caps`` of ``"none"`` it ends in the planes of the
    first and last contour.
    """
    positions = _positions(structure)
    gaps, apart = np.diff(positions), gaps_of(structure)
    beyond = 0.5 * _distances(gaps, apart, usual_distance_mm(structure)) if caps == "half" else np.zeros(len(positions))
    low, high = beyond.copy(), beyond.copy()
    for position, after, before in structure.parted_mm if caps == "half" else ():
        for n in np.flatnonzero(apart & (np.abs(positions[:-1] - position) <= FLAT_MM)):
            high[n], low[n + 1] = 0.5 * after or high[n], 0.5 * before or low[n + 1]
            low[0], high[-1] = high[0] if n == 0 else low[0], low[-1] if n + 2 == len(positions) else high[-1]
    high[:-1] = np.where(apart, np.minimum(high[:-1], 0.5 * gaps), 0.5 * gaps)
    low[1:] = np.where(apart, np.minimum(low[1:], 0.5 * gaps), 0.5 * gaps)
    return positions - low, positions + high


def _distances(gaps: Array, apart: npt.NDArray[np.bool_], usual: float) -> Array:
    """Distance of neighboring planes at each plane: of those nearest to it that no gap parts, shape (planes,)."""
    joined = np.flatnonzero(~apart)
    if not len(joined):
        return np.full(len(gaps) + 1, usual)
    nearest = np.abs(joined[None] + 0.5 - np.arange(len(gaps) + 1)[:, None]).argmin(axis=1)
    return np.asarray(gaps[joined[nearest]])


def usual_distance_mm(structure: ContourStructure) -> float:
    """Distance of neighboring planes (the median), or the slice thickness where each stands alone."""
    positions = _positions(structure)
    stand_alone = structure.thickness_mm is not None and bool(gaps_of(structure).all())
    if len(positions) > 1 and not stand_alone:
        return float(np.median(np.diff(positions)))
    if structure.thickness_mm is None:
        raise InvalidInput(
            f"{structure.name!r} has contours in a single plane, whose thickness is not known; give thickness_mm"
        )
    return structure.thickness_mm


def gap_notes(structure: ContourStructure) -> tuple[str, ...]:
    """Sentences if gaps part the structure, where contours may be missing, or the distance of its planes changes."""
    gaps, apart = np.diff(_positions(structure)), gaps_of(structure)
    wide, others = gaps[apart], gaps[~apart]
    notes = []
    if len(wide):
        among = f"{wide.max():.4g} mm among contours {usual_distance_mm(structure):.4g} mm apart"
        note = f"{structure.name!r} has {len(wide)} gaps of up to {among}"
        notes.append(f"{note} and is counted in {len(wide) + 1} parts")
    if len(others) and others.max() > UNEVEN * others.min():
        span = f"{others.min():.4g} to {others.max():.4g} mm apart"
        notes.append(f"contours of {structure.name!r} are {span}; each holds half way to its neighbors")
    if len(others) and others.max() > _WIDEST_USUAL_GAP_MM:
        text = f"contours of {structure.name!r} up to {others.max():.4g} mm apart are counted as one body"
        notes.append(f"{text}, wider than slices usually are; see whether contours are missing")
    return tuple(notes)


def gaps_of(structure: ContourStructure) -> npt.NDArray[np.bool_]:
    """Whether what lies between each plane and the next is a gap, which parts the structure; shape (planes - 1,).

    That is a distance much wider than those beside it, unless slices are known to be as far apart there
    (`ContourStructure.joined_mm`), and a longer one where others have planes in it (`ContourStructure.parted_mm`).
    """
    positions = _positions(structure)
    joined, parted = (
        np.abs(positions[:-1, None] - np.array(known)[None]).min(axis=1, initial=np.inf) <= FLAT_MM
        for known in (structure.joined_mm, [place for place, *_ in structure.parted_mm])
    )
    return np.asarray((wide_distances(np.diff(positions)) | parted) & ~joined)


def wide_distances(gaps: Array) -> npt.NDArray[np.bool_]:
    """Whether distances of planes are much wider than those beside them, so that contours are missing there.

    A distance is not wide if two of the four beside it are about as wide, or one right beside it where it is about
    twice the others: slices are farther apart there, as in a CT that becomes coarse at some place.
    """
    found = np.zeros(len(gaps), np.bool_)
    for n, gap in enumerate(gaps):
        beside = np.sort(np.concatenate([gaps[max(n - _REACH, 0) : n], gaps[n + 1 : n + 1 + _REACH]]))
        if len(beside) < _REACH:
            continue
        usual = beside[-_REACH] if len(beside) > _REACH else beside[-1]
        next_to = max(gaps[max(n - 1, 0) : n].max(initial=0.0), gaps[n + 1 : n + 2].max(initial=0.0))
        is_pair = gap <= _PAIR * usual and gap <= _BREAK * next_to
        found[n] = gap > (_BREAK if 0 < n < len(gaps) - 1 else _AT_END) * usual and not is_pair
    return found


def is_longer(gaps: Array, n: int, slices: Array) -> bool:
    """Whether a distance of planes is longer than those beside it, or where there are none, than those of slices."""
    beside = np.concatenate([gaps[max(n - _REACH, 0) : n], gaps[n + 1 : n + 1 + _REACH]])
    shortest = beside.min() if len(beside) else float(np.median(np.diff(slices)))
    return bool(gaps[n] > UNEVEN * shortest)


def _positions(structure: ContourStructure) -> Array:
    return np.array([plane.position_mm for plane in structure.planes])


class Outlines(NamedTuple):
    """The outlines of all slabs, one after another, in the structure's frame, mm."""

    # shape (N, 4): x and y of one end, x and y of the other. What lies inside those of a slab by the even-odd
    # rule belongs to the structure, so their order and direction mean nothing
    segments: Array
    counts: npt.NDArray[np.int64]  # how many of them each slab has, at least one, shape (slabs,)
    low: Array  # where the slabs begin and end along the normal, shape (slabs,)
    high: Array
    apart: int = 0  # neighboring contours that lie beside each other; see `napari_gpubio.dose.structures.shapes`
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
