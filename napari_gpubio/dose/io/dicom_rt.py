"""Dose, prescription and structures from DICOM RTDOSE, RTPLAN and RTSTRUCT files."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import reads_file
from napari_gpubio.dose.io.dicom import (
    LPS_TO_RAS,
    items_of,
    number_of,
    numbers,
    pixels_of,
    plane_axes,
    read_dataset,
    required,
    text_of,
    to_world,
    value_of,
)
from napari_gpubio.dose.io.frames import evenly_spaced
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.structures.contours import Color, ContourStructure, contour_structure
from napari_gpubio.dose.structures.outlines import usual_distance_mm
from napari_gpubio.dose.structures.overlaps import UNION, XOR

Array = npt.NDArray[Any]
_UNITS = {"GY": "Gy"}
_WHOLE = ("VOLUME", "SITE")  # references that are no points
TARGET = "TARGET"
_XOR = "CLOSEDPLANAR_XOR"
_SOLID = ("CLOSED_PLANAR", _XOR)
_TO_RAS = np.diag(LPS_TO_RAS)[:3]


@reads_file
def read_rtdose(path: str | Path, *, unit: str | None = None) -> Dose:
    """Read the dose grid of an RTDOSE file.

    Frames that are not evenly spaced are interpolated linearly to those that are, with a note; outside of the first and
    last one the dose reaches half of the new distance.

    Parameters
    ----------
    path
        The file, uncompressed, deflated or run-length encoded.
    unit
        Where the file has relative doses, what they are then, for instance ``"%"``.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, without a dose grid or its scaling, in frames that are out of
        order, or in relative units that are not given.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTDOSE")
    found = _unit_of(dataset, unit, name)
    pixels = _pixels(dataset, name) * float(numbers(dataset, "DoseGridScaling", name, 1)[0])
    values, step, notes = _spaced(dataset, pixels, name)
    return Dose(
        values=values.transpose(2, 1, 0),
        affine=to_world(
            plane_axes(dataset, name),
            step,
            numbers(dataset, "ImagePositionPatient", name, 3),
        ),
        unit=found,
        frame_of_reference=text_of(dataset, "FrameOfReferenceUID", name),
        name=name,
        notes=notes,
    )


def _unit_of(dataset: Any, unit: str | None, name: str) -> str:
    stated = text_of(dataset, "DoseUnits", name).strip().upper()
    if stated in _UNITS:
        return _UNITS[stated]
    if unit is None:
        raise InvalidInput(f"{name} gives its doses as {stated or 'nothing'}, not in Gy; state the unit with unit=")
    return unit


def _pixels(dataset: Any, name: str) -> Array:
    """Frames, rows, columns as float64; float32 would lose bits of 32-bit pixels."""
    rows, columns = int(numbers(dataset, "Rows", name, 1)[0]), int(numbers(dataset, "Columns", name, 1)[0])
    frames = int(number_of(dataset, "NumberOfFrames", name) or 1)
    pixels = pixels_of(dataset, name)
    if pixels.size != frames * rows * columns:
        raise InvalidInput(
            f"{name} declares {frames} frames of {rows} x {columns} and holds {pixels.size} values; export it again"
        )
    return pixels.reshape(frames, rows, columns).astype(np.float64)


