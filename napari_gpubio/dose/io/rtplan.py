"""The prescription of a plan from DICOM RTPLAN files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.reading import reads_file
from napari_gpubio.dose.io.dicom import items_of, number_of, read_dataset, text_of

_WHOLE = ("VOLUME", "SITE")  # references that are no points
TARGET = "TARGET"


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
    uid
        By which doses refer to it (SOPInstanceUID).
    beams
        Numbers of its beams.
    """

    label: str
    references: tuple[DoseReference, ...] = ()
    fractions: int | None = None
    beams_gy: float | None = None
    uid: str = ""
    beams: tuple[int, ...] = ()

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
        uid=text_of(dataset, "SOPInstanceUID", name),
        beams=tuple(
            int(number)
            for beam in items_of(dataset, "BeamSequence", name)
            if (number := number_of(beam, "BeamNumber", name)) is not None
        ),
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
