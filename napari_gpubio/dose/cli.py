"""The command-line verb ``napari-gpubio dose``: histograms, metrics and constraints from files."""

import argparse
import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.command_line import add_settings, check_outputs, draw_progress, read_settings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import measured, printable, tell, warn, wrote
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.dose.io import nifti
from napari_gpubio.dose.io.dvh_files import (
    write_curves_csv,
    write_dvh_sequence,
    write_json,
    write_metrics_csv,
    write_surfaces_csv,
)
from napari_gpubio.dose.io.rtdose import read_rtdose
from napari_gpubio.dose.io.rtplan import read_rtplan
from napari_gpubio.dose.io.rtstruct import read_rtstruct
from napari_gpubio.dose.metrics.constraints import PASS, evaluate_constraints, read_constraints
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.metrics.metric import Metric, MetricValue, evaluate_metric
from napari_gpubio.dose.metrics.metric_text import parse_metric
from napari_gpubio.dose.metrics.parameters import dose_factor
from napari_gpubio.dose.model import Dose, Structures, note_reference
from napari_gpubio.dose.plans import difference_of_doses, sum_of_doses
from napari_gpubio.dose.run import dvh, whole_dose
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.labels import LabelStructures
from napari_gpubio.dose.structures.overlaps import OVERLAPS
from napari_gpubio.dose.surfaces import surface_histograms

_PLAIN_METRICS = ("Volume[cc]", "Mean[{unit}]", "D95%[{unit}]", "D50%[{unit}]", "D2%[{unit}]")
_LIGHT_METRICS = (*_PLAIN_METRICS, "Zero[%]")
_OUTPUTS = ("save_dose", "curves", "surfaces", "table", "dicom")


