"""Plans evaluated: constraints on metrics, and two plans compared."""

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_text
from napari_gpubio.core.reading import reads_file
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.metrics.metric import Metric, MetricValue, evaluate_metric
from napari_gpubio.dose.metrics.metric_text import parse_metric
from napari_gpubio.dose.metrics.parameters import check_length, plain

PASS, FAIL, NOT_EVALUATED = "pass", "fail", "not evaluated"
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_SAME = {"≤": "<=", "≥": ">="}
_LINE = re.compile(r"(?P<name>[^\n]+):(?P<metric>[^:<>≤≥]++)(?P<sign><=|>=|<|>|≤|≥)\s*+(?P<limit>\S++)\s*+")
_NEEDS_QUOTES = re.compile(r"[#<>≤≥()\[\]]")
_MASK = "_"
_QUOTES = "\"'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A limit on a metric of a structure.

    Parameters
    ----------
    structure
        Its name; letter case does not matter.
    metric
        What is limited.
    sign
        ``"<="``, ``">="``, ``"<"`` or ``">"``.
    limit
        In the metric's unit.
    """

    structure: str
    metric: Metric
    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{_quoted(self.structure)}: {self.metric} {self.sign} {plain(self.limit)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintResult:
    """The result of a constraint.

    Parameters
    ----------
    constraint
        The constraint.
    status
        `PASS`, `FAIL` or `NOT_EVALUATED`.
    value
        Of the metric; NaN if it could not be evaluated.
    below
        What the value is less than, where that is all that is known; see `napari_gpubio.dose.metrics.MetricValue`.
    reason
        Why it could not be evaluated, in a sentence.
    """

    constraint: Constraint
    status: str
    value: float = math.nan
    below: float = math.nan
    reason: str = ""

    @property
    def text(self) -> str:
        """The value, or why there is none."""
        return self.reason or str(MetricValue(value=self.value, below=self.below))


def parse_constraint(text: str) -> Constraint:
    """Read a constraint from a line such as ``Heart: V25Gy[%] < 10``.

    A name with signs in it stands in quotes.

    Raises
    ------
    InvalidInput
        If it is none.
    """
    found = _LINE.fullmatch(_masked(text))
    if found is None:
        raise InvalidInput(
            f"{text.strip()!r} is no constraint; write for instance 'Heart: V25Gy[%] < 10', a name with signs in it in "
            "quotes"
        )
    name, metric, sign, given = (text[slice(*found.span(part))].strip() for part in ("name", "metric", "sign", "limit"))
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise InvalidInput(f"the limit {given!r} in {text.strip()!r} is no number")
    return Constraint(
        structure=_without_quotes(name), metric=parse_metric(metric), sign=_SAME.get(sign, sign), limit=limit
    )


def without_comment(line: str) -> str:
    """What stands before a #, unless that is in a quoted name or in brackets."""
    return line[: (_masked(line) + "#").index("#")].strip()


def _without_quotes(name: str) -> str:
    return name[1:-1].strip() if len(name) > 1 and name[0] == name[-1] in _QUOTES else name


def _quoted(name: str) -> str:
    """A name as it has to be written."""
    if not _NEEDS_QUOTES.search(name):
        return name
    quote = _QUOTES[0] if _QUOTES[0] not in name else _QUOTES[1]
    return f"{quote}{name}{quote}"


def _masked(text: str) -> str:
    """The text with one and the same letter for all that stands in brackets, and for a name in quotes.

    What has no end is no bracket and no quote.
    """
    check_length(text.strip(), "constraint")
    letters, at = list(text), 0
    while at < len(text):
        end = max(_end_of_name(text, at), _end_of_brackets(text, at))
        if end > at:
            letters[at + 1 : end] = _MASK * (end - at - 1)
        at = max(end, at) + 1
    return "".join(letters)


def _end_of_name(text: str, at: int) -> int:
    """Where a name ends that begins with a quote here; -1 if none does."""
    if text[at] not in _QUOTES or text[:at].strip():
        return -1
    end = text.find(text[at], at + 1)
    return end if text[end + 1 :].lstrip().startswith(":") else -1


def _end_of_brackets(text: str, at: int) -> int:
    """Where brackets that open here are closed; -1 if none do. Names of structures in them may be quoted."""
    depth, here = 0, at
    while here < len(text):
        letter = text[here]
        is_name = letter in _QUOTES and text[at:here].rstrip()[-1:] in "=(,"
        if depth and is_name and letter in text[here + 1 :]:
            here = text.index(letter, here + 1)
        depth += (letter in "([") - (letter in ")]")
        if depth <= 0:
            return here if letter in ")]" else -1
        here += 1
    return -1


def parse_constraints(text: str) -> tuple[Constraint, ...]:
    """Read constraints, one a line; empty lines are left out, and what follows a # that is in no quotes or brackets."""
    lines = map(without_comment, text.splitlines())
    return tuple(parse_constraint(line) for line in lines if line)


