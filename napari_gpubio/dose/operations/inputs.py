"""What doses, structures and plans are read from: files, volumes, and what was drawn."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD, describe
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Held, Reading, Ref, given
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import OpenDescribed, Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.quantity import QUANTITY, Quantity, checked_unit
from napari_gpubio.core.reading import note
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.dose.io import nifti
from napari_gpubio.dose.io.dicom import modality_of, only_file
from napari_gpubio.dose.io.rtdose import read_rtdose
from napari_gpubio.dose.io.rtplan import Plan, read_rtplan
from napari_gpubio.dose.io.rtstruct import StructureSet, read_rtstruct
from napari_gpubio.dose.io.seg import read_seg
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.structures.contours import ContourStructure, contour_structure
from napari_gpubio.dose.structures.labels import AnyStructures, LabelStructures
from napari_gpubio.dose.structures.overlaps import OVERLAPS, UNION
from napari_gpubio.dose.volumes import dose_of_volume, labels_of_volume, named_labels

_LAYERS = "napari_gpubio.dose.operations.layer_sources:layers_of"
_UNIT = "Of a dose whose file does not state it. For instance Gy or J/cm2; values whose unit is known are converted."
_NAMES = "Of the labels that are counted. For instance 3=Heart; all by default, under the names beside the file."


def is_nifti(path: str | Path) -> bool:
    """Whether a file is NIfTI, by its name."""
    return Path(path).name.lower().endswith(NIFTI_SUFFIXES)


# -- doses ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OpenDose(OpenDescribed, verb="open-dose", makes={"dose": Dose}):
    """Open a dose: RTDOSE, or NIfTI with what lies beside it."""

    file: File = part("File", "RTDOSE file, or NIfTI volume.")
    unit: str = param("", "Unit", _UNIT)

    def check(self) -> None:
        """Raise InvalidInput if the unit is none."""
        _check_unit(self.unit)

    @classmethod
    def found_in(cls, path: Path) -> Path:
        """The file, or the only RTDOSE of a folder."""
        return only_file(path, "RTDOSE")

    def read(self, data: Any) -> Dose:
        """Read it."""
        if is_nifti(data.file):
            return nifti.read_dose(data.file, unit=self.unit or None)
        dose = read_rtdose(data.file, unit=self.unit or None)
        if self.unit and dose.unit != checked_unit(self.unit):
            raise InvalidInput(f"{data.file.name} states its doses in {dose.unit}, not in {self.unit}; leave unit out")
        return dose


@dataclass(frozen=True, kw_only=True)
class DoseOf(Reading, verb="dose-of", makes={"dose": Dose}):
    """Take a volume, such as a simulated fluence, or one of a series, as a dose."""

    examples = ("dose-of fluence.nii.gz --unit J/cm2 --out dose.nii.gz",)

    volume: Ref[Volume] = given("Volume", "Values, which are converted from logarithms.")
    standard_error: Ref[Volume] | None = given(
        "Standard error", "Of the linear values, in their unit, on their grid.", optional=True
    )
    unit: str = param("", "Unit", "Of the dose; that of the values by default. It is never guessed.")
    frame: int | None = param(None, "Volume of a series", "Which one, counted from 0.", minimum=0)
    values_unit: str = param("", "Unit of the values", "Where the volume does not say it itself.")
    quantity: str = param("", "Quantity", "What the values are, where the volume does not say it itself.")
    frame_of_reference: str = param("", "Frame of reference", "What the coordinates refer to (a DICOM UID).")
    is_oriented: bool = param(True, "Oriented", "Whether it is known where the voxels lie.")

    def check(self) -> None:
        """Raise InvalidInput if a unit is none."""
        _check_unit(self.unit)
        _check_unit(self.values_unit)

    def read(self, data: Any) -> Dose:
        """Take it."""
        error, known = data.standard_error, data.volume.quantity
        return dose_of_volume(
            data.volume,
            self.unit or (known.unit if known else "") or self.values_unit,
            frame=self.frame,
            standard_error=None if error is None else error.array,
            values_unit=self.values_unit,
            quantity=self.quantity,
            frame_of_reference=self.frame_of_reference,
            is_oriented=self.is_oriented,
        )


def _check_unit(unit: str) -> None:
    if unit:
        checked_unit(unit)


def write_dose(dose: Dose, path: Path, record: Mapping[str, Any]) -> None:
    """Write a dose as NIfTI, its unit in the header, and that and its record beside it."""
    nifti.write_dose(path, dose)
    describe(path, {QUANTITY: Quantity(dose.quantity or "dose", dose.unit), RECORD: record})


register_kind(Dose,
        counts=lambda one: (
            one.values, one.affine, one.unit, one.quantity, one.frame_of_reference, one.halves, one.standard_error
        ),
        endings=NIFTI_SUFFIXES,
        write=write_dose,
        opens=OpenDose,
        shows=_LAYERS)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OpenPlan(Reading, verb="open-plan", makes={"plan": Plan}):
    """Open the prescription of a plan."""

    file: File = part("File", "RTPLAN file.")

    @classmethod
    def found_in(cls, path: Path) -> Path:
        """The file, or the only RTPLAN of a folder."""
        return only_file(path, "RTPLAN")

    def read(self, data: Any) -> Plan:
        """Read it."""
        return read_rtplan(data.file)


register_kind(Plan, counts=lambda one: (one,), opens=OpenPlan)


# -- structures -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Named(Reading):
    """Base of what takes labels under names."""

    names: tuple[str, ...] = part("Names", _NAMES, default=())

    def check(self) -> None:
        """Raise InvalidInput if a name is written otherwise."""
        named_labels(self.names)


@dataclass(frozen=True, kw_only=True)
class OpenLabels(_Named, OpenDescribed, verb="open-labels", makes={"structures": LabelStructures}):
    """Open structures that are labels of a NIfTI volume, or segments of a DICOM file (SEG)."""

    file: File = part("File", "NIfTI volume of labels, or a DICOM segmentation.")

    @classmethod
    def opens(cls, path: str) -> bool:
        """Whether it is NIfTI, by its name, or a DICOM segmentation."""
        return is_nifti(path) or (Path(path).is_file() and modality_of(Path(path)) == "SEG")

    def read(self, data: Any) -> LabelStructures:
        """Read them."""
        if is_nifti(data.file):
            return nifti.read_labels(data.file, named_labels(self.names) or None)
        found, *others = read_seg(data.file)
        if others:
            note("its segments overlap; those that overlap others are left out: read_seg has all of them")
        return dataclasses.replace(found, structures=named_labels(self.names) or found.structures)


@dataclass(frozen=True, kw_only=True)
class LabelsOf(_Named, verb="labels-of", makes={"structures": LabelStructures}):
    """Take a volume of labels, such as painted ones, as structures."""

    examples = ("labels-of painted.nii.gz --names 1=heart --record organs.json",)

    volume: Ref[Volume] = given("Volume", "Whole numbers, of which 0 is no structure.")
    frame_of_reference: str = param("", "Frame of reference", "What the coordinates refer to (a DICOM UID).")
    is_oriented: bool = param(True, "Oriented", "Whether it is known where the voxels lie.")

    def read(self, data: Any) -> LabelStructures:
        """Take them."""
        return labels_of_volume(
            data.volume,
            named_labels(self.names) or None,
            frame_of_reference=self.frame_of_reference,
            is_oriented=self.is_oriented,
        )


@dataclass(frozen=True, kw_only=True)
class OpenContours(Reading, verb="open-contours", makes={"structures": StructureSet}):
    """Open structures that are contours of an RTSTRUCT file."""

    file: File = part("File", "RTSTRUCT file.")
    thickness_mm: float | None = param(
        None, "Slice thickness", "Of a single plane. Where the file does not say it.", unit="mm", above=0
    )
    overlaps: str | None = param(
        None, "Overlaps", "Join contours of a structure that overlap in part, or leave out what two of them hold; by "
        "the type of the contours by default.", choices=OVERLAPS, advanced=True,
    )  # fmt: skip

    @classmethod
    def found_in(cls, path: Path) -> Path:
        """The file, or the only RTSTRUCT of a folder."""
        return only_file(path, "RTSTRUCT")

    def read(self, data: Any) -> StructureSet:
        """Read them."""
        return read_rtstruct(data.file, thickness_mm=self.thickness_mm, overlaps=self.overlaps)


@dataclass(frozen=True, kw_only=True)
class Drawn(Settings):
    """What is known of a structure of contours, beside their points."""

    name: str = param("structure", "Name", "Of the structure.")
    thickness_mm: float | None = param(None, "Slice thickness", "Where a plane is single.", unit="mm", above=0)
    overlaps: str = param(UNION, "Overlaps", "What becomes of contours that overlap in part.", choices=OVERLAPS)
    joined_mm: tuple[float, ...] = part("Joined", "Planes before wide distances that are no gaps.", default=())
    parted_mm: tuple[tuple[float, float, float], ...] = part("Parted", "Planes before gaps.", default=())
    frame_of_reference: str = param("", "Frame of reference", "What the coordinates refer to (a DICOM UID).")


@dataclass(frozen=True, kw_only=True)
class HeldContours(Reading, verb="held-contours", makes={"structures": StructureSet}):
    """Structures that were drawn as contours, and that no file holds."""

    structures: tuple[Drawn, ...] = part("Structures", "What is known of each.")
    loops: Held = part("Contours", "Number of the structure and of points of each, shape (N, 2).")
    points: Held = part("Points", "Of all contours, world mm, shape (N, 3).")
    name: str = param("contours", "Name", "As people know them.", compare=False)

    @classmethod
    def of(cls, structures: Iterable[ContourStructure], name: str = "contours", store: Store = STORE) -> "HeldContours":
        """Return the operation of structures, whose points are copied."""
        known = list(structures)
        loops = [(number, loop) for number, one in enumerate(known) for loop in one.world_loops]
        shared = list(Drawn.__dataclass_fields__)
        return cls(
            structures=tuple(Drawn(**{name: getattr(one, name) for name in shared}) for one in known),
            loops=store.hold(np.array([(n, len(loop)) for n, loop in loops], np.int64).reshape(-1, 2)),
            points=store.hold(np.concatenate([loop for _, loop in loops]) if loops else np.empty((0, 3))),
            name=name,
        )

    def read(self, data: Any) -> StructureSet:
        """Take them from where they are held."""
        numbers, counts = _checked_loops(data.loops, data.points, len(self.structures)).T
        loops = np.split(data.points, np.cumsum(counts)[:-1])
        made = tuple(
            contour_structure(
                loops=[loop for number, loop in zip(numbers, loops[: len(numbers)], strict=True) if number == n],
                slice_mm=0.0,
                **vars(one),
            )
            for n, one in enumerate(self.structures)
        )
        return StructureSet(structures=made, numbers=tuple(range(1, len(made) + 1)))


def _checked_loops(loops: Any, points: Any, structures: int) -> Any:
    """Numbers of structures and of points of contours, which fit the points."""
    if loops.ndim != 2 or loops.shape[1] != 2 or loops.dtype.kind not in "iu":
        raise InvalidInput(f"loops is {loops.dtype} of shape {loops.shape}; give whole numbers of shape (N, 2)")
    if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "iuf":
        raise InvalidInput(f"points is {points.dtype} of shape {points.shape}; give mm of shape (N, 3)")
    if np.any((loops[:, 0] < 0) | (loops[:, 0] >= structures)):
        raise InvalidInput(f"loops has contours of structures that are not there; there are {structures}, from 0")
    numbers = [int(one) for one in loops[:, 1]]
    if any(one < 0 for one in numbers) or sum(numbers) != len(points):
        raise InvalidInput(
            f"loops has contours of {sum(numbers)} points, of which none may be negative, and points has "
            f"{len(points)}; give as many as there are"
        )
    return loops


def _counts(one: StructureSet) -> tuple[Any, ...]:
    parts = ("name", "world_loops", "thickness_mm", "overlaps", "joined_mm", "parted_mm", "frame_of_reference")
    return one.numbers, tuple(tuple(getattr(structure, name) for name in parts) for structure in one)


register_kind(AnyStructures, counts=lambda one: (one,), opens=(OpenLabels, OpenContours))
register_kind(
    LabelStructures,
    counts=lambda one: (one.labels, one.affine, one.values, one.names, one.frame_of_reference),
    opens=OpenLabels,
    shows=_LAYERS,
)
register_kind(StructureSet, counts=_counts, opens=OpenContours, shows=_LAYERS)