def add_verb(verbs: Any) -> None:
    """Add the verb to the command line."""
    verb = verbs.add_parser(
        "dose",
        help="dose-volume histograms, metrics and constraints",
        description="Make dose-volume histograms. The exit status is 1 if a constraint does not pass.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  napari-gpubio dose rtdose.dcm rtstruct.dcm --metric 'D95%[Gy]' --metric 'V20Gy[%]'",
    )
    verb.add_argument("dose", type=Path, help="RTDOSE file, or NIfTI volume with --unit")
    verb.add_argument("structures", type=Path, help="RTSTRUCT file, or NIfTI labels")
    verb.add_argument("--add", type=Path, action="append", metavar="DOSE", help="add another dose; may be repeated")
    verb.add_argument("--subtract", type=Path, metavar="DOSE", help="subtract another dose")
    verb.add_argument("--save-dose", type=Path, help="write the dose that is counted: .nii or .nii.gz")
    verb.add_argument("--unit", help="of a dose whose file does not state it, for instance Gy or J/cm2")
    verb.add_argument("--structure", action="append", metavar="NAME", help="only this structure; may be repeated")
    verb.add_argument("--label", action="append", metavar="N=NAME", help="name of a label; may be repeated")
    verb.add_argument(
        "--thickness-mm", type=float, metavar="MM", help="slice thickness of contours that lie in a single plane"
    )
    verb.add_argument(
        "--overlaps",
        choices=OVERLAPS,
        help="join contours of a structure that overlap in part, or leave out what two of them hold; default: by type",
    )
    verb.add_argument(
        "--metric",
        action="append",
        metavar="TEXT",
        help="for instance D95%%[Gy], D95, max or gEUD(a=8); may be repeated",
    )
    verb.add_argument(
        "--reference-dose", type=float, help="what %% of dose are of (the prescription), in the unit of the dose"
    )
    verb.add_argument("--plan", type=Path, help="RTPLAN file with the prescription instead")
    verb.add_argument("--constraints", type=Path, help="text file of lines such as 'Heart: V25Gy[%%] < 10'")
    verb.add_argument("--curves", type=Path, help="write the curves: .csv")
    verb.add_argument("--surfaces", type=Path, help="write dose-surface histograms: .csv")
    verb.add_argument("--table", type=Path, help="write the metrics: .csv")
    verb.add_argument(
        "--json", type=Path, nargs="?", const=True, default=False, metavar="FILE",
        help="write the histograms: .json; without a file, print metrics, files and notes as JSON",
    )  # fmt: skip
    verb.add_argument("--dicom", type=Path, help="write a copy of the RTDOSE file with these histograms")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    add_settings(verb, DvhSettings(), "histograms")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Make histograms as the arguments request."""
    settings = read_settings(options, DvhSettings())
    outputs = {f"--{name.replace('_', '-')}": getattr(options, name) for name in _OUTPUTS}
    outputs["--json"] = options.json if isinstance(options.json, Path) else None
    inputs = {f"--{name}": getattr(options, name) for name in ("dose", "structures", "subtract", "plan", "constraints")}
    inputs |= {f"dose {number} of --add": path for number, path in enumerate(options.add or (), 1)}
    check_outputs(outputs, inputs, force=options.force)
    dose = _read_doses(options, any_frame=settings.any_frame)
    tell(dose.notes)
    reference_dose = _reference_dose(options, dose)
    structures, numbers = _read_structures(options)
    usual = [text.format(unit=dose.unit) for text in (_LIGHT_METRICS if dose.is_light else _PLAIN_METRICS)]
    metrics = [parse_metric(text).in_unit(dose.unit) for text in options.metric or usual]
    constraints = read_constraints(options.constraints) if options.constraints else ()
    result = dvh(dose, structures, settings, device=options.device, progress=draw_progress)
    everything = None
    if any(metric.needs_everything for metric in (*metrics, *(one.metric for one in constraints))):
        everything = whole_dose(dose, settings, device=options.device)
    request = _Request(metrics, reference_dose, everything)
    _show_table(result, request)
    _write(options, result, request, numbers)
    if options.surfaces is not None:
        surfaces = surface_histograms(dose, structures, settings.of_surfaces)
        tell(note for one in surfaces for note in one.notes)
        write_surfaces_csv(options.surfaces, surfaces)
    results = evaluate_constraints(constraints, result, reference_dose=reference_dose, everything=everything)
    for one in results:
        print(f"{one.status:14} {one.constraint}  ({one.text})")
    for path in outputs.values():
        if path is not None:
            wrote(path)
    measured(dose_unit=dose.unit, reference_dose=reference_dose, constraints=[
        {"constraint": str(one.constraint), "status": one.status, "value": one.value, "below": one.below,
         "unit": one.constraint.metric.unit, "reason": one.reason} for one in results
    ])  # fmt: skip
    return 0 if all(one.status == PASS for one in results) else 1


def _read_doses(options: argparse.Namespace, *, any_frame: bool) -> Dose:
    """The dose, with others added or subtracted."""

    def read(path: Path) -> Dose:
        return (nifti.read_dose if _is_nifti(path) else read_rtdose)(path, unit=options.unit)

    dose, added = read(options.dose), options.add or ()
    if options.dicom is not None and (added or options.subtract is not None):
        raise InvalidInput(
            f"{options.dicom.name} would be a copy of one of the doses with histograms of them all; leave out --dicom"
        )
    if added:
        paths = [path.resolve() for path in (options.dose, *added)]
        if twice := sorted({path.name for path in paths if paths.count(path) > 1}):
            warn(f"{', '.join(twice)} is added more than once")
        dose = sum_of_doses([dose, *map(read, added)], any_frame=any_frame)
    if options.subtract is not None:
        dose = difference_of_doses(dose, read(options.subtract), any_frame=any_frame)
    if options.save_dose is not None:
        nifti.write_dose(options.save_dose, dose)
    return dose


def _is_nifti(path: Path) -> bool:
    return path.name.lower().endswith(NIFTI_SUFFIXES)


def _reference_dose(options: argparse.Namespace, dose: Dose) -> float | None:
    """The prescription, in the unit of the dose, as given, or from the plan."""
    if options.plan is None or options.reference_dose is not None:
        if options.reference_dose is not None:
            note_reference(dose, options.reference_dose, "--reference-dose")
        return options.reference_dose
    prescription = read_rtplan(options.plan).prescription_of(dose)
    if prescription is None:
        raise InvalidInput(f"{options.plan.name} has no prescription; give it with --reference-dose")
    gray, source = prescription
    tell([f"reference dose: {gray:g} Gy ({source})"])
    return gray * dose_factor("Gy", dose.unit)


def _read_structures(options: argparse.Namespace) -> tuple[list[Structures], dict[str, int]]:
    """Requested structures, and their numbers in the file by name."""
    if _is_nifti(options.structures):
        for option, value in (("--thickness-mm", options.thickness_mm), ("--overlaps", options.overlaps)):
            if value is not None:
                raise InvalidInput(f"{options.structures.name} holds labels, which need no {option}; leave it out")
        labels = nifti.read_labels(options.structures, _label_names(options.label))
        return [_chosen(labels, options.structure) if options.structure else labels], {}
    found = read_rtstruct(options.structures, thickness_mm=options.thickness_mm, overlaps=options.overlaps)
    tell(found.notes)
    numbers = {one.name: number for one, number in zip(found.structures, found.numbers, strict=True)}
    if options.structure:
        return [found[name] for name in options.structure], numbers
    return list(found.structures), numbers


def _chosen(labels: LabelStructures, names: Sequence[str]) -> LabelStructures:
    """Some of the structures of a label volume, by their names."""
    if unknown := sorted(set(names) - set(labels.names)):
        raise InvalidInput(f"there is no structure {unknown[0]!r}; there are {', '.join(labels.names)}")
    kept = {value: name for value, name in zip(labels.values, labels.names, strict=True) if name in names}
    return dataclasses.replace(labels, structures=kept)


def _label_names(given: Sequence[str] | None) -> dict[int, str] | None:
    if not given:
        return None
    pairs = [re.fullmatch(r"(\d+)=(.+)", text) for text in given]
    for text, pair in zip(given, pairs, strict=True):
        if pair is None:
            raise InvalidInput(f"--label is {text!r}; write for instance --label 3=Heart")
    return {int(pair[1]): pair[2] for pair in pairs if pair is not None}


class _Request(NamedTuple):
    """Metrics, and what they may need besides a structure's histogram: the prescription, and that of all the dose."""

    metrics: Sequence[Metric]
    reference_dose: float | None
    everything: Dvh | None

    def values(self, one: Dvh) -> list[MetricValue]:
        """Of a structure; InvalidInput if a metric cannot be evaluated."""
        found = [
            evaluate_metric(metric, one, self.reference_dose, everything=self.everything) for metric in self.metrics
        ]
        if refused := next((value for value in found if value.is_refused), None):
            raise InvalidInput(refused.reason)
        return found


