"""Structures from DICOM RTSTRUCT files: every contour with the structure it belongs to, or left out with a note."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.dose.io.ct import CtImage
from napari_gpubio.dose.io.dicom import (
    LPS_TO_RAS,
    items_of,
    number_of,
    numbers,
    patient_of,
    pydicom,
    read_dataset,
    text_of,
    value_of,
)
from napari_gpubio.dose.structures.contours import Color, ContourStructure, contour_structure, emptied
from napari_gpubio.dose.structures.labels import AnyStructures
from napari_gpubio.dose.structures.overlaps import UNION, XOR
from napari_gpubio.dose.structures.slices import with_slices

Array = npt.NDArray[Any]
_XOR = "CLOSEDPLANARXOR"
_SOLID = ("CLOSEDPLANAR", _XOR)  # types of contours, of which only the letters count
_TO_RAS = np.diag(LPS_TO_RAS)[:3]


@dataclass(frozen=True, eq=False, kw_only=True)
class StructureSet(AnyStructures):
    """The structures of a file.

    Parameters
    ----------
    structures
        In the order of the file; those without usable contours are there, and empty, but no points of interest.
    numbers
        The file's number of each structure, which a damaged file may use twice.
    notes
        What was assumed or left out, in sentences; also those of the structures.
    """

    structures: tuple[ContourStructure, ...]
    numbers: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> ContourStructure:
        for structure in self.structures:
            if structure.name == name:
                return structure
        known = ", ".join(structure.name for structure in self.structures)
        raise InvalidInput(f"there is no structure {name!r}; there are {known}")

    def __iter__(self) -> Iterator[ContourStructure]:
        return iter(self.structures)

    def __len__(self) -> int:
        return len(self.structures)


@reads_file
def read_rtstruct(
    path: str | Path,
    *,
    thickness_mm: float | None = None,
    overlaps: str | None = None,
    image: CtImage | None = None,
) -> StructureSet:
    """Read the closed planar contours of an RTSTRUCT file.

    Points and open contours are left out, and so are contours that are damaged, leave the planes of their structure, or
    have no number of a structure; notes count them. Contours whose number no structure has are named by it. Loops of
    one structure that overlap in part are united, or of type ``CLOSEDPLANAR_XOR`` cut out of each other; see
    `napari_gpubio.dose.contour_structure`.

    Parameters
    ----------
    path
        The file.
    thickness_mm
        Slice thickness of structures in a single plane; None: what the contours state, else the distance of the others'
        planes around it, with a note.
    overlaps
        ``"union"`` or ``"xor"`` for all structures; None: by the type of their contours.
    image
        What was drawn on; its slices tell of gaps and of thickness, too.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, without structures, or none of its contours can be used.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTSTRUCT")
    drawings = _drawings(dataset, name)
    if not drawings:
        raise InvalidInput(f"StructureSetROISequence of {name} holds no structure with a number; export it again")
    if points := [one.label for one in drawings if one.is_point]:
        text = f"{len(points)} points of interest have no volume: {', '.join(points)}"
        if len(points) == len(drawings):
            raise InvalidInput(f"{name} holds no contours; {text}")
        note(text)
        drawings = [one for one in drawings if not one.is_point]
    found, refusals = [], []
    for one in drawings:
        try:
            found.append(_structure(one, thickness_mm, overlaps))
        except InvalidInput as error:
            refusals.append(error)
            bare = ContourStructure(name=one.label, planes=(), color=one.color, frame_of_reference=one.frame)
            found.append(emptied(dataclasses.replace(bare, notes=one.notes), error))
    if refusals and not any(structure.planes for structure in found):
        raise refusals[0]
    if len(frames := {one.frame for one in drawings} - {""}) > 1:
        note(f"the structures lie in {len(frames)} frames of reference, whose positions cannot be compared")
    structures = with_slices(found) if image is None else with_slices(found, image.slices, image.frame_of_reference)
    patient = patient_of(dataset, name)
    return StructureSet(
        structures=tuple(dataclasses.replace(one, patient=patient) for one in structures),
        numbers=tuple(one.number for one in drawings),
        notes=tuple(text for structure in structures for text in structure.notes),
    )


