"""Plans evaluated in one go: histograms of one or several doses with their bands, metrics and constraints."""

import dataclasses
import itertools
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import MadeOf
from napari_gpubio.core.reading import note
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.bands import DvhBand, band_of, border_doses
from napari_gpubio.dose.io.rtplan import Plan
from napari_gpubio.dose.io.rtstruct import StructureSet
from napari_gpubio.dose.metrics.constraints import Constraint, ConstraintResult, evaluate_constraints
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.metrics.metric import Metric, MetricTable, MetricValue, metric_table
from napari_gpubio.dose.metrics.metric_text import parse_metric
from napari_gpubio.dose.metrics.parameters import dose_factor
from napari_gpubio.dose.model import Dose, Structures, listed, note_reference
from napari_gpubio.dose.run import dvh_steps, whole_dose_steps
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.labels import AnyStructures, LabelStructures

_USUAL = ("Volume[cc]", "Mean", "D95%", "D50%", "D2%")
_OF_LIGHT = (*_USUAL, "Zero[%]")


class DvhSequence(NamedTuple):
    """Histograms for a copy of an RTDOSE file: with the numbers of their structures, and that file, if there is one."""

    dvhs: tuple[Dvh, ...]
    numbers: dict[str, int]
    source: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation(MadeOf, main="curves"):
    """What `evaluate_steps` makes. Structures of the second dose are named ``Heart (dose 2)``, and so on."""

    curves: DvhResult  # of all structures in all doses
    borders: tuple[DvhBand, ...]  # the bands of them, for doses whose errors are known
    metrics: MetricTable
    constraints: tuple[ConstraintResult, ...]  # in the order of the doses
    reference_dose: float | None  # what % of dose are of, in the unit of the first dose
    numbers: dict[str, int] = dataclasses.field(default_factory=dict)  # of structures in their file, by name
    source: str = ""  # the RTDOSE file of the dose, if there is one
    notes: tuple[str, ...] = ()

    @property
    def bands(self) -> DvhResult:
        """The borders of the bands, of each structure the lower one and the upper one."""
        borders = ((one, name) for one in self.borders for name in ("low", "high"))
        made = tuple(
            dataclasses.replace(getattr(one, name), name=f"{one.middle.name}, {name}") for one, name in borders
        )
        return dataclasses.replace(self.curves, dvhs=made)

    @property
    def sequence(self) -> DvhSequence:
        """The histograms for a copy of the file of the dose."""
        return DvhSequence(self.curves.dvhs, self.numbers, self.source)


def evaluate_steps(  # noqa: PLR0913 - what may be asked of plans
    doses: Sequence[Dose],
    structures: Structures | Iterable[Structures],
    settings: DvhSettings | None = None,
    *,
    titles: Sequence[str] = (),
    only: Sequence[str] = (),
    scale: float = 1.0,
    metrics: Sequence[Metric] = (),
    constraints: Sequence[Constraint] = (),
    reference_dose: float | None = None,
    plan: Plan | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Evaluation]:
    """Make the histograms of doses, and read metrics and constraints off them, step by step.

    Parameters
    ----------
    doses
        At least one, in one unit.
    structures, settings, device, stop
        See `napari_gpubio.dose.dvh_steps`.
    titles
        Of the structures, one for each that is given: names that several structures have get theirs, too, and a number
        where that is not enough, as in ``Heart (plan 1)`` and ``Heart (plan 1, 2)``.
    only
        Names of the structures that are counted; all by default.
    scale
        What doses are multiplied by.
    metrics
        By default the volume, the mean, D95%, D50% and D2%, of light also the volume without any.
    constraints
        Of each dose.
    reference_dose
        What % of dose are of, in the unit of the doses.
    plan
        Has the prescription instead.

    Raises
    ------
    InvalidInput
        As of `napari_gpubio.dose.dvh_steps`; or if doses are in several units, a structure is not there, or the
        plan has no prescription of the dose.
    """
    if len(units := dict.fromkeys(dose.unit for dose in doses)) > 1:
        raise InvalidInput(f"the doses are in {' and '.join(units)}, which cannot share an axis; convert one of them")
    chosen, first = settings or DvhSettings(), doses[0]
    given = [structures] if isinstance(structures, AnyStructures) else [*structures]
    distinct = _distinct([listed([one]) for one in given], titles)
    parts = _chosen(distinct, only)
    reference, found = _reference(reference_dose, plan, first)
    asked = [one.in_unit(first.unit) for one in metrics or map(parse_metric, _OF_LIGHT if first.is_light else _USUAL)]
    results: list[DvhResult] = []
    bands: list[DvhBand] = []
    rows: list[tuple[str, tuple[MetricValue, ...]]] = []
    met: list[ConstraintResult] = []
    for number, dose in enumerate(doses, 1):
        plain = yield from dvh_steps(dose, parts, chosen, device=device, stop=stop)
        basis, borders = border_doses(dose)
        both = []
        for border in borders:
            both.append((yield from dvh_steps(border, parts, chosen.resolved(dose), device=device, stop=stop)))
        everything = None
        if any(one.needs_everything for one in (*asked, *(one.metric for one in constraints))):
            everything = (yield from whole_dose_steps(dose, chosen, device=device, stop=stop)).scaled(scale)
        result = dataclasses.replace(plain, dvhs=tuple(one.scaled(scale) for one in plain))
        table = metric_table(result, asked, reference_dose=reference, everything=everything)
        rows += [(_named(name, number), values) for name, values in table.rows]
        own = [dataclasses.replace(one, name=_named(one.name, number)) for one in plain]
        met += evaluate_constraints(constraints, result, reference_dose=reference, everything=everything)
        results.append(dataclasses.replace(result, dvhs=tuple(one.scaled(scale) for one in own)))
        bands += [band_of(basis, *three).scaled(scale) for three in zip(own, *both, strict=True)] if both else []
    curves = DvhResult(
        dvhs=tuple(one for result in results for one in result),
        parameters={**_parameters(results), "scaled_by": scale},
        complete=all(result.complete for result in results),
    )
    notes = [*found, *(text for dose in doses for text in dose.notes), *(text for one in curves for text in one.notes)]
    return Evaluation(
        curves=curves,
        borders=tuple(bands),
        metrics=MetricTable(tuple(asked), tuple(rows)),
        constraints=tuple(met),
        reference_dose=reference,
        numbers=_numbers(given, distinct),
        notes=tuple(dict.fromkeys(notes)),
    )