def _show_table(result: DvhResult, request: _Request) -> None:
    rows = [request.values(one) for one in result]  # before anything is printed, since a metric may be refused
    names = [printable(one.name) for one in result]
    width = max(len("structure"), *map(len, names))
    widths = [max(12, len(str(metric))) for metric in request.metrics]
    print(f"{'structure':{width}}", *(f"{metric!s:>{w}}" for metric, w in zip(request.metrics, widths, strict=True)))
    structures = []
    for name, one, values in zip(names, result, rows, strict=True):
        cells = ("-" if value.reason else str(value) for value in values)
        print(f"{name:{width}}", *(f"{cell:>{w}}" for cell, w in zip(cells, widths, strict=True)))
        tell((*one.notes, *(str(value) for value in values if value.reason)))
        pairs = zip(request.metrics, values, strict=True)
        structures.append({"structure": one.name, "volume_cc": one.volume_cc, "metrics": [
            {"metric": str(metric), "value": value.value, "below": value.below, "unit": metric.unit}
            for metric, value in pairs
        ]})  # fmt: skip
    measured(structures=structures)


def _write(options: argparse.Namespace, result: DvhResult, request: _Request, numbers: dict[str, int]) -> None:
    if options.curves is not None:
        write_curves_csv(options.curves, result)
    if options.table is not None:
        write_metrics_csv(
            options.table,
            result,
            request.metrics,
            reference_dose=request.reference_dose,
            everything=request.everything,
        )
    if isinstance(options.json, Path):
        write_json(options.json, result)
    if options.dicom is not None:
        write_dvh_sequence(options.dicom, result, numbers, options.dose)
