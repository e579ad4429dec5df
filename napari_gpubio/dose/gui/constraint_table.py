"""Constraints that are typed or loaded, and the table of their results."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtGui import QColor
from qtpy.QtWidgets import (
    QHBoxLayout,
    QHeaderView,
    QPlainTextEdit,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.dose.gui.curves import MetricReader, short_number
from napari_gpubio.dose.gui.metric_table import METRICS_TIP, NO_VALUE, RowTable, column_layout, problem_label
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
from napari_gpubio.gui.file_dialogs import open_path, save_path

_FILES = "Constraints (*.txt)"
_HINT = (
    "one a line, for instance\ncord: Max[Gy] < 45\ntarget: V95%[%] >= 98\n"
    "lung: NTCP(n=0.87, m=0.18, TD50=24.5Gy)[%] < 20"
)
_COLUMNS = ("Constraint", "Value", "Result")
_RESULTS = {
    PASS: ("✓ pass", theme.GOOD),
    FAIL: ("✗ fail", theme.ERROR),
    NOT_EVALUATED: ("? not evaluated", theme.MISSING),
}
_TEXT_HEIGHT = 72  # of the constraints, pixels


class ConstraintTable(QWidget):
    """Constraints that are typed or loaded, and their results; ``constraints_changed`` is emitted when they change."""

    constraints_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = QPlainTextEdit(self)
        self.table = RowTable(_COLUMNS, self)
        self.problem = problem_label(self)
        self.constraints: tuple[Constraint, ...] = ()
        self.results: tuple[ConstraintResult, ...] = ()
        self._plans: tuple[tuple[Dvh, ...], ...] = ()
        self._reader = MetricReader()
        self._fill()
        self.text.textChanged.connect(self._on_typed)

    def update_results(self, plans: Sequence[tuple[Dvh, ...]], reader: MetricReader) -> None:
        """Evaluate the constraints for the histograms of each plan."""
        self._plans, self._reader = tuple(plans), reader
        self._write_table()

    def load(self, path: Path) -> None:
        """Read the constraints from a file.

        Raises
        ------
        InvalidInput
            If it is not a text file.
        """
        try:
            self.text.setPlainText(existing_file(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path.name} is no text in UTF-8; save it as such") from error

    def save(self, path: Path) -> None:
        """Write the constraints to a file."""
        with atomic_write(path) as part:
            part.write_text(self.text.toPlainText().rstrip() + "\n", encoding="utf-8")

    def _fill(self) -> None:
        self.text.setPlaceholderText(_HINT)
        self.text.setFixedHeight(_TEXT_HEIGHT)
        self.text.setToolTip(
            "Structure: metric, sign, limit; what follows a # is left out. A name with signs in it stands in quotes. "
            f"{METRICS_TIP}"
        )
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        buttons = QHBoxLayout()
        for text, tip, slot in (
            ("Load…", "Read constraints from a text file", self._load_from),
            ("Save…", "Write the constraints to a text file", self._save_as),
        ):
            button = QPushButton(text, self)
            button.setToolTip(tip)
            button.clicked.connect(slot)
            buttons.addWidget(button)
        layout = column_layout(self)
        for part in (self.text, self.problem, self.table):
            layout.addWidget(part)
        layout.addLayout(buttons)
        layout.addStretch(1)

    def _on_typed(self) -> None:
        found, problems = [], []
        for number, line in enumerate(self.text.toPlainText().splitlines(), start=1):
            stripped = without_comment(line)
            try:
                found += [parse_constraint(stripped)] if stripped else []
            except InvalidInput as error:
                problems.append(f"Line {number}: {error}")
        self.constraints = tuple(found)
        self._set_problem(problems[0] if problems else "")
        self._write_table()
        self.constraints_changed.emit()

    def _set_problem(self, sentence: str) -> None:
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))

    def _write_table(self) -> None:
        """Evaluate and list: the first plan, then the second."""
        rows = [
            (result, bool(plan))
            for plan, dvhs in enumerate(self._plans)
            for result in self._evaluated(dvhs, second=bool(plan))
        ]
        self.results = tuple(result for result, _ in rows)
        unit_of_dose = next((dvh.unit for dvhs in self._plans for dvh in dvhs), "")
        self.table.setRowCount(len(rows))
        for row, (result, second) in enumerate(rows):
            text, color = _RESULTS[result.status]
            unit = result.constraint.metric.in_unit(unit_of_dose).unit
            value = NO_VALUE if result.reason else f"{short_number(result.value)} {unit}".rstrip()
            title = f"{result.constraint}{' (2nd plan)' if second else ''}"
            for column, cell in enumerate((title, value, text)):
                item = QTableWidgetItem(cell)
                item.setToolTip(result.reason or title)
                if column == len(_COLUMNS) - 1:
                    item.setForeground(QColor(color))
                self.table.setItem(row, column, item)
        self.table.setVisible(bool(rows))
        self.table.fit_height()

    def _evaluated(self, dvhs: tuple[Dvh, ...], *, second: bool) -> tuple[ConstraintResult, ...]:
        reference, whole_dose = self._reader.reference, self._reader.whole_dose(second=second)
        results = evaluate_constraints(self.constraints, dvhs, reference_dose=reference, everything=whole_dose)
        return results if whole_dose is not None else tuple(self._with_reason(result, dvhs) for result in results)

    def _with_reason(self, result: ConstraintResult, dvhs: tuple[Dvh, ...]) -> ConstraintResult:
        """A result without the whole dose; where that is needed, it has the reason why it is missing."""
        wanted = result.constraint.structure.casefold()
        named = [dvh for dvh in dvhs if dvh.name.casefold() == wanted]
        is_there = len(named) == 1 and not named[0].is_empty
        if not (result.constraint.metric.needs_everything and is_there):
            return result
        return dataclasses.replace(result, reason=self._reader.missing_reason)

    def _load_from(self, *_: Any) -> None:
        self._with_file(self.load, open_path(self, "Constraints", _FILES))

    def _save_as(self, *_: Any) -> None:
        self._with_file(self.save, save_path(self, "Constraints", _FILES, name="constraints.txt"))

    def _with_file(self, act: Callable[[Path], None], path: Path | None) -> None:
        if path is None:
            return
        try:
            act(path)
        except GpuBioError as error:
            self._set_problem(str(error))
