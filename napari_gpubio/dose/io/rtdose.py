"""Doses from DICOM RTDOSE files: where their frames lie, and of what of a treatment they are."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note, noted, reading, reads_file
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.dose.io.dicom import (
    EVEN,
    integers_of,
    items_of,
    number_of,
    numbers,
    patient_of,
    pixels_keyword,
    pixels_of,
    plane_axes,
    read_dataset,
    required,
    text_of,
    to_world,
)
from napari_gpubio.dose.io.frames import evenly_spaced
from napari_gpubio.dose.model import EFFECTIVE, WHOLE_PLAN, Dose, note_values

Array = npt.NDArray[Any]
_UNITS = {"GY": "Gy"}
_SAME_MM = 0.05  # by which written positions of one place may differ
ERROR = "absorbed dose error"  # the quantity of what holds errors of a dose
_QUANTITIES = {"ERROR": ERROR, "EFFECTIVE": EFFECTIVE}  # by DoseType
_UNIT_OF_SHOWN_ONLY = "1"
PARTS = {  # what a dose is of that is not of a plan, by DoseSummationType
    "MULTI_PLAN": "several plans together",
    "PLAN_OVERVIEW": "an overview of plans",
    "FRACTION": "one fraction group of a plan",
    "BEAM": "beams of a plan",
    "BRACHY": "applicator setups of a plan",
    "FRACTION_SESSION": "one fraction",
    "BEAM_SESSION": "beams of one fraction",
    "BRACHY_SESSION": "applicator setups of one fraction",
    "CONTROL_POINT": "control points of a beam",
    "RECORD": "recorded treatments",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class RtDose:
    """A dose of RTDOSE files.

    Parameters
    ----------
    dose
        The dose; where ``has_unit`` is False its unit is a placeholder.
    path
        Of the file; None where planes of several were joined.
    has_unit
        Whether it is known what the numbers are in.
    """

    dose: Dose
    path: Path | None
    has_unit: bool = True


@reads_file
def read_rtdose(path: str | Path, *, unit: str | None = None) -> Dose:
    """Read the dose grid of an RTDOSE file.

    Frames that are not evenly spaced are interpolated linearly to those that are, with a note; outside of the first and
    last one the dose reaches half of the new distance. Notes also say where it is not the physical dose of a plan.

    Parameters
    ----------
    path
        The file, uncompressed, deflated or run-length encoded.
    unit
        Where the file has relative doses, what they are then, for instance ``"%"``.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, without a dose grid or its scaling, in frames at one place, or
        in relative units that are not given.
    """
    return _joined([_read_grid(path)], unit, needs_unit=True).dose


def read_rtdoses(paths: Iterable[str | Path], *, unit: str | None = None) -> tuple[RtDose, ...]:
    """Read the RTDOSE files of a study: planes of one dose, each in a file, become one volume.

    Planes belong together if they are of one patient, frame of reference, plan, part of it and kind, on one grid; where
    a series has several of them they are also of one series.

    Parameters
    ----------
    paths
        The files; those that cannot be read and copies of others are left out with a note.
    unit
        As of `read_rtdose`; doses of unknown unit are read, too.

    Raises
    ------
    InvalidInput
        If none of the files can be read.
    """
    grids, refusals = [], []
    for path in paths:
        try:
            grids.append(_read_grid(path))
        except InvalidInput as error:
            refusals.append(error)
    found = []
    for group in _groups(_without_copies(grids)):
        try:
            with reading(group[0].path):
                found.append(_joined(group, unit, needs_unit=False))
        except InvalidInput as error:
            refusals.append(error)
    if refusals and not found:
        raise refusals[0]
    for refusal in refusals:
        note(f"a dose was left out: {refusal}")
    return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Grid(ShortRepr):
    """The frames of a file."""

    path: Path
    values: Array  # frames, rows, columns
    axes: Array  # see `plane_axes`
    first: Array  # patient coordinates of the first pixel
    offsets: Array | None  # of the frames along the normal, mm; None for a single frame
    thickness: float | None
    unit: str  # empty if it is relative
    stated_unit: str
    kind: str  # physical, effective, error
    summation: str
    frame_of_reference: str
    patient: str
    plans: tuple[str, ...]
    fraction_groups: tuple[int, ...]
    beams: tuple[int, ...]
    series: str
    uid: str
    notes: tuple[str, ...] = ()

    @property
    def meaning(self) -> tuple[Any, ...]:
        """What planes of one dose share."""
        axes = (round(float(part), 4) for part in self.axes.flat)
        place = self.patient, self.frame_of_reference, self.values.shape, *axes
        return *place, self.stated_unit, self.kind, self.summation, self.plans, self.fraction_groups, self.beams


@reads_file
def _read_grid(path: str | Path) -> _Grid:
    name = Path(path).name
    dataset = read_dataset(path, "RTDOSE")
    stated = text_of(dataset, "DoseUnits", name).strip().upper()
    values, axes = _pixels(dataset, name), plane_axes(dataset, name)
    first, thickness = numbers(dataset, "ImagePositionPatient", name, 3), number_of(dataset, "SliceThickness", name)
    offsets = None
    if len(values) > 1:
        offsets = _offsets(dataset, (len(values), thickness), axes[:, 2], first[2], name)
        order = np.argsort(offsets * np.sign(offsets[-1] - offsets[0] or 1.0), kind="stable")
        if (np.diff(order) < 0).any():
            note("frames are out of order and were sorted by GridFrameOffsetVector")
            first = first + axes[:, 2] * offsets[order[0]]
            values, offsets = values[order], offsets[order]
    plans, groups, beams = _references(dataset, name)
    found = _Grid(
        path=Path(path),
        values=values,
        axes=axes,
        first=first,
        offsets=offsets,
        thickness=thickness,
        unit=_UNITS.get(stated, ""),
        stated_unit=stated,
        kind=text_of(dataset, "DoseType", name).strip().upper(),
        summation=text_of(dataset, "DoseSummationType", name).strip().upper(),
        frame_of_reference=text_of(dataset, "FrameOfReferenceUID", name),
        patient=patient_of(dataset, name),
        plans=plans,
        fraction_groups=groups,
        beams=beams,
        series=text_of(dataset, "SeriesInstanceUID", name),
        uid=text_of(dataset, "SOPInstanceUID", name),
    )
    _note_meaning(found)
    return found


def _pixels(dataset: Any, name: str) -> Array:
    """Frames, rows, columns as float64; float32 would lose bits of 32-bit pixels."""
    rows, columns = int(numbers(dataset, "Rows", name, 1)[0]), int(numbers(dataset, "Columns", name, 1)[0])
    if (keyword := pixels_keyword(dataset)) != "PixelData" and number_of(dataset, "DoseGridScaling", name) is None:
        note(f"{keyword} without DoseGridScaling is taken as doses")
        dataset.DoseGridScaling = 1
    scaling, frames = float(numbers(dataset, "DoseGridScaling", name, 1)[0]), _cut_frames(dataset, rows * columns, name)
    pixels = pixels_of(dataset, name)
    if pixels.size != frames * rows * columns:
        raise InvalidInput(
            f"{name} declares {frames} frames of {rows} x {columns} and holds {pixels.size} values; export it again"
        )
    if scaling <= 0:
        note(f"DoseGridScaling is {scaling:g}, which no dose has")
    return pixels.reshape(frames, rows, columns) * scaling


def _cut_frames(dataset: Any, pixels: int, name: str) -> int:
    """Cut a dataset of frames of so many pixels to those that are whole and declared; returns how many there are."""
    keyword = pixels_keyword(dataset)
    declared, data = number_of(dataset, "NumberOfFrames", name), required(dataset, keyword, name)
    size = pixels * int(numbers(dataset, "BitsAllocated", name, 1)[0]) // 8
    is_plain = isinstance(data, bytes) and not dataset[keyword].is_undefined_length  # not compressed
    whole = len(data) // size if is_plain and size > 0 else 0
    frames = int(declared or whole or 1)
    if whole < 1 or frames < 1 or whole == declared:
        return frames
    if declared is None and whole > 1:
        note(f"NumberOfFrames is missing; there are {whole} frames")
    if whole < frames:
        note(f"{frames - whole} of {frames} frames are not there or not whole and are left out")
        dataset.GridFrameOffsetVector = numbers(dataset, "GridFrameOffsetVector", name, frames)[:whole].tolist()
    elif whole > frames:
        note(f"{whole - frames} more frames than the {frames} that are declared are left out")
    dataset.NumberOfFrames = kept = min(whole, frames)
    setattr(dataset, keyword, data[: kept * size])
    return kept


def _offsets(dataset: Any, frames: tuple[int, float | None], normal: Array, z: float, name: str) -> Array:
    """Offsets of frames (their number, and SliceThickness) along the normal, from the first one, mm.

    They begin with 0, or where planes are axial with the patient coordinate z of the image position and go on with
    those of the other frames (DICOM PS3.3 C.8.8.3.2).
    """
    count, thickness = frames
    try:
        given = numbers(dataset, "GridFrameOffsetVector", name, count)
    except InvalidInput:
        if not thickness:
            raise
        note(f"GridFrameOffsetVector does not fit {count} frames; they are taken to be {thickness:g} mm apart")
        return thickness * np.arange(count)
    start, moved = float(given[0]), given - given[0]
    if abs(start) <= _SAME_MM:
        return moved
    if abs(start - z) > _SAME_MM or abs(normal[2]) < 1 - 1e-6:
        taken = f"its differences are taken along the normal from ImagePositionPatient (z = {z:g} mm)"
        note(f"GridFrameOffsetVector begins with {start:g} mm, neither 0 nor the z of axial planes; {taken}")
        return moved
    if normal[2] < 0:
        note("GridFrameOffsetVector is taken for patient coordinates z, against which the normal runs")
    return moved * np.sign(normal[2])


def _references(dataset: Any, name: str) -> tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    """The plans that a dose refers to, and fraction groups and beams of them."""
    plans = items_of(dataset, "ReferencedRTPlanSequence", name)
    groups = [group for plan in plans for group in items_of(plan, "ReferencedFractionGroupSequence", name)]
    beams = [beam for group in groups for beam in items_of(group, "ReferencedBeamSequence", name)]
    uids = dict.fromkeys(text_of(plan, "ReferencedSOPInstanceUID", name) for plan in plans)
    return (
        tuple(uid for uid in uids if uid),
        integers_of(groups, "ReferencedFractionGroupNumber", name),
        integers_of(beams, "ReferencedBeamNumber", name),
    )


def _note_meaning(grid: _Grid) -> None:
    """Say where a dose is not the physical dose of a plan."""
    if grid.kind == "ERROR":
        note("holds errors of a dose (DoseType ERROR), no doses")
    elif grid.kind == "EFFECTIVE":
        note("holds doses that are weighted by their biological effect (DoseType EFFECTIVE)")
    elif grid.kind != "PHYSICAL":
        note(f"holds doses of which DoseType is {grid.kind or 'missing'}; they are taken to be physical")
    if not grid.summation:
        note("does not say what it is the dose of (DoseSummationType); it is taken to be that of a plan")
    elif grid.summation != WHOLE_PLAN:
        beams = f", beams {', '.join(map(str, grid.beams))}" if grid.beams else ""
        part = PARTS.get(grid.summation, "an unknown part of a treatment")
        note(f"holds the dose of {part} (DoseSummationType {grid.summation}{beams}), not of a plan")


def _without_copies(grids: Sequence[_Grid]) -> list[_Grid]:
    """Files of which none has the frames of another one, under its UID or as the same plane of its series."""
    kept: list[_Grid] = []
    copies = []
    for grid in grids:
        if any(_is_copy(grid, other) for other in kept):
            copies.append(grid.path.name)
        else:
            kept.append(grid)
    if copies:
        note(f"{len(copies)} copies of other doses or planes are left out ({', '.join(copies)})")
    return kept


def _is_copy(grid: _Grid, other: _Grid) -> bool:
    is_plane = len(grid.values) == 1 and grid.series == other.series
    if not (is_plane or grid.uid == other.uid != "") or (np.abs(grid.first - other.first) > _SAME_MM).any():
        return False
    return grid.meaning == other.meaning and np.array_equal(grid.values, other.values)


def _groups(grids: Sequence[_Grid]) -> list[list[_Grid]]:
    """Files of one plane that are a volume together; every other file alone."""
    groups: dict[Any, list[_Grid]] = defaultdict(list)
    for n, grid in enumerate(grids):
        with np.errstate(over="ignore", invalid="ignore"):  # of absurd places, which are refused as grids
            aside = grid.first - (grid.first @ grid.axes[:, 2]) * grid.axes[:, 2]
            place = np.round(aside / (2 * _SAME_MM))
        groups[(n if len(grid.values) > 1 else -1, *grid.meaning, *place)].append(grid)
    return [volume for group in groups.values() for volume in _volumes(group)]


def _volumes(planes: Sequence[_Grid]) -> list[list[_Grid]]:
    """Planes that belong together, by their series unless each has one of its own."""
    series: dict[str, list[_Grid]] = defaultdict(list)
    for plane in planes:
        series[plane.series].append(plane)
    found = []
    for group in series.values() if len(series) < len(planes) else [list(planes)]:
        depths = np.sort([grid.first @ grid.axes[:, 2] for grid in group])
        if len(group) > 1 and np.diff(depths).min() > EVEN * max(float(np.diff(depths).max()), _SAME_MM):
            found.append(group)
            continue
        found += [[grid] for grid in group]
        if len(group) > 1:
            names = f"{group[0].path.name} and {len(group) - 1} other files of one plane each"
            note(f"{names} are not joined, since planes lie at one place or far apart")
    return found


def _joined(group: Sequence[_Grid], unit: str | None, *, needs_unit: bool) -> RtDose:
    """The dose of a file, or of several with a plane each."""
    normal = group[0].axes[:, 2]
    group = sorted(group, key=lambda grid: float(grid.first @ normal)) if len(group) > 1 else group
    grid, name = group[0], group[0].path.name
    own, quantity = grid.unit or unit or "", _QUANTITIES.get(grid.kind, "")
    stated = f"gives its doses as {grid.stated_unit or 'nothing'}, not in Gy"
    if needs_unit and not own:
        raise InvalidInput(f"{name} {stated}; state the unit with unit=")
    with noted() as found:
        if not own:
            note(f"{name} {stated}; its unit is not known until it is typed")
        values, offsets = grid.values, grid.offsets
        if len(group) > 1:
            note(f"{name} and {len(group) - 1} other files of one plane each are joined to one dose")
            offsets = np.array([float((one.first - grid.first) @ normal) for one in group])
            values = np.concatenate([one.values for one in group])
        if offsets is not None:
            values, step = evenly_spaced(values, offsets, name)
        elif not (step := grid.thickness or 0.0):
            note(f"{name} has a single frame and no SliceThickness; it is taken to be 1 mm thick")
            step = 1.0
        note_values(values, own, quantity)
    dose = Dose(
        values=values.transpose(2, 1, 0),
        affine=to_world(grid.axes, step, grid.first),
        unit=own or _UNIT_OF_SHOWN_ONLY,
        quantity=quantity,
        frame_of_reference=grid.frame_of_reference,
        name=name,
        notes=(*grid.notes, *found),
        summation=grid.summation,
        plans=grid.plans,
        beams=grid.beams,
        patient=grid.patient,
    )
    path = grid.path if len(group) == 1 else None
    return RtDose(dose=dose, path=path, has_unit=bool(own))
