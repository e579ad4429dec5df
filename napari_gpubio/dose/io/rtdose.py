"""Doses from DICOM RTDOSE files: where their frames lie, and of what of a treatment they are."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note, noted, reading, reads_file
from napari_gpubio.dose.io.dicom import (
    EVEN,
    items_of,
    number_of,
    numbers,
    pixels_of,
    plane_axes,
    read_dataset,
    text_of,
    to_world,
)
from napari_gpubio.dose.io.frames import evenly_spaced
from napari_gpubio.dose.model import WHOLE_PLAN, Dose

Array = npt.NDArray[Any]
_UNITS = {"GY": "Gy"}
_SAME_MM = 0.05  # by which written positions of one place may differ
ERROR = "absorbed dose error"  # the quantity of what holds errors of a dose
_NO_UNIT = "1"  # of values that are shown only
_PARTS = {
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
    """A dose of RTDOSE files, and what they refer to.

    Parameters
    ----------
    dose
        The dose; where ``has_unit`` is False its unit is a placeholder.
    path
        Of the file; None where planes of several were joined.
    plan
        SOPInstanceUID of the plan, empty where the file does not say.
    beams
        Numbers of the beams that it is the dose of, where the file says.
    has_unit
        Whether it is known what the numbers are in.
    """

    dose: Dose
    path: Path | None
    plan: str = ""
    beams: tuple[int, ...] = ()
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

    Parameters
    ----------
    paths
        The files; those that cannot be read are left out with a note.
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
    for group in _groups(grids):
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
class _Grid:
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
    plan: str
    beams: tuple[int, ...]
    notes: tuple[str, ...] = ()


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
    plan, beams = _references(dataset, name)
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
        plan=plan,
        beams=beams,
    )
    _note_meaning(found)
    return found


def _pixels(dataset: Any, name: str) -> Array:
    """Frames, rows, columns as float64; float32 would lose bits of 32-bit pixels."""
    rows, columns = int(numbers(dataset, "Rows", name, 1)[0]), int(numbers(dataset, "Columns", name, 1)[0])
    frames = int(number_of(dataset, "NumberOfFrames", name) or 1)
    scaling, pixels = float(numbers(dataset, "DoseGridScaling", name, 1)[0]), pixels_of(dataset, name)
    if pixels.size != frames * rows * columns:
        raise InvalidInput(
            f"{name} declares {frames} frames of {rows} x {columns} and holds {pixels.size} values; export it again"
        )
    if scaling <= 0:
        note(f"DoseGridScaling is {scaling:g}, which no dose has")
    return pixels.reshape(frames, rows, columns) * scaling


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


def _references(dataset: Any, name: str) -> tuple[str, tuple[int, ...]]:
    """The plan that a dose refers to, empty if there is none, and beams of it."""
    plans = items_of(dataset, "ReferencedRTPlanSequence", name)
    beams = [
        number_of(beam, "ReferencedBeamNumber", name)
        for plan in plans
        for group in items_of(plan, "ReferencedFractionGroupSequence", name)
        for beam in items_of(group, "ReferencedBeamSequence", name)
    ]
    uids = {text_of(plan, "ReferencedSOPInstanceUID", name) for plan in plans}
    return uids.pop() if len(uids) == 1 else "", tuple(int(number) for number in beams if number is not None)


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
        part = _PARTS.get(grid.summation, "an unknown part of a treatment")
        note(f"holds the dose of {part} (DoseSummationType {grid.summation}{beams}), not of a plan")


def _groups(grids: Sequence[_Grid]) -> list[list[_Grid]]:
    """Files of one plane that are a volume together; every other file alone."""
    groups: dict[Any, list[_Grid]] = defaultdict(list)
    for n, grid in enumerate(grids):
        with np.errstate(over="ignore", invalid="ignore"):  # of absurd places, which are refused as grids
            aside = grid.first - (grid.first @ grid.axes[:, 2]) * grid.axes[:, 2]
            place = (*np.round(grid.axes.ravel(), 4), *np.round(aside / (2 * _SAME_MM)))
        same = (grid.frame_of_reference, grid.unit, grid.kind, grid.summation, grid.plan, grid.beams)
        groups[(n if len(grid.values) > 1 else -1, grid.values.shape, *same, *place)].append(grid)
    found = []
    for group in groups.values():
        depths = np.sort([grid.first @ grid.axes[:, 2] for grid in group])
        is_volume = len(group) > 1 and np.diff(depths).min() > EVEN * max(float(np.diff(depths).max()), _SAME_MM)
        found += [group] if is_volume else [[grid] for grid in group]
    return found


def _joined(group: Sequence[_Grid], unit: str | None, *, needs_unit: bool) -> RtDose:
    """The dose of a file, or of several with a plane each."""
    normal = group[0].axes[:, 2]
    group = sorted(group, key=lambda grid: float(grid.first @ normal)) if len(group) > 1 else group
    grid, name = group[0], group[0].path.name
    own = grid.unit or unit or ""
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
    if offsets is None:
        step = grid.thickness or 0.0
    if not step:
        raise InvalidInput(f"{name} has a single frame and no SliceThickness; give a dose of several frames")
    dose = Dose(
        values=values.transpose(2, 1, 0),
        affine=to_world(grid.axes, step, grid.first),
        unit=own or _NO_UNIT,
        quantity=ERROR if grid.kind == "ERROR" else "",
        frame_of_reference=grid.frame_of_reference,
        name=name,
        notes=(*grid.notes, *found),
        summation=grid.summation,
    )
    path = grid.path if len(group) == 1 else None
    return RtDose(dose=dose, path=path, plan=grid.plan, beams=grid.beams, has_unit=bool(own))


def beams_notes(doses: Sequence[RtDose], beams_of_plans: dict[str, tuple[int, ...]]) -> tuple[RtDose, ...]:
    """Doses of parts of one plan with a note on what they are together.

    Parameters
    ----------
    doses
        Of a study.
    beams_of_plans
        Numbers of all beams of a plan, by its SOPInstanceUID.
    """
    groups: dict[tuple[str, str, str], list[RtDose]] = defaultdict(list)
    for one in doses:
        if one.dose.summation in _PARTS and one.dose.summation != "MULTI_PLAN":
            groups[(one.plan, one.dose.summation, one.dose.frame_of_reference)].append(one)
    more: dict[int, str] = {}
    for (plan, summation, _), group in groups.items():
        if len(group) < 2:
            continue
        names = ", ".join(one.dose.name for one in group)
        given, planned = {number for one in group for number in one.beams}, set(beams_of_plans.get(plan, ()))
        whole = "all beams of the plan" if planned and given == planned else "whether they are all of it is not known"
        if planned and given and given != planned:
            whole = f"{len(given & planned)} of the {len(planned)} beams of the plan"
        text = f"{names} are doses of {_PARTS[summation]}, {whole}; none of them is the dose of the plan: add them"
        note(text)
        more |= {id(one): text for one in group}
    return tuple(
        dataclasses.replace(one, dose=dataclasses.replace(one.dose, notes=(*one.dose.notes, more[id(one)])))
        if id(one) in more
        else one
        for one in doses
    )