def _parameters(results: Sequence[DvhResult]) -> dict[str, Any]:
    """What the histograms of all doses have in common, and what is only of each, in a list."""
    first, *others = (result.parameters for result in results)
    shared = {key: one for key, one in first.items() if all(key in other and other[key] == one for other in others)}
    own = [{key: one for key, one in result.parameters.items() if key not in shared} for result in results]
    return {**shared, "doses": own} if others else shared


def _numbers(given: Sequence[Any], distinct: Sequence[Structures]) -> dict[str, int]:
    """The numbers of structures in their file, if all are of one: another's may be the same."""
    if len(given) != 1 or not isinstance(given[0], StructureSet):
        return {}
    return dict(zip(_names(distinct), given[0].numbers, strict=True))


def _distinct(sets: Sequence[Sequence[Structures]], titles: Sequence[str]) -> list[Structures]:
    """All structures, each with a name of its own."""
    counts = Counter(name for one in sets for name in _names(one))
    taken = {name for name, count in counts.items() if count == 1}

    def unique(name: str, title: str) -> str:
        if counts[name] == 1:
            return name
        endings = (", ".join(filter(None, (title, str(n) if n > 1 else ""))) for n in itertools.count(1))
        found = next(one for one in (f"{name} ({end})" for end in endings if end) if one not in taken)
        taken.add(found)
        return found

    made: list[Structures] = []
    for title, structures in zip(titles or [""] * len(sets), sets, strict=True):
        for one in structures:
            if isinstance(one, LabelStructures):
                names = {n: unique(name, title) for n, name in zip(one.values, one.names, strict=True)}
                is_same = tuple(names.values()) == one.names
                made.append(one if is_same else dataclasses.replace(one, structures=names))
            else:
                own = unique(one.name, title)
                made.append(one if own == one.name else dataclasses.replace(one, name=own))
    return made


def _names(structures: Iterable[Structures]) -> list[str]:
    return [name for one in structures for name in (one.names if isinstance(one, LabelStructures) else (one.name,))]


def _named(structure: str, number: int) -> str:
    return structure if number == 1 else f"{structure} (dose {number})"


def _chosen(structures: Sequence[Structures], only: Sequence[str]) -> list[Structures]:
    """The structures with some names; InvalidInput if one is not there."""
    if not only:
        return [*structures]
    names = _names(structures)
    if unknown := [name for name in only if name not in names]:
        raise InvalidInput(f"there is no structure {unknown[0]!r}; there are {', '.join(names)}")
    found: list[Structures] = []
    for one in structures:
        if not isinstance(one, LabelStructures):
            found += [one] if one.name in only else []
        elif kept := {n: name for n, name in zip(one.values, one.names, strict=True) if name in only}:
            found.append(dataclasses.replace(one, structures=kept))
    return found


def _reference(given: float | None, plan: Plan | None, dose: Dose) -> tuple[float | None, list[str]]:
    """What % of dose are of, in the unit of the dose, and where it was found."""
    if given is not None:
        note_reference(dose, given, "the given prescription")
    if given is not None or plan is None:
        return given, []
    prescription = plan.prescription_of(dose)
    if prescription is None:
        raise InvalidInput(f"{plan.label!r} has no prescription; give the dose that % are of (--reference-dose)")
    gray, source = prescription
    note(text := f"reference dose: {gray:g} Gy ({source})")
    return gray * dose_factor("Gy", dose.unit), [text]
