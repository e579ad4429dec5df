"""DICOM RT files, and folders of them, as napari layers, without importing napari.

Images, doses and structures are read for themselves: what is wrong with one of them keeps none of the others.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any, TypeVar

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData, LayerReader, Paths, listed, reader_if, show_notes, with_notes
from napari_gpubio.core.quantity import QUANTITY, Quantity
from napari_gpubio.core.reading import NOTES, note, noted
from napari_gpubio.dose.io.ct import CtImage, read_ct_series
from napari_gpubio.dose.io.dicom import CLASSES, files_under, is_dicom, modality_of, sorted_by_modality
from napari_gpubio.dose.io.rtdose import RtDose, read_rtdoses
from napari_gpubio.dose.io.rtplan import Plan, beams_notes, read_rtplan
from napari_gpubio.dose.io.rtstruct import read_rtstruct
from napari_gpubio.dose.model import Dose, differing
from napari_gpubio.dose.napari_io import (
    CT_NUMBER,
    NUMBERS,
    OVERLAPPING,
    PATIENT,
    RTDOSE,
    contours_layer,
    dose_layer,
    labels_layer,
    of_plan,
)
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.raster import label_structures, thickness_along

Kinds = dict[str, list[Path]]
Input = TypeVar("Input")
Read = TypeVar("Read")
_MAX_FILES_LOOKED_AT = 64
_SOFT_TISSUE_HU = (-160.0, 240.0)


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of DICOM RT files or a folder of them (napari's reader contribution), or None for others."""
    return reader_if(_is_ours, path, read_layers)


def read_layers(path: Paths) -> list[LayerData]:
    """Read DICOM RT files, or folders of them, as one study.

    Returns
    -------
    layers
        The CT (other series of it are hidden), doses, labels of structures, and their contours (hidden where there are
        labels). A dose of a plan carries the prescription of that plan, and its file; structures carry their numbers.
        What was assumed, left out or overlaps is in ``notes`` of the metadata, and napari shows it.

    Raises
    ------
    InvalidInput
        If there is nothing that can be shown.
    """
    with noted() as notes:
        layers = _study(*_sorted(listed(path)))
    show_notes(notes)
    return layers


def _study(kinds: Kinds, refusals: list[InvalidInput]) -> list[LayerData]:
    """The layers of files by their kind; ``refusals`` say which of them cannot be read."""
    with noted() as common:
        plans = list(dict.fromkeys(_each(read_rtplan, kinds["RTPLAN"], refusals)))  # copies are one
        series = [one for found in _each(read_ct_series, [kinds["CT"]][: len(kinds["CT"])], refusals) for one in found]
        _note_series(series)
        others = {kind: len(files) for kind, files in kinds.items() if kind not in (*CLASSES, "")}
        if others:
            named = ", ".join(f"{count} {kind}" for kind, count in others.items())
            note(f"files of other kinds are not shown here ({named})")
    with noted() as of_doses:
        doses: Sequence[RtDose] = [one for found in _each(read_rtdoses, [kinds["RTDOSE"]], refusals) for one in found]
        doses = beams_notes(doses, plans)
    common += [text for text in of_doses if not any(text in one.dose.notes for one in doses)]
    grounds = [_ground(one) for one in series]
    shown = [*grounds[:1], *(one.dose for one in doses)]
    layers = [
        dose_layer(ground, colormap="gray", contrast_limits=_SOFT_TISSUE_HU, visible=n == 0)
        for n, ground in enumerate(grounds)
    ]
    opacity = 0.5 if layers else 1.0
    for one in doses:
        with noted() as found:
            layer = _dose_layer(one, plans, single=len(doses) == 1, opacity=opacity)
        layers += with_notes([layer], (*one.dose.notes, *found))
    for file in kinds["RTSTRUCT"]:
        with noted() as found:
            made = _each(partial(_structure_layers, series=series, grounds=shown), [file], refusals)
        layers += with_notes([layer for parts in made for layer in parts], found)
    if not layers:
        nothing = InvalidInput("there is no CT, RTDOSE or RTSTRUCT file to show (an RTPLAN file holds numbers only)")
        raise next(iter(refusals), nothing)
    with noted() as whole:
        _note_frames(shown)
        _note_patients(layers, plans)
        if refusals:
            note(f"parts of the study that were left out: {len(refusals)} ({'; '.join(map(str, refusals))})")
    return with_notes(layers, [*common, *whole])


def _each(read: Callable[[Input], Read], inputs: Iterable[Input], refusals: list[InvalidInput]) -> list[Read]:
    """What a reader gives for each input; refusals of it go to the others."""
    found = []
    for one in inputs:
        try:
            found.append(read(one))
        except InvalidInput as error:
            refusals.append(error)
    return found


def _note_series(series: Sequence[CtImage]) -> None:
    """Say which of several CT series is shown."""
    if len(series) > 1:
        first, *others = (f"{one.name!r} ({len(one.slices)} slices)" for one in series)
        note(f"of {len(series)} CT series {first} is shown; hidden layers are {', '.join(others)}")


def _note_frames(shown: Sequence[Dose]) -> None:
    """Say so if images and doses have different frames of reference."""
    if len({one.frame_of_reference for one in shown} - {""}) > 1:
        names = ", ".join(repr(one.name) for one in shown)
        note(f"{names} have different frames of reference, so their positions cannot be compared; register them")


