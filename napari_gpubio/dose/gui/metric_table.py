"""The table of metrics: a row for each curve, a column for each metric that was typed or chosen from the menu."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QColor, QIcon, QPixmap
from qtpy.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QTableWidget, QTableWidgetItem, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.gui.column_menu import ColumnMenu, first_number
from napari_gpubio.dose.gui.readout import Shown, short
from napari_gpubio.dose.gui.whole_dose import COUNTING, Reading
from napari_gpubio.dose.metrics.metric import MetricValue
from napari_gpubio.dose.metrics.metric_text import parse_metrics
from napari_gpubio.dose.metrics.models import MODELS
from napari_gpubio.dose.metrics.parameters import spans

if TYPE_CHECKING:
    from napari_gpubio.dose.metrics.metric import Metric

DEFAULT = "Volume[cc], Mean[{unit}], D95%[{unit}], D2%[{unit}], Max[{unit}]"
METRICS_TIP = (
    "Metrics: D95%[Gy], D0.03cc[Gy], V20Gy[%], V20Gy[cc], V20Gy-30Gy[cc], CV20Gy[cc], DC1cc[Gy], "
    "Mean[Gy], Min[Gy], Max[Gy], Median[Gy], Volume[cc]; with a prescription also V95%[%]. With parameters: "
    f"{', '.join(model.full_example for model in MODELS.values())}"
)
_UNKNOWN, _DEBOUNCE_MS = "–", "…"
_WRONG = "QLineEdit { border: 1px solid #ff6b5e; }"
_ERROR, _DIM = "color: #ff6b5e;", "color: #9a9a9a;"
_ROW, _MOST_ROWS = 22, 8  # pixels; rows that are shown without scrolling
_CHIP = 12  # pixels
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_FIXED = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_EDITABLE = _FIXED | Qt.ItemFlag.ItemIsEditable
_COLOR = Qt.ItemDataRole.UserRole
Cell = tuple[str, str]  # text, tool tip
Row = tuple[str, str, str, list[Cell]]  # title, color, tool tip, cells


class MetricTable(QWidget):
    """Metrics of all curves; ``renamed`` carries a curve's number and the name that was typed for it."""

    changed = Signal()
    selected = Signal(int)
    renamed = Signal(int, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.metrics: tuple[Metric, ...] = ()
        self.columns, self.menu = QLineEdit(self), ColumnMenu(self)
        self.table = QTableWidget(0, 0, self)
        self.problem = QLabel(self)
        self._curves: tuple[Shown, ...] = ()
        self._rows: list[int | None] = []  # the curve of each row, or None
        self._reading = Reading()
        self._asked: tuple[Any, ...] = ()
        self._answers: dict[Shown, list[MetricValue]] = {}  # to what was asked, of each curve
        self._unit = ""
        self._lengths: tuple[int, ...] = ()
        self._build()
        self.columns.textEdited.connect(self._on_typed)
        self.menu.chosen.connect(self.add_column)
        self.table.itemChanged.connect(self._on_item)
        self.table.currentCellChanged.connect(lambda row, *_: self._on_row(row))
        self.table.horizontalHeader().sectionDoubleClicked.connect(self._edit_column)

    def show_unit(self, unit: str) -> None:
        """Begin with columns in another unit, unless the user has typed some."""
        if unit == self._unit:
            return
        was_default = self.columns.text() in ("", DEFAULT.format(unit=self._unit))
        self._unit = unit
        self.menu.show_unit(unit)
        if was_default and unit:
            self.set_columns(DEFAULT.format(unit=unit))

    def set_columns(self, text: str) -> None:
        """Show other columns, as if they had been typed."""
        self.columns.setText(text)
        self.columns.setCursorPosition(0)
        self._on_typed()

    def add_column(self, text: str) -> None:
        """Add a metric, with its first number selected so that it can be typed over."""
        before = self.columns.text().rstrip(" ,;")
        start = len(before) + 2 if before else 0
        self.set_columns(f"{before}, {text}" if before else text)
        self.columns.setFocus()
        self.columns.setSelection(*first_number(self.columns.text(), start))

    def show_curves(self, curves: Sequence[Shown], reading: Reading) -> None:
        """Read the metrics off these histograms."""
        self._curves, self._reading = tuple(curves), reading
        self._show()

    def _build(self) -> None:
        self.columns.setToolTip(f"Columns, separated by commas. {METRICS_TIP}")
        self.columns.setPlaceholderText("metrics, for instance D95%[Gy], V20Gy[%]")
        self.problem.setWordWrap(True)
        self.problem.setStyleSheet(_ERROR)
        self.problem.hide()
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setDefaultSectionSize(_ROW)
        self.table.horizontalHeader().setToolTip("Double-click to edit a column")
        self.table.setWordWrap(False)
        self.table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        row = QHBoxLayout()
        row.setSpacing(3)
        row.addWidget(self.columns, 1)
        row.addWidget(self.menu)
        layout.addLayout(row)
        for part in (self.problem, self.table):
            layout.addWidget(part)
        layout.addStretch(1)

    # -- columns --------------------------------------------------------------------------------------------------

    def _on_typed(self, *_: Any) -> None:
        try:
            self.metrics = parse_metrics(self.columns.text())
        except InvalidInput as error:  # what was there before stays
            self._complain(str(error))
            self.columns.setStyleSheet(_WRONG)
            return
        self.columns.setStyleSheet("")
        self._complain("")
        self._show()
        self.changed.emit()

    def _edit_column(self, column: int) -> None:
        """Select the text of a column where it can be typed over."""
        self.columns.setFocus()
        text = self.columns.text()
        try:
            told = [(start, end) for start, end in spans(text) if text[start:end].strip()]
        except InvalidInput:  # that is being typed; there are no places yet
            return
        if 0 < column <= len(told):
            start, end = told[column - 1]
            metric = text[start:end].strip()
            self.columns.setSelection(text.index(metric, start), len(metric))

    def _complain(self, sentence: str) -> None:
        self.problem.setText(sentence[:1].upper() + sentence[1:])
        self.problem.setVisible(bool(sentence))

    # -- rows -----------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        problems: list[str] = []
        self._rows, rows = self._ordered(problems)
        was = self.table.blockSignals(True)
        headers = ["Structure", *(str(metric.in_unit(self._unit)) for metric in self.metrics)]
        if self.table.columnCount() != len(headers):
            self.table.setColumnCount(len(headers))
        self.table.setHorizontalHeaderLabels(headers)
        self.table.setRowCount(len(rows))
        for number, (title, color, tip, cells) in enumerate(rows):
            curve = self._rows[number]
            editable = curve is not None and not self._curves[curve].second
            item = self._put(number, 0, title, tip, editable=editable)
            if item.data(_COLOR) != color:
                item.setData(_COLOR, color)
                item.setIcon(_chip(color))
            for column, (text, why) in enumerate(cells, start=1):
                self._put(number, column, text, why or tip)
        self.table.blockSignals(was)
        self._fit([headers, *([title, *texts] for title, _, _, texts in rows)])
        if not self.columns.styleSheet():
            self._complain(problems[0] if problems else "")

    def _read(self) -> None:
        """Ask what is not known of these curves yet."""
        asked = (self.metrics, self._reading)
        known = self._answers if asked == self._asked else {}
        self._asked = asked
        self._answers = {
            one: known.get(one) or [self._reading.answer(metric, one) for metric in self.metrics]
            for one in self._curves
        }

    def _row(self, one: Shown, problems: list[str]) -> Row:
        found = self._answers[one]
        problems += [answer.reason for answer in found if answer.is_refused]
        cells = [_cell(answer) for answer in found]
        tip = "; ".join(one.dvh.notes) or "double-click to rename"
        return one.title, one.color, tip, cells

    def _ordered(self, problems: list[str]) -> tuple[list[int | None], list[Row]]:
        """Rows and their curves: each structure, under it the second plan and the difference, which is no curve."""
        self._read()
        seconds = {one.dvh.name: number for number, one in enumerate(self._curves) if one.second}
        numbers: list[int | None] = []
        rows: list[Row] = []
        for number, one in enumerate(self._curves):
            if one.second:
                continue
            numbers.append(number)
            rows.append(self._row(one, problems))
            if (other := seconds.get(one.dvh.name)) is not None:
                numbers += [other, None]
                rows += [self._row(self._curves[other], problems), self._difference(one, self._curves[other])]
        return numbers, rows

    def _difference(self, first: Shown, second: Shown) -> Row:
        """A row of the second plan minus the first."""
        cells = []
        for there, here in zip(self._answers[second], self._answers[first], strict=True):
            value = there.value - here.value
            cells.append((_UNKNOWN if math.isnan(value) else f"{value:+.4g}", ""))
        return f"{second.dvh.name}: 2nd − 1st", second.color, "second plan minus first", cells

    def _put(self, row: int, column: int, text: str, tip: str, *, editable: bool = False) -> QTableWidgetItem:
        item = self.table.item(row, column)
        if item is None:
            item = QTableWidgetItem()
            item.setTextAlignment(_RIGHT if column else _LEFT)
            self.table.setItem(row, column, item)
        flags = _EDITABLE if editable else _FIXED
        for now, wanted, put in (
            (item.flags(), flags, item.setFlags),
            (item.text(), text, item.setText),
            (item.toolTip(), tip, item.setToolTip),
        ):
            if now != wanted:  # Qt takes its time with each, also where nothing changes
                put(wanted)
        return item

    def _fit(self, texts: Sequence[Sequence[str]]) -> None:
        """Give columns the width of their texts, where these are of other lengths, and the table its height."""
        lengths = tuple(max(map(len, column)) for column in zip(*texts, strict=True))
        if lengths != self._lengths:
            self._lengths = lengths
            self.table.resizeColumnsToContents()
        header, bar = self.table.horizontalHeader(), self.table.horizontalScrollBar().sizeHint().height()
        height = header.sizeHint().height() + _ROW * min(max(len(texts) - 1, 1), _MOST_ROWS) + bar + 4
        if self.table.height() != height:
            self.table.setFixedHeight(height)

    def _on_item(self, item: QTableWidgetItem) -> None:
        curve = self._curve_of(item.row())
        if item.column() == 0 and curve is not None and item.text().strip():
            self.renamed.emit(curve, item.text().strip())

    def _on_row(self, row: int) -> None:
        if (curve := self._curve_of(row)) is not None:
            self.selected.emit(curve)

    def _curve_of(self, row: int) -> int | None:
        return self._rows[row] if 0 <= row < len(self._rows) else None


def _cell(answer: MetricValue) -> Cell:
    if not answer.reason:
        return short(answer.value), ""
    return _DEBOUNCE_MS if answer.reason == COUNTING else _UNKNOWN, answer.reason


def _chip(color: str) -> QIcon:
    pixmap = QPixmap(_CHIP, _CHIP)
    pixmap.fill(QColor(color))
    icon = QIcon()
    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
        icon.addPixmap(pixmap, mode)
    return icon