def _spaced(dataset: Any, values: Array, name: str) -> tuple[Array, float, tuple[str, ...]]:
    """Frames at an even distance, that distance along the normal in mm, negative if they run against it, and notes.

    The offsets begin with 0, or with the patient coordinate of the image position (DICOM PS3.3 C.8.8.3.2); their
    differences mean the same in both cases.
    """
    if len(values) > 1:
        return evenly_spaced(values, numbers(dataset, "GridFrameOffsetVector", name, len(values)), name)
    thickness = number_of(dataset, "SliceThickness", name)
    if not thickness:
        raise InvalidInput(f"{name} has a single frame and no SliceThickness; give a dose of several frames")
    return values, thickness, ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DoseReference:
    """What is prescribed to one target, or allowed to one organ.

    Parameters
    ----------
    description
        As the file has it, for instance ``"Breast"``.
    kind
        ``"TARGET"`` or ``"ORGAN_AT_RISK"``.
    place
        ``"VOLUME"``, ``"SITE"``, ``"POINT"`` or ``"COORDINATES"``.
    structure
        Number of the structure in the RTSTRUCT file, where one is named.
    prescription_gy
        Prescribed to the target, in all fractions; None where it is not in the file.
    """

    description: str
    kind: str
    place: str
    structure: int | None = None
    prescription_gy: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The prescription of a plan.

    Parameters
    ----------
    label
        Of the plan.
    references
        In the order of the file.
    fractions
        Planned ones in all fraction groups; None where it is not in the file.
    beams_gy
        What all beams give in all fractions at their points; None where it is not in the file.
    """

    label: str
    references: tuple[DoseReference, ...] = ()
    fractions: int | None = None
    beams_gy: float | None = None

    @property
    def prescription(self) -> tuple[float, str] | None:
        """The dose that % are of, Gy, and where it was found; None if the file has none.

        That is the largest dose that is prescribed to a target's volume or site, else to a point of one, else what the
        beams give together.
        """
        targets = [one for one in self.references if one.kind == TARGET and one.prescription_gy is not None]
        wholes = [one for one in targets if one.place in _WHOLE]
        if chosen := max(wholes or targets, key=lambda one: one.prescription_gy or 0.0, default=None):
            return chosen.prescription_gy or 0.0, f"prescribed to {chosen.description or chosen.place.lower()!r}"
        return None if self.beams_gy is None else (self.beams_gy, "sum of the beams' doses")


@reads_file
def read_rtplan(path: str | Path) -> Plan:
    """Read the prescription of an RTPLAN file.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or of another kind.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTPLAN")
    groups = items_of(dataset, "FractionGroupSequence", name)
    counts = [number_of(group, "NumberOfFractionsPlanned", name) for group in groups]
    planned = [int(count) for count in counts if count is not None]
    return Plan(
        label=text_of(dataset, "RTPlanLabel", name) or name,
        references=tuple(_reference(item, name) for item in items_of(dataset, "DoseReferenceSequence", name)),
        fractions=sum(planned) if planned else None,
        beams_gy=_beams_gy(groups, counts, name),
    )


def _reference(item: Any, name: str) -> DoseReference:
    number = number_of(item, "ReferencedROINumber", name)
    return DoseReference(
        description=text_of(item, "DoseReferenceDescription", name),
        kind=text_of(item, "DoseReferenceType", name),
        place=text_of(item, "DoseReferenceStructureType", name),
        structure=None if number is None else int(number),
        prescription_gy=number_of(item, "TargetPrescriptionDose", name),
    )


def _beams_gy(groups: list[Any], counts: list[float | None], name: str) -> float | None:
    doses = [
        int(count) * dose
        for group, count in zip(groups, counts, strict=True)
        if count is not None
        for beam in items_of(group, "ReferencedBeamSequence", name)
        if (dose := number_of(beam, "BeamDose", name)) is not None
    ]
    return sum(doses) if doses else None


@dataclass(frozen=True, eq=False, kw_only=True)
class StructureSet:
    """The structures of a file.

    Parameters
    ----------
    structures
        In the order of the file; those without usable contours are there, and empty.
    numbers
        The file's number of each structure.
    notes
        What was left out, in sentences.
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
def read_rtstruct(path: str | Path, *, thickness_mm: float | None = None, overlaps: str | None = None) -> StructureSet:
    """Read the closed planar contours of an RTSTRUCT file.

    Points and open contours are left out, with a note. Loops of one structure that overlap in part are united, or of
    type ``CLOSEDPLANAR_XOR`` cut out of each other; see `napari_gpubio.dose.contour_structure`.

    Parameters
    ----------
    path
        The file.
    thickness_mm
        Slice thickness of structures in a single plane; None: the least distance of the others' planes, with a note.
    overlaps
        ``"union"`` or ``"xor"`` for all structures; None: by the type of their contours.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, or a structure is not drawn in parallel planes.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTSTRUCT")
    required(dataset, "StructureSetROISequence", name)
    rois = items_of(dataset, "StructureSetROISequence", name)
    roi_numbers = [_integer(roi, "ROINumber", name) for roi in rois]
    contours = items_of(dataset, "ROIContourSequence", name)
    drawn = {_integer(item, "ReferencedROINumber", name): item for item in contours}
    labels, renamed = _labels(rois, roi_numbers, name)
    found = [_drawing(drawn.get(number), label, name) for number, label in zip(roi_numbers, labels, strict=True)]
    structures = [
        contour_structure(
            label,
            drawing.loops,
            thickness_mm=thickness_mm,
            color=_color(drawn.get(number), name),
            frame_of_reference=text_of(roi, "ReferencedFrameOfReferenceUID", name),
            overlaps=overlaps or drawing.overlaps,
        )
        for roi, number, label, drawing in zip(rois, roi_numbers, labels, found, strict=True)
    ]
    noted = (dataclasses.replace(a, notes=(*b.notes, *a.notes)) for a, b in zip(structures, found, strict=True))
    return StructureSet(
        structures=tuple(noted if thickness_mm is not None else _with_thickness(list(noted))),
        numbers=tuple(roi_numbers),
        notes=(*renamed, *(note for drawing in found for note in drawing.notes)),
    )


