"""The verbs of dose-volume histograms."""

import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Operation, Ref, Summary, file, given
from napari_gpubio.core.parameters import check_unused, param
from napari_gpubio.core.reading import note
from napari_gpubio.core.report import Exit
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import one_line
from napari_gpubio.dose.evaluation import DvhSequence, Evaluation, MetricTable, evaluate_steps
from napari_gpubio.dose.io.dvh_files import (
    write_curves_csv,
    write_dvh_sequence,
    write_json,
    write_metric_table,
    write_surfaces_csv,
)
from napari_gpubio.dose.io.rtplan import Plan
from napari_gpubio.dose.metrics.constraints import PASS, Constraint, parse_constraint, read_constraints
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.metrics.metric import Metric
from napari_gpubio.dose.metrics.metric_text import parse_metric
from napari_gpubio.dose.metrics.surface import SurfaceHistogram
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.operations.inputs import (
    DoseOf,
    HeldContours,
    LabelsOf,
    OpenContours,
    OpenDose,
    OpenLabels,
    OpenPlan,
    is_nifti,
)
from napari_gpubio.dose.plans import difference_of_doses, sum_of_doses
from napari_gpubio.dose.settings import DvhSettings, SurfaceSettings
from napari_gpubio.dose.structures.labels import AnyStructures, LabelStructures
from napari_gpubio.dose.surfaces import surface_histograms

__all__ = [
    "DoseDifference",
    "DoseOf",
    "DoseSum",
    "DoseSurface",
    "DoseVolume",
    "HeldContours",
    "LabelsOf",
    "OpenContours",
    "OpenDose",
    "OpenLabels",
    "OpenPlan",
]
_DOSE = "RTDOSE or NIfTI."
_STRUCTURES = "RTSTRUCT, or labels as NIfTI."


def _check_of_contours(operation: Any, names: tuple[str, ...]) -> None:
    """Refuse settings of contours where there are none."""
    if all(issubclass(one.kind, LabelStructures) for one in operation.structures):
        check_unused(operation.settings, names, "the structures are labels")


# -- histograms -------------------------------------------------------------------------------------------------------

_MADE = {"curves": DvhResult, "bands": DvhResult, "metrics": MetricTable, "sequence": DvhSequence}


