"""What a DICOM RTPLAN file prescribes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.dose.io.dicom import decoded, numbers, read_dataset

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
        Prescribed to the target, in all fractions; None where the file does not tell.
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
        Planned ones in all fraction groups; None where the file does not tell.
    beams_gy
        What all beams give in all fractions at their points; None where the file does not tell.
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


def read_rtplan(path: str | Path) -> Plan:
    """Read the prescription of an RTPLAN file.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or of another kind.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTPLAN")
    return decoded(name, lambda: _plan(dataset, name))


def _plan(dataset: Any, name: str) -> Plan:
    groups = list(dataset.get("FractionGroupSequence") or ())
    counts = [_count(group, name) for group in groups]
    told = [count for count in counts if count is not None]
    return Plan(
        label=str(dataset.get("RTPlanLabel", "") or name),
        references=tuple(_reference(item, name) for item in dataset.get("DoseReferenceSequence") or ()),
        fractions=sum(told) if told else None,
        beams_gy=_beams_gy(groups, counts, name),
    )


def _reference(item: Any, name: str) -> DoseReference:
    number = item.get("ReferencedROINumber")
    return DoseReference(
        description=str(item.get("DoseReferenceDescription", "") or ""),
        kind=str(item.get("DoseReferenceType", "") or ""),
        place=str(item.get("DoseReferenceStructureType", "") or ""),
        structure=None if number is None else int(number),
        prescription_gy=_number(item, "TargetPrescriptionDose", name),
    )


def _count(group: Any, name: str) -> int | None:
    planned = _number(group, "NumberOfFractionsPlanned", name)
    return None if planned is None else int(planned)


def _beams_gy(groups: list[Any], counts: list[int | None], name: str) -> float | None:
    doses = [
        count * dose
        for group, count in zip(groups, counts, strict=True)
        if count is not None
        for beam in group.get("ReferencedBeamSequence") or ()
        if (dose := _number(beam, "BeamDose", name)) is not None
    ]
    return sum(doses) if doses else None


def _number(item: Any, keyword: str, name: str) -> float | None:
    """An attribute that need not be there."""
    if item.get(keyword) in (None, ""):
        return None
    return float(numbers(item, keyword, name, 1)[0])