class _Drawing(NamedTuple):
    """A structure as its file has it."""

    number: int
    label: str  # another one for each
    frame: str
    color: Color | None
    loops: list[Array]  # world points (RAS) of the closed contours
    overlaps: str  # what becomes of loops that overlap in part
    notes: tuple[str, ...]  # what was left out
    damaged: tuple[str, ...]  # why contours cannot be read
    slab_mm: float | None  # thickness that the contours state, where all state the same
    is_point: bool  # whether there are points and nothing else


def _structure(drawing: _Drawing, thickness_mm: float | None, overlaps: str | None) -> ContourStructure:
    if drawing.damaged and not drawing.loops:
        raise InvalidInput(drawing.damaged[0])
    found = contour_structure(
        drawing.label,
        drawing.loops,
        thickness_mm=drawing.slab_mm if thickness_mm is None else thickness_mm,
        color=drawing.color,
        frame_of_reference=drawing.frame,
        overlaps=overlaps or drawing.overlaps,
        slice_mm=0.0,  # the others tell; see `with_slices`
    )
    return dataclasses.replace(found, notes=(*drawing.notes, *found.notes))


def _drawings(dataset: Any, name: str) -> list[_Drawing]:
    """All structures of a file, each with its own contours."""
    rois = items_of(dataset, "StructureSetROISequence", name)
    known = [(number, roi) for roi in rois if (number := _integer(roi, "ROINumber", name)) is not None]
    if lost := len(rois) - len(known):
        note(f"{lost} structures have no number (ROINumber) and were left out")
    drawn = items_of(dataset, "ROIContourSequence", name)
    own, named = {number for number, _ in known}, dict[int, Any]()
    for item in drawn:
        number = _integer(item, "ReferencedROINumber", name)
        if number is not None and number not in own and _contour_count([item], name):
            named[number] = pydicom().Dataset()
    if named:
        missing = f"{len(named)} structures with contours are not in StructureSetROISequence"
        note(f"{missing} and are named by number: {', '.join(map(str, named))}")
    known += named.items()
    roi_numbers = [number for number, _ in known]
    items = _paired(roi_numbers, drawn, name)
    labels = _labels([text_of(roi, "ROIName", name) for _, roi in known], roi_numbers)
    referenced = items_of(dataset, "ReferencedFrameOfReferenceSequence", name)
    frames = {text_of(item, "FrameOfReferenceUID", name) for item in referenced} - {""}
    frame = frames.pop() if len(frames) == 1 else text_of(dataset, "FrameOfReferenceUID", name)
    return [
        _drawing((number, label, text_of(roi, "ReferencedFrameOfReferenceUID", name) or frame), own, name)
        for (number, roi), label, own in zip(known, labels, items, strict=True)
    ]


def _paired(roi_numbers: Sequence[int], items: Sequence[Any], name: str) -> list[list[Any]]:
    """Items of the contour sequence of each structure.

    They belong to the structure that has their number. Where several structures have one number, the items with it
    belong to them in their order, if there are as many; otherwise it is not known whose they are.
    """
    by_number: dict[int | None, list[Any]] = defaultdict(list)
    for item in items:
        by_number[_integer(item, "ReferencedROINumber", name)].append(item)
    counts, taken = Counter(roi_numbers), dict.fromkeys(by_number, 0)
    found: list[list[Any]] = []
    for number in roi_numbers:
        own = by_number.get(number, [])
        if counts[number] == 1:
            found.append(own)
        elif len(own) == counts[number]:
            found.append([own[taken[number]]])
            taken[number] += 1
        else:
            found.append([])
    for number, count in counts.items():
        own = by_number.pop(number, [])
        if count == 1 and len(own) > 1:
            note(f"the contours of structure {number} come in {len(own)} parts, which are taken together")
        elif count > 1 and len(own) == count:
            note(f"{count} structures have the number {number}; contours are taken for theirs in the order of the file")
        elif count > 1 and own:
            lost = f"{_contour_count(own, name)} contours that are of one of them were left out"
            note(f"{count} structures have the number {number}, and {len(own)} of them have contours; {lost}")
    if nameless := _contour_count(by_number.get(None, ()), name):
        note(f"{nameless} contours without number of a structure (ReferencedROINumber) were left out")
    return found


def _contour_count(items: Sequence[Any], name: str) -> int:
    return len(_contours(items, name)[0])


