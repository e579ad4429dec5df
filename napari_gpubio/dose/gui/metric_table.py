"""The table of metrics: a row for each curve, a column for each metric."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtGui import QColor, QIcon, QPixmap
from qtpy.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QTableWidget,
    QTableWidgetItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.gui.curves import PENDING, Curve, MetricReader, short_number
from napari_gpubio.dose.metrics.metric import MetricValue
from napari_gpubio.dose.metrics.metric_text import parse_metrics
from napari_gpubio.dose.metrics.models import MODELS, Model
from napari_gpubio.dose.metrics.parameters import dose_factor, spans
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all

if TYPE_CHECKING:
    from napari_gpubio.dose.metrics.metric import Metric

DEFAULT_METRICS = "Volume[cc], Mean[{unit}], D95%[{unit}], D2%[{unit}], Max[{unit}]"
METRICS_TIP = (
    "Metrics: D95%[Gy], D0.03cc[Gy], V20Gy[%], V20Gy[cc], V20Gy-30Gy[cc], CV20Gy[cc], DC1cc[Gy], "
    "Mean[Gy], Min[Gy], Max[Gy], Median[Gy], Volume[cc]; with a prescription also V95%[%]. With parameters: "
    f"{', '.join(model.full_example for model in MODELS.values())}"
)
_MENU = (  # 0: the unit of the dose, 1: the unit in which 20 and 30 are usual doses
    ("Volume[cc]", "volume of the structure"),
    ("Mean[{0}]", "mean dose"),
    ("Median[{0}]", "median dose"),
    ("Min[{0}]", "least dose"),
    ("Max[{0}]", "largest dose"),
    ("D95%[{0}]", "dose that 95 % of the volume get at least"),
    ("D0.03cc[{0}]", "dose that 0.03 cc get at least"),
    ("DC1cc[{0}]", "dose that the coldest 1 cc get at most"),
    ("V20{1}[%]", "share of the volume with at least this dose"),
    ("V20{1}-30{1}[cc]", "volume in a band of doses"),
    ("CV20{1}[cc]", "volume with less than this dose"),
    ("V95%[%]", "share with 95 % of the prescription"),
)
_MENU_TIP = "Add a column: what can be read off a histogram, biological doses and probabilities, indices of a plan"
_GRAY, _NUMBER = "Gy", re.compile(r"\d+\.?\d*")
NO_VALUE, _PENDING_VALUE = "–", "…"
_ROW, _MOST_ROWS = 22, 8  # height in pixels; rows that are visible without scrolling
_CHIP = 12  # pixels
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_FIXED = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_EDITABLE = _FIXED | Qt.ItemFlag.ItemIsEditable
_COLOR = Qt.ItemDataRole.UserRole
Cell = tuple[str, str]  # text, tool tip
Row = tuple[str, str, str, list[Cell]]  # title, color, tool tip, cells


class RowTable(QTableWidget):
    """A table as high as its rows, up to eight; its first column takes the width that the others leave."""

    def __init__(self, columns: Sequence[str] = (), parent: QWidget | None = None) -> None:
        super().__init__(0, len(columns), parent)
        self.setHorizontalHeaderLabels(list(columns))
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW)
        self.setWordWrap(False)
        self.setVerticalScrollMode(QTableWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QTableWidget.ScrollMode.ScrollPerPixel)

    def fit_columns(self) -> None:
        """Give the columns the width of their header and cells."""
        self.resizeColumnsToContents()
        self.fit_height()

    def fit_height(self) -> None:
        """Take the height of the rows, and let the first column fill the width."""
        header, scroll_bar = self.horizontalHeader(), self.horizontalScrollBar().sizeHint().height()
        width = self.viewport().width()
        spare = width - header.length()
        if self.columnCount() and spare > 0:
            self.setColumnWidth(0, self.columnWidth(0) + spare)
        rows = min(max(self.rowCount(), 1), _MOST_ROWS)
        height = header.sizeHint().height() + rows * _ROW + 2 * self.frameWidth() + (scroll_bar if spare < 0 else 0)
        if self.height() != height:
            self.setFixedHeight(height)

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.fit_columns()


class ColumnMenu(QToolButton):
    """A menu of metrics; ``metric_chosen`` has the text of one."""

    metric_chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText("+")
        self.setToolTip(_MENU_TIP)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setMenu(QMenu(self))
        self.list_metrics("")

    def list_metrics(self, unit: str) -> None:
        """List metrics of doses in a unit."""
        menu, unit = self.menu(), unit or _GRAY
        is_gray = _is_gray(unit)
        menu.clear()
        for text, words in _MENU:
            self._add(menu, text.format(unit, _GRAY if is_gray else unit), words)
        menu.addSeparator()
        for model in MODELS.values():
            if is_gray or _GRAY not in model.example:  # light has no fractions in Gy, and no doses known to harm
                self._add(menu, _example(model, unit), model.words)

    def _add(self, menu: QMenu, text: str, words: str) -> None:
        menu.addAction(f"{text}\t{words}", lambda: self.metric_chosen.emit(text))


class MetricTable(QWidget):
    """A row for each curve, a column for each metric that was typed or chosen from the menu.

    ``metrics_changed`` is emitted when there are other columns, ``row_selected`` with the number of a curve,
    ``curve_renamed`` with the number of a curve and the name that was typed for it.
    """

    metrics_changed = Signal()
    row_selected = Signal(int)
    curve_renamed = Signal(int, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.metrics: tuple[Metric, ...] = ()
        self.columns, self.menu = QLineEdit(self), ColumnMenu(self)
        self.table = RowTable(parent=self)
        self.problem = problem_label(self)
        self._curves: tuple[Curve, ...] = ()
        self._row_curves: list[int | None] = []  # number of the curve of each row, or None
        self._reader = MetricReader()
        self._values_key: tuple[Any, ...] = ()  # metrics and reader of the values
        self._values: dict[Curve, list[MetricValue]] = {}
        self._unit = ""
        self._text_lengths: tuple[int, ...] = ()  # of each column
        self._fill()
        connect_all(
            [
                (self.columns.textEdited, self._on_typed),
                (self.menu.metric_chosen, self.add_column),
                (self.table.itemChanged, self._on_item),
                (self.table.currentCellChanged, self._on_row),
                (self.table.horizontalHeader().sectionDoubleClicked, self._select_column_text),
            ]
        )

    @property
    def titles(self) -> list[str]:
        """Titles of the columns."""
        return ["Structure", *(str(metric.in_unit(self._unit)) for metric in self.metrics)]

    def set_unit(self, unit: str) -> None:
        """Begin with columns in another unit, unless the user has typed some."""
        if unit == self._unit:
            return
        was_default = self.columns.text() in ("", DEFAULT_METRICS.format(unit=self._unit))
        self._unit = unit
        self.menu.list_metrics(unit)
        if was_default and unit:
            self.set_columns(DEFAULT_METRICS.format(unit=unit))

    def set_columns(self, text: str) -> None:
        """Set the columns, as if they had been typed."""
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

    def update_rows(self, curves: Sequence[Curve], reader: MetricReader) -> None:
        """Read the metrics off these curves."""
        self._curves, self._reader = tuple(curves), reader
        self._write_table()

    def _fill(self) -> None:
        self.columns.setToolTip(f"Columns, separated by commas. {METRICS_TIP}")
        self.columns.setPlaceholderText("metrics, for instance D95%[Gy], V20Gy[%]")
        self.table.horizontalHeader().setToolTip("Double-click to edit a column")
        self.table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QTableWidget.SelectionMode.SingleSelection)
        row = QHBoxLayout()
        row.setSpacing(3)
        row.addWidget(self.columns, 1)
        row.addWidget(self.menu)
        layout = column_layout(self)
        layout.addLayout(row)
        layout.addWidget(self.problem)
        layout.addWidget(self.table)
        layout.addStretch(1)

    # -- columns --------------------------------------------------------------------------------------------------

    def _on_typed(self, *_: Any) -> None:
        try:
            self.metrics = parse_metrics(self.columns.text())
        except InvalidInput as error:  # the columns before stay
            self._set_problem(str(error))
            self.columns.setStyleSheet(theme.border_style(theme.ERROR))
            return
        self.columns.setStyleSheet("")
        self._set_problem("")
        self._write_table()
        self.metrics_changed.emit()

    def _select_column_text(self, column: int) -> None:
        """Select the text of a column where it can be typed over."""
        self.columns.setFocus()
        text = self.columns.text()
        try:
            places = [(start, end) for start, end in spans(text) if text[start:end].strip()]
        except InvalidInput:  # it is being typed
            return
        if 0 < column <= len(places):
            start, end = places[column - 1]
            metric = text[start:end].strip()
            self.columns.setSelection(text.index(metric, start), len(metric))

    def _set_problem(self, sentence: str) -> None:
        self.problem.setText(sentence[:1].upper() + sentence[1:])
        self.problem.setVisible(bool(sentence))

    # -- rows -----------------------------------------------------------------------------------------------------

    def _write_table(self) -> None:
        self._read_values()
        self._row_curves, rows = self._ordered_rows()
        headers = [_header_text(title) for title in self.titles]
        with QSignalBlocker(self.table):
            if self.table.columnCount() != len(headers):
                self.table.setColumnCount(len(headers))
            self.table.setHorizontalHeaderLabels(headers)
            self.table.setRowCount(len(rows))
            for number, row in enumerate(rows):
                self._write_row(number, row)
        self._fit_columns([headers, *([title, *(text for text, _ in cells)] for title, _, _, cells in rows)])
        if not self.columns.styleSheet():
            reasons = [value.reason for values in self._values.values() for value in values if value.is_refused]
            self._set_problem(reasons[0] if reasons else "")

    def _read_values(self) -> None:
        """Read the metrics that are not known of these curves yet."""
        key = (self.metrics, self._reader)
        known = self._values if key == self._values_key else {}
        self._values_key = key
        self._values = {
            curve: known.get(curve) or [self._reader.read(metric, curve) for metric in self.metrics]
            for curve in self._curves
        }

    def _ordered_rows(self) -> tuple[list[int | None], list[Row]]:
        """Curves and rows: each structure, below it the second plan and the difference, which is no curve."""
        seconds = {curve.dvh.name: number for number, curve in enumerate(self._curves) if curve.second}
        numbers: list[int | None] = []
        rows: list[Row] = []
        for number, curve in enumerate(self._curves):
            if curve.second:
                continue
            numbers.append(number)
            rows.append(self._row_of(curve))
            if (other := seconds.get(curve.dvh.name)) is not None:
                numbers += [other, None]
                rows += [self._row_of(self._curves[other]), self._difference_row(curve, self._curves[other])]
        return numbers, rows

    def _row_of(self, curve: Curve) -> Row:
        tip = "; ".join(curve.dvh.notes) or "double-click to rename"
        return curve.title, curve.color, tip, [_cell(value) for value in self._values[curve]]

    def _difference_row(self, first: Curve, second: Curve) -> Row:
        """The second plan minus the first."""
        cells = []
        for there, here in zip(self._values[second], self._values[first], strict=True):
            value = there.value - here.value
            cells.append((NO_VALUE if math.isnan(value) else f"{value:+.4g}", ""))
        return f"{second.dvh.name}: 2nd − 1st", second.color, "second plan minus first", cells

    def _write_row(self, number: int, row: Row) -> None:
        title, color, tip, cells = row
        curve = self._row_curves[number]
        is_editable = curve is not None and not self._curves[curve].second
        item = self._write_cell(number, 0, (title, tip), is_editable=is_editable)
        if item.data(_COLOR) != color:
            item.setData(_COLOR, color)
            item.setIcon(_color_chip(color))
        for column, (text, why) in enumerate(cells, start=1):
            self._write_cell(number, column, (text, why or tip))

    def _write_cell(self, row: int, column: int, cell: Cell, *, is_editable: bool = False) -> QTableWidgetItem:
        item = self.table.item(row, column)
        if item is None:
            item = QTableWidgetItem()
            item.setTextAlignment(_RIGHT if column else _LEFT)
            self.table.setItem(row, column, item)
        text, tip = cell
        for now, wanted, write in (
            (item.flags(), _EDITABLE if is_editable else _FIXED, item.setFlags),
            (item.text(), text, item.setText),
            (item.toolTip(), tip, item.setToolTip),
        ):
            if now != wanted:  # Qt takes its time with each, also where nothing changes
                write(wanted)
        return item

    def _fit_columns(self, texts: Sequence[Sequence[str]]) -> None:
        """Fit the columns where texts have other lengths: that takes longer than all else that follows a stroke."""
        lengths = tuple(max(map(len, column)) for column in zip(*texts, strict=True))
        if lengths != self._text_lengths:
            self._text_lengths = lengths
            self.table.fit_columns()
        else:
            self.table.fit_height()

    def _on_item(self, item: QTableWidgetItem) -> None:
        curve = self._curve_of_row(item.row())
        if item.column() == 0 and curve is not None and item.text().strip():
            self.curve_renamed.emit(curve, item.text().strip())

    def _on_row(self, row: int, *_: int) -> None:
        if (curve := self._curve_of_row(row)) is not None:
            self.row_selected.emit(curve)

    def _curve_of_row(self, row: int) -> int | None:
        return self._row_curves[row] if 0 <= row < len(self._row_curves) else None


def first_number(text: str, start: int = 0) -> tuple[int, int]:
    """Return where the first number of a text that a user may want to change begins, and its length."""
    end = text.rfind("[", start) if text.endswith("]") else -1  # the bracket of the value, whose unit may be J/cm2
    end = len(text) if end < 0 else end
    at = max(text.find("=", start, end), start)
    found = _NUMBER.search(text, at, end)
    return (found.start(), len(found.group())) if found else (start, len(text) - start)


def _header_text(title: str) -> str:
    """A title in two lines, so that more columns fit: the unit below, or what follows a comma near the middle."""
    if title.endswith("]"):
        head, _, unit = title.rpartition("[")
        return f"{head}\n[{unit}"
    commas = [at + 2 for at in range(len(title)) if title.startswith(", ", at)]
    middle = min(commas, key=lambda at: abs(at - len(title) / 2), default=0)
    return f"{title[: middle - 1]}\n{title[middle:]}" if middle else title


def _example(model: Model, unit: str) -> str:
    return f"{model.example}[{unit}]" if model.asks_dose else model.example


def _is_gray(unit: str) -> bool:
    """Whether a unit of dose is Gy or known to be a part of it."""
    try:
        dose_factor(_GRAY, unit)
    except InvalidInput:
        return False
    return True


def _cell(value: MetricValue) -> Cell:
    if not value.reason:
        return short_number(value.value), ""
    return _PENDING_VALUE if value.reason == PENDING else NO_VALUE, value.reason


def _color_chip(color: str) -> QIcon:
    pixmap = QPixmap(_CHIP, _CHIP)
    pixmap.fill(QColor(color))
    icon = QIcon()
    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
        icon.addPixmap(pixmap, mode)
    return icon


def problem_label(parent: QWidget) -> QLabel:
    """Return a label for what is wrong with a text that was typed."""
    label = QLabel(parent)
    label.setWordWrap(True)
    label.setStyleSheet(theme.text_style(theme.ERROR))
    label.hide()
    return label


def column_layout(owner: QWidget) -> QVBoxLayout:
    """Return the layout of a text and its table."""
    layout = QVBoxLayout(owner)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(3)
    return layout