def _note_patients(layers: Sequence[LayerData], plans: Sequence[Plan]) -> None:
    """Say so if layers and plans are of different patients."""
    named = [(keywords["metadata"][KEY].get(PATIENT) or "", repr(keywords["name"])) for _, keywords, _ in layers]
    by_patient: dict[str, list[str]] = defaultdict(list)
    for patient, name in (*named, *((plan.patient, f"the plan {plan.label!r}") for plan in plans)):
        if patient:
            by_patient[next((one for one in by_patient if not differing(one, patient)), patient)].append(name)
    by = dict.fromkeys(differing(*pair) for pair in combinations(by_patient, 2))
    if by:
        files = "; ".join(", ".join(names) for names in by_patient.values())
        note(f"files of different patients ({', '.join(by)}): {files}")


def _ground(ct: CtImage) -> Dose:
    """A CT as a volume that structures are drawn on."""
    return Dose(
        values=ct.values,
        affine=ct.affine,
        patient=ct.patient,
        unit="HU",
        quantity=CT_NUMBER,
        frame_of_reference=ct.frame_of_reference,
        name=ct.name or "CT",
        notes=ct.notes,
    )


def _dose_layer(one: RtDose, plans: Sequence[Plan], *, single: bool, opacity: float) -> LayerData:
    """The layer of a dose, with the prescription of its plan if it is the dose of one."""
    metadata: dict[str, Any] = {} if one.path is None else {RTDOSE: str(one.path.resolve())}
    if not one.has_unit:
        metadata[QUANTITY] = Quantity("dose")
    own = [plan for plan in plans if plan.uid in one.dose.plans] or ([] if one.dose.plans else list(plans))
    if one.has_unit and len(own) == 1 and (single or one.dose.plans):
        metadata |= of_plan(one.dose, own[0])
    elif plans and one.has_unit:
        which = "is of a plan that is not here" if one.dose.plans and not own else "is not known to be of one plan here"
        note(f"{one.dose.name} {which}, so its prescription is not known")
    return dose_layer(one.dose, metadata=metadata, opacity=opacity)


def _structure_layers(file: Path, *, series: Sequence[CtImage], grounds: Sequence[Dose]) -> list[LayerData]:
    """Contours, and labels on the first image or dose in their frame of reference; those of another frame apart."""
    found, name = read_rtstruct(file, image=series[0] if series else None), file.stem
    numbered = {NUMBERS: {one.name: number for one, number in zip(found.structures, found.numbers, strict=True)}}
    by_frame: dict[str, list[ContourStructure]] = defaultdict(list)
    for structure in found.structures:
        if structure.planes:
            by_frame[structure.frame_of_reference].append(structure)
    layers = []
    for n, (frame, drawn) in enumerate(by_frame.items()):
        called = name if n == 0 else f"{name} ({n + 1})"
        ground = next((one for one in grounds if len({frame, one.frame_of_reference} - {""}) < 2), None)
        if ground is None:
            if grounds:
                names = f"{len(drawn)} structures of {called} ({', '.join(repr(one.name) for one in drawn)})"
                note(f"{names} have another frame of reference than image and doses, and are contours only")
            layers.append(contours_layer(drawn, called, metadata=numbered))
            continue
        usable = [_of_known_thickness(one, ground) for one in drawn]
        x, y, z = ground.values.shape
        labels, lost = label_structures(usable, ground.affine, (x, y, z))
        colors = {n: one.color for n, one in enumerate(usable, start=1) if one.color is not None}
        patient = usable[0].patient
        labels = dataclasses.replace(labels, frame_of_reference=frame or ground.frame_of_reference, patient=patient)
        overlap = {OVERLAPPING: True, NOTES: list(lost)} if lost else {}
        layers += [
            contours_layer(usable, f"{called} contours", ground.affine, metadata=numbered, visible=False),
            labels_layer(labels, called, colors, metadata={**numbered, **overlap}, opacity=0.4),
        ]
    if not layers:
        raise InvalidInput(f"{file.name} has no closed contours to show; export the structures again")
    return layers


def _of_known_thickness(structure: ContourStructure, ground: Dose) -> ContourStructure:
    """A structure; in a single plane of unknown thickness it is as thick as a slice of what it is shown on."""
    if len(structure.planes) > 1 or structure.thickness_mm is not None:
        return structure
    thickness = thickness_along(ground.affine, structure.frame[:3, 2])
    note(f"{structure.name!r} lies in a single plane and is taken to be {thickness:.3g} mm thick, as {ground.name!r}")
    return dataclasses.replace(structure, thickness_mm=thickness)


def _is_ours(path: Path) -> bool:
    """Whether a file is DICOM RT or CT, or a folder has such a file among its first ones."""
    if not path.is_dir():
        return _is_our_file(path)
    return any(_is_our_file(file) for file in islice(files_under(path), _MAX_FILES_LOOKED_AT))


def _is_our_file(file: Path) -> bool:
    """Whether a file is DICOM RT or CT; not so if it cannot be read."""
    try:
        return is_dicom(file) and modality_of(file) in CLASSES
    except InvalidInput:
        return False


def _sorted(paths: list[Path]) -> tuple[Kinds, list[InvalidInput]]:
    """Files by their kind, of folders those that are DICOM, and why others of those cannot be read."""
    kinds: Kinds = {kind: [] for kind in CLASSES}
    refusals: list[InvalidInput] = []
    for path in paths:
        if path.is_dir():
            found, damaged = sorted_by_modality(path)
            if damaged:
                more = f" ({len(damaged) - 1} more files cannot either)" if len(damaged) > 1 else ""
                refusals.append(InvalidInput(f"{damaged[0]}{more}"))
        else:
            found = {kind: [path] for kind in _each(modality_of, [path], refusals)}
        for kind, files in found.items():
            kinds.setdefault(kind, []).extend(files)
    return kinds, refusals