@reads_file
def read_constraints(path: str | Path) -> tuple[Constraint, ...]:
    """Read constraints from a text file as `parse_constraints` does; InvalidInput names the file."""
    return parse_constraints(existing_text(path))


def evaluate_constraints(
    constraints: Iterable[Constraint],
    dvhs: Iterable[Dvh],
    *,
    reference_dose: float | None = None,
    everything: Dvh | None = None,
) -> tuple[ConstraintResult, ...]:
    """Evaluate constraints on histograms. What cannot be evaluated does not pass, and has a reason.

    Parameters
    ----------
    constraints
        In the order of the answer.
    dvhs
        Of one plan.
    reference_dose
        What % of dose are of (the prescription), in the histograms' unit.
    everything
        Histogram of all that is irradiated, see `napari_gpubio.dose.metrics.Metric.of`.
    """
    known = tuple(dvhs)
    return tuple(_evaluate(constraint, known, reference_dose, everything) for constraint in constraints)


def _evaluate(
    constraint: Constraint, dvhs: Sequence[Dvh], reference_dose: float | None, everything: Dvh | None
) -> ConstraintResult:
    def not_evaluated(reason: str) -> ConstraintResult:
        return ConstraintResult(constraint=constraint, status=NOT_EVALUATED, reason=reason)

    name = constraint.structure.casefold()
    matching = [dvh for dvh in dvhs if dvh.name.casefold() == name]
    if len(matching) != 1:
        return not_evaluated(f"{len(matching) or 'no'} structures are named {constraint.structure!r}")
    (dvh,) = matching
    constraint = dataclasses.replace(constraint, metric=constraint.metric.in_unit(dvh.unit))  # so that it says its unit
    if dvh.is_empty:  # whose volumes of 0 keep every limit
        return not_evaluated(f"{dvh.name!r} is empty")
    found = evaluate_metric(constraint.metric, dvh, reference_dose, everything=everything)
    if found.reason:
        return not_evaluated(found.reason)
    ends = [end for end in (found.value, found.below) if not math.isnan(end)]
    passed = [_OPERATORS[constraint.sign](end, constraint.limit) for end in ends]
    if len(set(passed)) > 1:
        return not_evaluated(f"{constraint.metric} of {dvh.name!r} is only known to be {found}")
    return ConstraintResult(
        constraint=constraint, status=PASS if all(passed) else FAIL, value=found.value, below=found.below
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two histograms of one structure.

    Parameters
    ----------
    name
        Of the structure.
    first, second
        Metrics of both, in the order in which they were given.
    largest_percent
        Largest distance of the curves in % of volume: second minus first.
    at_dose
        Where that is.
    """

    name: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    largest_percent: float
    at_dose: float

    @property
    def change(self) -> tuple[float, ...]:
        """Second minus first."""
        return tuple(b - a for a, b in zip(self.first, self.second, strict=True))


def compare(
    first: Iterable[Dvh],
    second: Iterable[Dvh],
    metrics: Sequence[Metric],
    *,
    reference_dose: float | None = None,
    everything: tuple[Dvh | None, Dvh | None] = (None, None),
) -> tuple[Difference, ...]:
    """Compare two plans, structure by structure; those that only one of them has are left out.

    Parameters
    ----------
    first, second
        Histograms of both plans, in one unit of dose.
    metrics
        What is compared besides the curves.
    reference_dose
        What % of dose are of, in the histograms' unit.
    everything
        Histograms of all that is irradiated, of both plans, where a metric needs them; see
        `napari_gpubio.dose.whole_dose`.
    """
    others = {dvh.name: dvh for dvh in second}
    return tuple(_difference(a, others[a.name], metrics, reference_dose, everything) for a in first if a.name in others)


def _difference(
    a: Dvh,
    b: Dvh,
    metrics: Sequence[Metric],
    reference_dose: float | None,
    everything: tuple[Dvh | None, Dvh | None],
) -> Difference:
    if a.unit != b.unit:
        raise InvalidInput(f"{a.name!r} is in {a.unit} in one plan and in {b.unit} in the other; scale one of them")
    largest, dose = math.nan, math.nan
    if not (a.is_empty or b.is_empty):
        doses = np.union1d(a.doses, b.doses)
        doses = np.concatenate([doses, np.nextafter(doses, np.inf)])  # and just beyond steps
        apart = b.percent_at(doses) - a.percent_at(doses)
        worst = int(np.abs(apart).argmax())
        largest, dose = float(apart[worst]), float(doses[worst])
    return Difference(
        name=a.name,
        first=tuple(metric.of(a, reference_dose, everything=everything[0]) for metric in metrics),
        second=tuple(metric.of(b, reference_dose, everything=everything[1]) for metric in metrics),
        largest_percent=largest,
        at_dose=dose,
    )
