"""The list of constraints, and what became of each."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from qtpy.QtCore import Signal
from qtpy.QtGui import QColor
from qtpy.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.dose.gui.metric_table import METRICS_TIP
from napari_gpubio.dose.gui.readout import short
from napari_gpubio.dose.gui.whole_dose import Reading
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

FILES = "Constraints (*.txt)"
_HINT = (
    "one a line, for instance\ncord: Max[Gy] < 45\ntarget: V95%[%] >= 98\n"
    "lung: NTCP(n=0.87, m=0.18, TD50=24.5Gy)[%] < 20"
)
_SIGNS = {PASS: ("✓ pass", "#5fbf77"), FAIL: ("✗ fail", "#ff6b5e"), NOT_EVALUATED: ("? not evaluated", "#d6942a")}
_COLUMNS = ("Constraint", "Value", "Result")
_ROW, _MOST_ROWS = 22, 8
_ERROR = "color: #ff6b5e;"


class ConstraintBox(QWidget):
    """Lines that are typed or loaded, and a table of verdicts."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = QPlainTextEdit(self)
        self.table = QTableWidget(0, len(_COLUMNS), self)
        self.problem = QLabel(self)
        self.constraints: tuple[Constraint, ...] = ()
        self.verdicts: tuple[ConstraintResult, ...] = ()
        self._plans: tuple[tuple[Dvh, ...], ...] = ()
        self._reading = Reading()
        self._build()
        self.text.textChanged.connect(self._on_typed)

    def show_dvhs(self, plans: Sequence[tuple[Dvh, ...]], reading: Reading) -> None:
        """Hold the histograms of each plan against the constraints."""
        self._plans, self._reading = tuple(plans), reading
        self._show()

    def load(self, path: Path) -> None:
        """Take the lines of a file.

        Raises
        ------
        InvalidInput
            If it is no text.
        """
        try:
            self.text.setPlainText(existing_file(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{path.name} is no text in UTF-8; save it as such") from error

    def save(self, path: Path) -> None:
        """Write the lines to a file."""
        with atomic_write(path) as part:
            part.write_text(self.text.toPlainText().rstrip() + "\n", encoding="utf-8")

    def _build(self) -> None:
        self.text.setPlaceholderText(_HINT)
        self.text.setFixedHeight(72)
        self.text.setToolTip(
            "Structure: metric, sign, limit; what follows a # is left out. A name with signs in it stands in quotes. "
            f"{METRICS_TIP}"
        )
        self.problem.setWordWrap(True)
        self.problem.setStyleSheet(_ERROR)
        self.problem.hide()
        self.table.setHorizontalHeaderLabels(list(_COLUMNS))
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setDefaultSectionSize(_ROW)
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        buttons = QHBoxLayout()
        for text, tip, act in (
            ("Load…", "Read constraints from a text file", self._on_load),
            ("Save…", "Write the constraints to a text file", self._on_save),
        ):
            button = QPushButton(text, self)
            button.setToolTip(tip)
            button.clicked.connect(lambda _=False, act=act: act())
            buttons.addWidget(button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
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
        self._complain(problems[0] if problems else "")
        self._show()
        self.changed.emit()

    def _complain(self, sentence: str) -> None:
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))

    def _show(self) -> None:
        """Judge and list: the first plan, then the second."""
        rows = [(v, second) for second, dvhs in enumerate(self._plans) for v in self._judged(dvhs, second=bool(second))]
        self.verdicts = tuple(verdict for verdict, _ in rows)
        self.table.setRowCount(len(rows))
        for row, (verdict, second) in enumerate(rows):
            text, color = _SIGNS[verdict.status]
            unit = verdict.constraint.metric.in_unit(_unit_of(self._plans)).unit
            value = "–" if verdict.reason else f"{short(verdict.value)} {unit}".rstrip()
            title = f"{verdict.constraint}{' (2nd plan)' if second else ''}"
            for column, cell in enumerate((title, value, text)):
                item = QTableWidgetItem(cell)
                item.setToolTip(verdict.reason or title)
                if column == len(_COLUMNS) - 1:
                    item.setForeground(QColor(color))
                self.table.setItem(row, column, item)
        self.table.setVisible(bool(rows))
        height = self.table.horizontalHeader().sizeHint().height() + _ROW * min(len(rows), _MOST_ROWS) + 4
        self.table.setFixedHeight(height)

    def _judged(self, dvhs: tuple[Dvh, ...], *, second: bool) -> tuple[ConstraintResult, ...]:
        everything = self._reading.of_plan(second=second)
        found = evaluate_constraints(
            self.constraints, dvhs, reference_dose=self._reading.reference, everything=everything
        )
        return found if everything is not None else tuple(self._still_missing(one, dvhs) for one in found)

    def _still_missing(self, verdict: ConstraintResult, dvhs: tuple[Dvh, ...]) -> ConstraintResult:
        """A verdict without the whole dose; where that is needed it says what became of it."""
        wanted = verdict.constraint.structure.casefold()
        named = [dvh for dvh in dvhs if dvh.name.casefold() == wanted]
        is_there = len(named) == 1 and not named[0].is_empty
        if not (verdict.constraint.metric.needs_everything and is_there):
            return verdict
        return dataclasses.replace(verdict, reason=self._reading.missing)

    def _on_load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Constraints", "", FILES)
        self._try(self.load, path)

    def _on_save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Constraints", "constraints.txt", FILES)
        self._try(self.save, path)

    def _try(self, act: object, path: str) -> None:
        if not path or not callable(act):
            return
        try:
            act(Path(path))
        except GpuBioError as error:
            self._complain(str(error))


def _unit_of(plans: Sequence[tuple[Dvh, ...]]) -> str:
    return next((dvh.unit for dvhs in plans for dvh in dvhs), "")
