"""Plans from DICOM RTPLAN files: their prescriptions, and which doses these are of."""

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.dose.io.dicom import integers_of, items_of, number_of, patient_of, read_dataset, text_of
from napari_gpubio.dose.io.rtdose import PARTS, RtDose
from napari_gpubio.dose.metrics.parameters import dose_factor, same_kind
from napari_gpubio.dose.model import COMBINED, OF_BEAMS, Dose, note_patients, note_reference

_NO_POINTS = ("VOLUME", "SITE")
_TREATMENT_BEAMS = ("", "TREATMENT", "CONTINUATION")
TARGET = "TARGET"
_BEAMS = "sum of the beams' doses"
_MIN_SHARE = 0.5  # that beams give of a prescription where both are right


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
        Numbers of its beams that treat; none where it has several fraction groups, which may share beams.
    patient
        As `napari_gpubio.dose.Dose.patient`.
    is_brachy
        Whether sources are applied, near which doses are far above the prescription.
    """

    label: str
    references: tuple[DoseReference, ...] = ()
    fractions: int | None = None
    beams_gy: float | None = None
    uid: str = ""
    beams: tuple[int, ...] = ()
    patient: str = ""
    is_brachy: bool = False

    @property
    def prescriptions(self) -> tuple[tuple[float, str], ...]:
        """The doses that % may be of, Gy, and where each was found; the first one is the usual choice.

        These are doses prescribed to targets: first to volumes and sites, then points, the largest first; where there
        are none, what the beams give together.
        """
        targets = [one for one in self.references if one.kind == TARGET and (one.prescription_gy or 0.0) > 0]
        sources: dict[float, str] = {}
        for one in sorted(targets, key=lambda one: (one.place not in _NO_POINTS, -(one.prescription_gy or 0.0))):
            sources.setdefault(one.prescription_gy or 0.0, f"prescribed to {one.description or one.place.lower()!r}")
        if sources:
            return tuple(sources.items())
        return ((self.beams_gy, _BEAMS),) if self.beams_gy else ()

    @property
    def prescription(self) -> tuple[float, str] | None:
        """The first of `prescriptions`; None if the file has none."""
        return next(iter(self.prescriptions), None)

    def prescription_of(self, dose: Dose) -> tuple[float, str] | None:
        """The prescription that % of a dose are of, Gy, and where it was found; None if the file has none.

        Notes say what was assumed of the dose, and what else is prescribed.

        Raises
        ------
        InvalidInput
            If the dose is not known to be that of this plan: its file names another one, or it is of a part of it.
            Doses of beams are that of the plan if they are of all its beams, each once.
        """
        if self.prescription is None:
            return None
        name, (gray, source) = dose.name or "the dose", self.prescription
        if reason := self._lacks(dose):
            own = f"it has no prescription ({gray:g} Gy is that of {self.label!r})"
            raise InvalidInput(f"{name} {reason}, so {own}; give the dose that % are of")
        if not (dose.plans and self.uid):
            note(f"{name} does not say which plan it is the dose of; it is taken to be that of {self.label!r}")
        for text in note_patients(name, f"the plan {self.label!r}", (dose.patient, self.patient)):
            note(text)
        if source == _BEAMS:
            note(f"{self.label!r} prescribes no dose to a target; 100 % of {name} are {gray:g} Gy, the {source}")
        if others := ", ".join(f"{other:g} Gy {target}" for other, target in self.prescriptions[1:]):
            note(f"100 % of {name} are {gray:g} Gy {source}; the plan also has {others}")
        if same_kind(dose.unit, "Gy") and not self.is_brachy:
            note_reference(dose, gray * dose_factor("Gy", dose.unit), source)
        if self.beams_gy and not _MIN_SHARE <= self.beams_gy / gray <= 1 / _MIN_SHARE:
            note(f"beams of {self.label!r} give {self.beams_gy:g} Gy together (BeamDose); {gray:g} Gy are {source}")
        return self.prescription

    def _lacks(self, dose: Dose) -> str:
        """Why a dose is not that of this plan; empty if it is."""
        if dose.plans and self.uid and dose.plans != (self.uid,):
            return f"is the dose of {'another plan' if len(dose.plans) == 1 else 'several plans'}"
        if dose.is_of_plan:
            return ""
        if dose.summation == COMBINED:
            return "is not known to be the dose of a plan"
        share, is_whole = dose.summation, False
        if "error" in dose.quantity:
            share = dose.quantity
        elif dose.summation == OF_BEAMS and dose.plans:
            share, is_whole = self.share_of(dose.beams)
        return "" if is_whole else f"is not the dose of a plan ({share})"

    def share_of(self, beams: Sequence[int]) -> tuple[str, bool]:
        """What beams are of this plan, in words, and whether they are all of its beams, each once."""
        if twice := sorted({number for number in beams if beams.count(number) > 1}):
            return f"twice or more: beam {', '.join(map(str, twice))}", False
        if not (beams and self.beams) or len(set(self.beams)) < len(self.beams):
            return "whether they are all beams of the plan is not known", False
        if foreign := sorted(set(beams) - set(self.beams)):
            return f"beam {', '.join(map(str, foreign))} is none of the plan", False
        if len(beams) < len(self.beams):
            return f"{len(beams)} of the {len(self.beams)} beams of the plan", False
        return "all beams of the plan", True


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
    beams = [one for kind in ("BeamSequence", "IonBeamSequence") for one in items_of(dataset, kind, name)]
    treating = [beam for beam in beams if text_of(beam, "TreatmentDeliveryType", name) in _TREATMENT_BEAMS]
    return Plan(
        label=text_of(dataset, "RTPlanLabel", name) or name,
        references=tuple(_reference(item, name) for item in items_of(dataset, "DoseReferenceSequence", name)),
        fractions=sum(planned) if planned else None,
        beams_gy=_beams_gy(groups, counts, set(integers_of(treating, "BeamNumber", name)), name),
        uid=text_of(dataset, "SOPInstanceUID", name),
        beams=() if len(groups) > 1 else integers_of(treating, "BeamNumber", name),
        patient=patient_of(dataset, name),
        is_brachy=bool(items_of(dataset, "ApplicationSetupSequence", name)),
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


def _beams_gy(groups: list[Any], counts: list[float | None], treating: set[int], name: str) -> float | None:
    """Sum of the doses of beams that treat, over all fractions; None, and a note, where one of them is not known."""
    doses = [
        None if count is None or (dose := number_of(beam, "BeamDose", name)) is None else int(count) * dose
        for group, count in zip(groups, counts, strict=True)
        for beam in items_of(group, "ReferencedBeamSequence", name)
        if not treating or number_of(beam, "ReferencedBeamNumber", name) in (None, *treating)
    ]
    known = [dose for dose in doses if dose is not None]
    if known and len(known) < len(doses):
        note(f"{len(doses) - len(known)} of {len(doses)} beams have no dose (BeamDose), so their sum is not known")
        return None
    return sum(known) if known else None


def beams_notes(doses: Sequence[RtDose], plans: Sequence[Plan]) -> tuple[RtDose, ...]:
    """Doses of a study, where they are of parts of one plan with a note on what they are together."""
    known = {plan.uid: plan for plan in plans}
    groups: dict[tuple[tuple[str, ...], str, str], list[RtDose]] = defaultdict(list)
    for one in doses:
        if one.dose.summation in PARTS and one.dose.summation != "MULTI_PLAN":
            groups[(one.dose.plans, one.dose.summation, one.dose.frame_of_reference)].append(one)
    more: dict[int, str] = {}
    for (uids, summation, _), group in groups.items():
        if len(group) < 2:
            continue
        names, plan = ", ".join(one.dose.name for one in group), known.get("".join(uids), Plan(label=""))
        share, is_whole = "whether they are all of it is not known", False
        if summation == OF_BEAMS:
            share, is_whole = plan.share_of([number for one in group for number in one.dose.beams])
        advice = ": add them" if is_whole else ""
        text = f"{names} are doses of {PARTS[summation]} ({share}); none of them is the dose of the plan{advice}"
        note(text)
        more |= {id(one): text for one in group}
    return tuple(
        dataclasses.replace(one, dose=dataclasses.replace(one.dose, notes=(*one.dose.notes, more[id(one)])))
        if id(one) in more
        else one
        for one in doses
    )
