"""Constraints that are typed or loaded, and the table of their results."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHeaderView, QPlainTextEdit, QTableWidget, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import write_text
from napari_gpubio.core.foreign import existing_text
from napari_gpubio.core.numbers import NO_NUMBER, short_number
from napari_gpubio.dose.gui.curves import MetricReader, below_text
from napari_gpubio.dose.gui.metric_table import METRICS_TIP
from napari_gpubio.dose.metrics.constraints import (
    FAIL,
    NOT_EVALUATED,
    PASS,
    Constraint,
    ConstraintResult,
    evaluate_constraints,
    parse_constraint,
    without_comment,
)
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.gui import theme
from napari_gpubio.gui.file_dialogs import open_path, save_path, with_path
from napari_gpubio.gui.forms import fill_column, row_of, text_button
from napari_gpubio.gui.row_table import Cell, ProblemLabel, RowTable
from napari_gpubio.gui.typed_rows import Column

_FILES = "Constraints (*.txt)"
_HINT = (
    "one a line, for instance\ncord: Max[Gy] < 45\ntarget: V95%[%] >= 98\n"
    "lung: NTCP(n=0.87, m=0.18, TD50=24.5Gy)[%] < 20"
)
_RESULTS = {  # what it says, in what color of the theme
    PASS: ("✓ pass", "GOOD"),
    FAIL: ("✗ fail", "ERROR"),
    NOT_EVALUATED: ("? not evaluated", "MISSING"),
}
_TEXT_HEIGHT_PIXELS = 72


class _Results(RowTable):
    columns = (Column("constraint", "Constraint"), Column("value", "Value"), Column("result", "Result"))


class ConstraintTable(QWidget):
    """Constraints that are typed or loaded, and their results; ``constraints_changed`` is emitted when they change."""

    constraints_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = QPlainTextEdit(self)
        self.table, self.problem = _Results(self), ProblemLabel(self)
        self.constraints: tuple[Constraint, ...] = ()
        self._plans: tuple[tuple[Dvh, ...], ...] = ()
        self._reader = MetricReader()
        self._fill()
        self.text.textChanged.connect(self._on_typed)

    def update_results(self, plans: Sequence[tuple[Dvh, ...]], reader: MetricReader) -> None:
        """Evaluate the constraints for the histograms of each plan."""
        self._plans, self._reader = tuple(plans), reader
        self._write_table()

    def load(self, path: Path) -> None:
        """Read the constraints from a file; InvalidInput if it is not a text file."""
        self.text.setPlainText(existing_text(path))

    def save(self, path: Path) -> None:
        """Write the constraints to a file."""
        write_text(path, self.text.toPlainText().rstrip() + "\n")

    def _fill(self) -> None:
        self.text.setPlaceholderText(_HINT)
        self.text.setFixedHeight(_TEXT_HEIGHT_PIXELS)
        self.text.setToolTip(
            "Structure: metric, sign, limit; what follows a # is left out. A name with signs in it stands in quotes. "
            f"{METRICS_TIP}"
        )
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self._write_table()
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        load = text_button("Load…", "Read constraints from a text file", self, self._load_from)
        save = text_button("Save…", "Write the constraints to a text file", self, self._save_as)
        fill_column(self, self.text, self.problem, self.table, row_of(load, save, stretch=(1, 1)), None, spacing=3)

    def _on_typed(self) -> None:
        found, problems = [], []
        for number, line in enumerate(self.text.toPlainText().splitlines(), start=1):
            stripped = without_comment(line)
            try:
                found += [parse_constraint(stripped)] if stripped else []
            except InvalidInput as error:
                problems.append(f"Line {number}: {error}")
        self.constraints = tuple(found)
        self.problem.show_problem(problems[0] if problems else "")
        self._write_table()
        self.constraints_changed.emit()

    def _write_table(self) -> None:
        """Evaluate and list: the first plan, then the second."""
        unit = next((dvh.unit for dvhs in self._plans for dvh in dvhs), "")
        rows = [
            _row(result, unit, " (2nd plan)" if plan else "")
            for plan, dvhs in enumerate(self._plans)
            for result in self._evaluated(dvhs, second=bool(plan))
        ]
        self.table.set_rows(rows)
        self.table.setVisible(bool(rows))

    def _evaluated(self, dvhs: tuple[Dvh, ...], *, second: bool) -> tuple[ConstraintResult, ...]:
        reference, whole_dose = self._reader.reference, self._reader.whole_dose(second=second)
        results = evaluate_constraints(self.constraints, dvhs, reference_dose=reference, everything=whole_dose)
        return results if whole_dose is not None else tuple(self._with_reason(result, dvhs) for result in results)

    def _with_reason(self, result: ConstraintResult, dvhs: tuple[Dvh, ...]) -> ConstraintResult:
        """A result without the whole dose; where that is needed, it has the reason why it is missing."""
        name = result.constraint.structure.casefold()
        named = [dvh for dvh in dvhs if dvh.name.casefold() == name]
        is_there = len(named) == 1 and not named[0].is_empty
        if not (result.constraint.metric.needs_everything and is_there):
            return result
        return dataclasses.replace(result, reason=self._reader.missing_reason)

    def _load_from(self) -> None:
        with_path(open_path(self, "Constraints", _FILES), self.load, self.problem.show_problem)

    def _save_as(self) -> None:
        path = save_path(self, "Constraints", _FILES, name="constraints.txt")
        with_path(path, self.save, self.problem.show_problem)


def _row(result: ConstraintResult, unit_of_dose: str, plan: str) -> list[Cell]:
    text, name = _RESULTS[result.status]
    color = getattr(theme, name)
    unit = result.constraint.metric.in_unit(unit_of_dose).unit
    number = short_number(result.value) if math.isnan(result.below) else below_text(result.below)
    value = NO_NUMBER if result.reason else f"{number} {unit}".rstrip()
    title = f"{result.constraint}{plan}"
    tip = result.reason or title
    return [Cell(title, tip), Cell(value, tip), Cell(text, tip, color)]