def _contours(items: Sequence[Any], name: str) -> tuple[list[Any], list[str]]:
    """The contours of items of the contour sequence, and why those of others cannot be read."""
    found, damaged = [], []
    for item in items:
        try:
            found += items_of(item, "ContourSequence", name)
        except InvalidInput as error:
            damaged.append(str(error))
    return found, damaged


def _integer(item: Any, keyword: str, name: str) -> int | None:
    """A whole number, or None where it is missing or cannot be read."""
    try:
        found = number_of(item, keyword, name)
    except InvalidInput:
        return None
    return None if found is None else int(found)


def _labels(given: Sequence[str], numbers_of: Sequence[int]) -> list[str]:
    """Names of all structures, each another one; notes say which had to be changed."""
    named = [label or f"structure {number}" for label, number in zip(given, numbers_of, strict=True)]
    repeated = {label: count for label, count in Counter(named).items() if count > 1}
    for label, count in repeated.items():
        note(f"{count} structures are named {label!r} and are distinguished by their numbers")
    labels = [f"{label} ({n})" if label in repeated else label for label, n in zip(named, numbers_of, strict=True)]
    again, seen = Counter(labels), Counter[str]()
    for n, label in enumerate(labels):
        if again[label] > 1:  # the numbers repeat, too
            seen[label] += 1
            labels[n] = f"{label} #{seen[label]}"
    return labels


def _drawing(identity: tuple[int, str, str], items: Sequence[Any], name: str) -> _Drawing:
    """The contours of a structure, of which the number, the label and the frame of reference are known."""
    number, label, frame = identity
    contours, damaged = _contours(items, name)
    loops, kinds, others, slabs = [], set(), [], set()
    miscounted = moved = untyped = 0
    for item in contours:
        try:
            stated = text_of(item, "ContourGeometricType", name).strip()
            kind = "".join(filter(str.isalpha, stated.upper())) or _SOLID[0]
            points = _points(item, label, name) if kind in _SOLID else None
        except InvalidInput as error:
            damaged.append(str(error))
            continue
        if points is None:
            others.append(stated)
            continue
        untyped += not stated
        loops.append(points)
        kinds.add(kind)
        miscounted += _integer(item, "NumberOfContourPoints", name) not in (None, len(points))
        moved += text_of(item, "ContourOffsetVector", name).strip("[]0., ") != ""
        slabs.add(text_of(item, "ContourSlabThickness", name))
    notes = []
    if others:
        left_out = ", ".join(sorted(set(others)))
        notes.append(f"{len(others)} contours of {label!r} are not closed ({left_out}) and were left out")
    if damaged:
        notes.append(f"{len(damaged)} contours of {label!r} cannot be read and were left out ({damaged[0]})")
    if untyped:
        notes.append(f"{untyped} contours of {label!r} have no ContourGeometricType and are taken to be closed")
    if miscounted:
        notes.append(f"{miscounted} contours of {label!r} have another number of points than they state")
    if moved:
        notes.append(f"{moved} contours of {label!r} have a ContourOffsetVector, which was not applied")
    colors = [color for own in items if (color := _color(own, name)) is not None]
    color, rule = next(iter(colors), None), XOR if _XOR in kinds else UNION
    slab_mm = _length(slabs.pop()) if len(slabs) == 1 else None
    are_points = [stated.strip().upper() == "POINT" for stated in others] + [len(loop) == 1 for loop in loops]
    is_point = bool(are_points) and all(are_points) and not damaged
    return _Drawing(number, label, frame, color, loops, rule, tuple(notes), tuple(damaged), slab_mm, is_point)


def _length(text: str) -> float | None:
    """A positive length that a text states, or None."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < np.inf else None


def _points(item: Any, label: str, name: str) -> Array:
    if value_of(item, "ContourData", name) in (None, "", b""):
        return np.empty((0, 3))
    values = numbers(item, "ContourData", name, finite=False)
    if values.size % 3:
        raise InvalidInput(f"a contour of {label!r} in {name} has {values.size} coordinates, not three a point")
    return values.reshape(-1, 3) * _TO_RAS


def _color(contours: Any, name: str) -> Color | None:
    try:
        values = numbers(contours, "ROIDisplayColor", name, 3)
    except InvalidInput:  # it only decides how contours look
        return None
    red, green, blue = (min(max(int(value), 0), 255) for value in values)
    return red, green, blue