def _with_thickness(structures: list[ContourStructure]) -> Iterator[ContourStructure]:
    """Structures with the slice thickness of those that have several planes."""
    distances = [usual_distance_mm(structure) for structure in structures if len(structure.planes) > 1]
    thickness = min(distances, default=None)
    for structure in structures:
        notes = structure.notes
        if thickness is not None and len(structure.planes) == 1:
            taken = f"is taken to be {thickness:.3g} mm thick, as slices of other structures"
            notes += (f"{structure.name!r} lies in a single plane and {taken}",)
        yield dataclasses.replace(structure, thickness_mm=thickness, notes=notes)


def _integer(item: Any, keyword: str, name: str) -> int:
    return int(numbers(item, keyword, name, 1)[0])


def _labels(rois: list[Any], numbers_of: list[int], name: str) -> tuple[list[str], list[str]]:
    """Names of all structures, each another one, and in sentences which had to be changed."""
    given = [
        text_of(roi, "ROIName", name) or f"structure {number}" for roi, number in zip(rois, numbers_of, strict=True)
    ]
    counts = Counter(given)
    labels = [
        f"{label} ({number})" if counts[label] > 1 else label for number, label in zip(numbers_of, given, strict=True)
    ]
    return labels, [
        f"{count} structures are named {label!r} and are distinguished by their numbers"
        for label, count in counts.items()
        if count > 1
    ]


class _Drawing(NamedTuple):
    """The contours of a structure as its file has them."""

    loops: list[Array]  # world points (RAS) of the closed ones
    overlaps: str  # what becomes of loops that overlap in part
    notes: tuple[str, ...]  # what was left out


def _drawing(contours: Any, label: str, name: str) -> _Drawing:
    loops, kinds, others = [], set(), []
    for item in items_of(contours, "ContourSequence", name) if contours is not None else ():
        kind = text_of(item, "ContourGeometricType", name)
        if kind in _SOLID:
            loops.append(_points(item, label, name))
            kinds.add(kind)
        else:
            others.append(kind or "no type")
    left_out = ", ".join(sorted(set(others)))
    notes = (f"{len(others)} contours of {label!r} are not closed ({left_out}) and were left out",) if others else ()
    return _Drawing(loops, XOR if _XOR in kinds else UNION, notes)


def _points(item: Any, label: str, name: str) -> Array:
    is_drawn = value_of(item, "ContourData", name) not in (None, "", b"")
    values = numbers(item, "ContourData", name) if is_drawn else np.empty(0)
    if values.size % 3:
        raise InvalidInput(f"a contour of {label!r} in {name} has {values.size} coordinates, not three a point")
    return values.reshape(-1, 3) * _TO_RAS


def _color(contours: Any, name: str) -> Color | None:
    if contours is None or value_of(contours, "ROIDisplayColor", name) in (None, ""):
        return None
    values = numbers(contours, "ROIDisplayColor", name)
    if len(values) != 3:
        return None
    red, green, blue = (min(max(int(value), 0), 255) for value in values)
    return red, green, blue
