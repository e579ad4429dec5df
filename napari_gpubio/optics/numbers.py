"""Findings and rows of numbers: what a person reads of a simulation of photons."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from napari_gpubio.core.files import write_rows
from napari_gpubio.core.numbers import number_text
from napari_gpubio.optics.estimates import Estimate

Status = Literal["ok", "warning", "error"]
CLOSED_WITHIN = 1e-6  # by how much the energy balance may miss 1, apart from the rounding of what is booked
MAX_ROULETTE_Z = 4.0
RUN = "Run"
ENERGY, ABSORBED = "Energy, per launched photon", "Absorbed, per launched photon"
_COLUMNS = ("group", "name", "label", "value", "standard_error", "unit", "note")


class Finding(NamedTuple):
    """Status of one property of a result, and a sentence about it."""

    status: Status
    sentence: str


def balance_findings(total: float, roulette: Estimate, closed_within: float = CLOSED_WITHIN) -> Iterator[Finding]:
    """What is wrong with the energy balance of voxels or layers, if anything is."""
    if not abs(total - 1) < closed_within:
        yield Finding("error", f"Energy balance violated: the parts sum to {total:.7g}, not 1. Do not use this result.")
    if abs(z := roulette_z(roulette)) > MAX_ROULETTE_Z:
        yield Finding("warning", f"Roulette is {z:.1f} standard errors from 0; run again with another seed.")


def worst_first(found: list[Finding], result: Any, total: float, *, running: bool) -> tuple[Finding, ...]:
    """Findings in order, one that says so where there is none, and how many photons an unfinished run has done."""
    if not found:
        within = 10.0 ** math.ceil(math.log10(max(abs(total - 1), 1e-15)))  # a power of ten not below it
        found = [Finding("ok", f"Energy balance closed within {within:.0e}.")]
    if not result.complete:
        how = "Running:" if running else "Stopped after"
        found = [*found, Finding("ok", f"{how} {result.launched:,} of {result.settings.photons:,} photons.")]
    return tuple(sorted(found, key=lambda finding: ("error", "warning", "ok").index(finding.status)))


def roulette_z(part: Estimate) -> float:
    """Distance from 0 of what roulette took and gave, in standard errors; NaN if nothing was played for."""
    return part.value / part.error if part.error > 0 else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRow:
    """One number of a result.

    Parameters
    ----------
    group
        What it is listed under.
    name
        What it is.
    value, error
        The number and its standard error; NaN where it has none.
    unit
        Its unit; empty for a fraction.
    label
        The label that it belongs to, or None.
    status
        Whether there is something to worry about.
    note
        A remark.
    """

    group: str
    name: str
    value: float
    error: float = math.nan
    unit: str = ""
    label: int | None = None
    status: Status = "ok"
    note: str = ""

    @property
    def text(self) -> str:
        """The value and its error as a person reads them; see `number_text`."""
        return number_text(self.value, self.error)


def roulette_row(part: Estimate) -> NumberRow:
    """What roulette took less what it gave, with its distance from zero."""
    z = roulette_z(part)
    status: Status = "warning" if abs(z) > MAX_ROULETTE_Z else "ok"
    note = f"z = {z:.1f}" if math.isfinite(z) else ""
    return NumberRow(group=ENERGY, name="Roulette", value=part.value, error=part.error, status=status, note=note)


def table_lines(rows: Sequence[NumberRow]) -> Iterator[str]:
    """Lines of a table of numbers for a terminal: a heading for each group, then names, numbers and units."""
    width = max((len(row.name) for row in rows), default=0)
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            yield group
        note = f"  ({row.note})" if row.note else ""
        yield f"  {row.name:{width}}  {row.text} {row.unit}".rstrip() + note


def write_csv(path: str | os.PathLike[str], rows: Iterable[NumberRow]) -> None:
    """Write rows as a table of comma-separated values, numbers in full; an unknown error is an empty field.

    Raises
    ------
    InvalidInput
        If the folder does not exist.
    """
    cells = (
        (row.group, row.name, row.label, number_in_full(row.value), number_in_full(row.error), row.unit, row.note)
        for row in rows
    )
    write_rows(path, [_COLUMNS, *cells], marked=True)


def number_in_full(value: float) -> str:
    """Return a number with all its digits; nothing where there is none."""
    return "" if math.isnan(value) else repr(value)