@dataclass(frozen=True, kw_only=True)
class DoseVolume(Operation, verb="dvh", makes=_MADE):
    """Make dose-volume histograms, and read metrics and constraints off them.

    The exit status is 1 if a constraint does not pass. Curves are written as CSV, or with all that is known of how they
    were made as JSON; bands are their borders, for doses whose errors are known; a sequence is a copy of the RTDOSE
    file with the histograms.
    """

    examples = (
        "dvh rtdose.dcm --structures rtstruct.dcm --metrics 'D95%[Gy]' 'V20Gy[%]'",
        "dvh fluence.nii.gz --unit J/cm2 --structures labels.nii.gz --names 1=skin 2=tumor --out curves.csv",
    )
    needs_no_file = True

    doses: tuple[Ref[Dose], ...] = given("Doses", "RTDOSE or NIfTI; several of one unit are compared.")
    structures: tuple[Ref[AnyStructures], ...] = given("Structures", _STRUCTURES)
    plan: Ref[Plan] | None = given("Plan", "RTPLAN: its prescription is what % of dose are of.", optional=True)
    reference_dose: float | None = param(
        None, "Prescription", "What % of dose are of, in the unit of the dose.", above=0.0
    )
    scale: float = param(1.0, "Scale", "What doses are multiplied by.", above=0.0, advanced=True)
    only: tuple[str, ...] = part("Only", "Structures that are counted, by their names; all by default.", default=())
    metrics: tuple[str, ...] = part(
        "Metrics", "For instance D95%[Gy], D95, max or gEUD(a=8); the usual ones by default.", default=()
    )
    constraints: tuple[str, ...] = part(
        "Constraints", "Limits on metrics of structures: for instance 'Heart: V25Gy[%] < 10'.", default=()
    )
    constraint_file: File | None = part(
        "Constraints", "Text file with a constraint in each line.", default=None, advanced=True
    )
    settings: DvhSettings = part("Histograms", "Conventions and accuracy.", default=DvhSettings())

    def __post_init__(self) -> None:
        for name, parse in (("metrics", parse_metric), ("constraints", parse_constraint)):
            given = getattr(self, name)
            if isinstance(given, (list, tuple)) and all(isinstance(one, (str, Metric, Constraint)) for one in given):
                object.__setattr__(self, name, tuple(str(parse(str(one))) for one in given))  # one spelling of each
        super().__post_init__()

    def check(self) -> None:
        """Raise InvalidInput if the prescription is given twice, or settings of contours for labels."""
        if self.plan is not None and self.reference_dose is not None:
            raise InvalidInput(
                f"the prescription is given as {self.reference_dose:g} and by a plan, too; give one of them"
            )
        _check_of_contours(self, ("interpolation", "caps"))

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, Evaluation]:
        """Count, and evaluate."""
        listed = () if data.constraint_file is None else read_constraints(data.constraint_file)
        found = yield from evaluate_steps(
            data.doses,
            data.structures,
            self.settings,
            titles=tuple(ref.of.title for name, ref in self.inputs() if name == "structures"),
            only=self.only,
            scale=self.scale,
            metrics=tuple(map(parse_metric, self.metrics)),
            constraints=(*map(parse_constraint, self.constraints), *listed),
            reference_dose=self.reference_dose,
            plan=data.plan,
            **run,
        )
        source = self._rtdose()
        return found if source is None else dataclasses.replace(found, source=file(source.path, source.checksum).path)

    def has(self, name: str) -> bool:
        """Whether it makes a result: a sequence of one RTDOSE file as it is, with the structures of one RTSTRUCT."""
        return name != "sequence" or self._rtdose() is not None

    def _rtdose(self) -> File | None:
        """The file that a copy with the histograms can be made of, if there is one."""
        (dose, *more), (structures, *others) = (
            [ref.of for name, ref in self.inputs() if name == wanted] for wanted in ("doses", "structures")
        )
        if more or others or self.scale != 1 or not isinstance(structures, OpenContours):
            return None
        return dose.file if isinstance(dose, OpenDose) and not is_nifti(dose.file.path) else None

    def summary(self, made: Evaluation) -> Summary:
        """The metrics of each structure, and what became of the constraints; InvalidInput if a metric is refused."""
        table, results = made.metrics, made.constraints
        every = [one for _, values in table.rows for one in values]
        if refused := next((one for one in every if one.is_refused), None):
            raise InvalidInput(refused.reason)
        for text in dict.fromkeys(str(one) for one in every if one.reason):
            note(text)
        rows = zip(made.curves, table.rows, strict=True)
        numbers = {
            "structures": [_as_numbers(dvh, table, values) for dvh, (_, values) in rows],
            "dose_unit": made.curves.parameters["unit"],
            "reference_dose": made.reference_dose,
            "constraints": [
                {"constraint": str(one.constraint), "status": one.status, "value": one.value, "below": one.below,
                 "unit": one.constraint.metric.unit, "reason": one.reason}
                for one in results
            ],
        }  # fmt: skip
        lines = [f"{one.status:14} {one.constraint}  ({one.text})" for one in results]
        status = Exit.DONE if all(one.status == PASS for one in results) else Exit.NOT_PASSED
        return Summary((*_lines(table), *lines), numbers, status)


def _lines(table: MetricTable) -> list[str]:
    """A table of metrics as text."""
    names = [one_line(name) for name, _ in table.rows]
    width = max(len("structure"), *map(len, names))
    widths = [max(12, len(str(metric))) for metric in table.metrics]

    def line(first: str, cells: Any) -> str:
        return " ".join([f"{first:{width}}", *(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=True))])

    rows = [["-" if one.reason else str(one) for one in values] for _, values in table.rows]
    return [line("structure", map(str, table.metrics)), *map(line, names, rows)]


def _as_numbers(dvh: Dvh, table: MetricTable, values: Any) -> dict[str, Any]:
    return {"structure": dvh.name, "volume_cc": dvh.volume_cc, "metrics": [
        {"metric": str(metric), "value": one.value, "below": one.below, "unit": metric.unit}
        for metric, one in zip(table.metrics, values, strict=True)
    ]}  # fmt: skip


def write_curves(result: DvhResult, path: Path, record: Mapping[str, Any]) -> None:
    """Write curves as CSV, or all that is known of them as JSON."""
    if not result.dvhs:
        raise InvalidInput(f"there are no bands to write into {path.name}, since no errors of the doses are known")
    if path.suffix.lower() == ".csv":
        write_curves_csv(path, result)
    else:
        write_json(path, dataclasses.replace(result, parameters={**result.parameters, RECORD: record}))


def write_sequence(sequence: DvhSequence, path: Path, _: Mapping[str, Any]) -> None:
    """Write a copy of an RTDOSE file with histograms."""
    if not sequence.source:
        raise InvalidInput(
            f"{path.name} would be a copy of an RTDOSE file with histograms, and they are not of one such file and "
            "one RTSTRUCT file, as they are; write curves"
        )
    write_dvh_sequence(path, sequence.dvhs, sequence.numbers, sequence.source)


def _counts(one: DvhResult) -> tuple[Any, ...]:
    parts = ("name", "unit", "doses", "volumes_cc", "mean", "outside_cc", "zero_cc")
    return tuple(tuple(getattr(dvh, name) for name in parts) for dvh in one)


register_kind(DvhResult, counts=_counts, endings=(".csv", ".json"), write=write_curves)
register_kind(
    MetricTable,
    counts=lambda one: (tuple(map(str, one.metrics)), one.rows),
    endings=(".csv",),
    write=lambda table, path, _: write_metric_table(path, table),
)
register_kind(DvhSequence, counts=lambda one: (_counts(DvhResult(dvhs=one.dvhs)), one.numbers),
        endings=(".dcm",), write=write_sequence)  # fmt: skip


# -- doses ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DoseSum(Operation, verb="dose-sum", makes={"dose": Dose}):
    """Add the doses of several plans, on the grid and in the unit of the first one."""

    examples = ("dose-sum plan1.dcm plan2.dcm --out sum.nii.gz",)

    doses: tuple[Ref[Dose], ...] = given("Doses", "RTDOSE or NIfTI; at least two.")
    weights: tuple[float, ...] = part("Weights", "What each dose is multiplied by; 1 by default.", default=())
    any_frame: bool = param(False, "Any frame of reference", "Take different frames of reference for the same.")

    def check(self) -> None:
        """Raise InvalidInput if weights are not as many as doses."""
        if self.weights and len(self.weights) != len(self.doses):
            raise InvalidInput(f"there are {len(self.weights)} weights for {len(self.doses)} doses; give one for each")

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Dose]:
        """Add them."""
        yield Step(0, 1, "adding doses")
        titles = [ref.of.title for _, ref in self.inputs()]
        if len({ref.id for _, ref in self.inputs()}) < len(titles):
            note(f"{', '.join(sorted({one for one in titles if titles.count(one) > 1}))} is added more than once")
        return sum_of_doses(data.doses, self.weights or None, any_frame=self.any_frame)


@dataclass(frozen=True, kw_only=True)
class DoseDifference(Operation, verb="dose-difference", makes={"dose": Dose}):
    """Subtract a dose from another one, on the grid and in the unit of that."""

    examples = ("dose-difference plan1.dcm --minus plan2.dcm --out difference.nii.gz",)

    dose: Ref[Dose] = given("Dose", _DOSE)
    minus: Ref[Dose] = given("Minus", "The dose that is subtracted.")
    any_frame: bool = param(False, "Any frame of reference", "Take different frames of reference for the same.")

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Dose]:
        """Subtract it."""
        yield Step(0, 1, "subtracting doses")
        return difference_of_doses(data.dose, data.minus, any_frame=self.any_frame)


# -- surfaces ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Surfaces(Tabular):
    """Dose-surface histograms of structures."""

    histograms: tuple[SurfaceHistogram, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """In sentences."""
        return tuple(dict.fromkeys(text for one in self.histograms for text in one.notes))


@dataclass(frozen=True, kw_only=True)
class DoseSurface(Operation, verb="dose-surface", makes={"surfaces": Surfaces}):
    """Make dose-surface histograms: the area of structures' surfaces that receives a dose."""

    examples = ("dose-surface rtdose.dcm --structures rtstruct.dcm --out surfaces.csv",)

    dose: Ref[Dose] = given("Dose", _DOSE)
    structures: tuple[Ref[AnyStructures], ...] = given("Structures", _STRUCTURES)
    settings: SurfaceSettings = part("Histograms", "Conventions.", default=SurfaceSettings())

    def check(self) -> None:
        """Raise InvalidInput if settings of contours are given for labels."""
        _check_of_contours(self, ("caps", "resolution_mm"))

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Surfaces]:
        """Make them."""
        yield Step(0, 1, "areas")
        return Surfaces(surface_histograms(data.dose, data.structures, self.settings))


register_kind(
    Surfaces,
    counts=lambda one: tuple((s.name, s.unit, s.doses, s.areas_cm2, s.mean) for s in one.histograms),
    endings=(".csv",),
    write=lambda made, path, _: write_surfaces_csv(path, made.histograms),
)
