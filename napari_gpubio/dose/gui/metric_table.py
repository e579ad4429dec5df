"""The table of metrics: a row for each curve, a column for each metric that is typed or chosen from a menu."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QLineEdit, QMenu, QTableWidgetItem, QToolButton, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import NO_NUMBER, difference_text, short_number
from napari_gpubio.dose.gui.curves import LIMIT_FIGURES, PENDING, Curve, MetricReader
from napari_gpubio.dose.metrics.metric import MetricValue
from napari_gpubio.dose.metrics.metric_text import parse_metrics
from napari_gpubio.dose.metrics.models import MODELS, ValueModel
from napari_gpubio.dose.metrics.parameters import dose_factor, spans
from napari_gpubio.dose.model import is_light
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import fill_column, row_of
from napari_gpubio.gui.row_table import Cell, ProblemLabel, RowTable

if TYPE_CHECKING:
    from napari_gpubio.dose.metrics.metric import Metric


DEFAULT_METRICS = "Volume[cc], Mean[{unit}], D95%[{unit}], D2%[{unit}], Max[{unit}]"
LIGHT_METRICS = f"{DEFAULT_METRICS}, Zero[%]"
METRICS_TIP = (
    "Metrics: D95%[Gy], D0.03cc[Gy], V20Gy[%], V20Gy[cc], V20Gy-30Gy[cc], CV20Gy[cc], DC1cc[Gy], "
    "Mean[Gy], Min[Gy], Max[Gy], Median[Gy], Volume[cc]; in short D95, Dmax, V20Gy; with a prescription also V95%[%]. "
    "With parameters: "
    f"{', '.join(model.full_example for model in MODELS.values())}"
)
_MENU = (  # 0: the unit of the dose, 1: the unit in which 20 and 30 are usual doses
    ("Volume[cc]", "volume of the structure"),
    ("Mean[{0}]", "mean dose"),
    ("Median[{0}]", "median dose"),
    ("Min[{0}]", "minimum dose, of samples up to the border, not of voxel centers"),
    ("Max[{0}]", "maximum dose, of samples up to the border, not of voxel centers"),
    ("D95%[{0}]", "minimum dose to the hottest 95 % of the volume"),
    ("D0.03cc[{0}]", "minimum dose to the hottest 0.03 cc"),
    ("DC1cc[{0}]", "maximum dose to the coldest 1 cc"),
    ("V20{1}[%]", "share of the volume with at least this dose"),
    ("V20{1}-30{1}[cc]", "volume in a band of doses"),
    ("CV20{1}[cc]", "volume with less than this dose"),
    ("V95%[%]", "share with 95 % of the prescription"),
)
_SHORT_UNIT_LETTERS = 3  # which every title has room for
_MENU_TIP = "Add a column: what can be read off a histogram, biological doses and probabilities, indices of a plan"
_GRAY, _NUMBER = "Gy", re.compile(r"\d+\.?\d*")


def default_metrics(unit: str) -> str:
    """Return the columns to begin with for doses in a unit."""
    return (LIGHT_METRICS if unit and is_light("", unit) else DEFAULT_METRICS).format(unit=unit)


class ColumnEdit(QLineEdit):
    """Metrics separated by commas; ``metrics_changed`` is emitted when the text is another one, right or wrong."""

    metrics_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.metrics: tuple[Metric, ...] = ()  # of the last text without an error
        self.error = ""
        self._unit = ""
        self.setToolTip(f"Columns, separated by commas. {METRICS_TIP}")
        self.setPlaceholderText("metrics, for instance D95%[Gy], V20Gy[%]")
        self.textEdited.connect(self._read_text)

    def set_unit(self, unit: str) -> None:
        """Begin with columns in another unit, unless the user has typed some."""
        was_default = self.text() in ("", default_metrics(self._unit))
        self._unit = unit
        if was_default and unit:
            self.enter(default_metrics(unit))

    def enter(self, text: str) -> None:
        """Set the text as if it had been typed."""
        self.setText(text)
        self.setCursorPosition(0)
        self._read_text()

    def add_metric(self, text: str) -> None:
        """Add a metric, with its first number selected so that it can be typed over."""
        before = self.text().rstrip(" ,;")
        start = len(before) + 2 if before else 0
        self.enter(f"{before}, {text}" if before else text)
        self.setFocus()
        self.setSelection(*first_number(self.text(), start))

    def select_metric(self, number: int) -> None:
        """Select the text of the metric with a number, where it can be typed over."""
        self.setFocus()
        text = self.text()
        try:
            places = [(start, end) for start, end in spans(text) if text[start:end].strip()]
        except InvalidInput:  # it is being typed
            return
        if 0 <= number < len(places):
            start, end = places[number]
            metric = text[start:end].strip()
            self.setSelection(text.index(metric, start), len(metric))

    def _read_text(self, *_: Any) -> None:
        try:
            self.metrics, self.error = parse_metrics(self.text()), ""
        except InvalidInput as error:  # the metrics before stay
            self.error = str(error)
        self.setStyleSheet(theme.border_style(theme.ERROR) if self.error else "")
        self.metrics_changed.emit()


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
        word = "fluence" if is_light("", unit) else "dose"
        for text, words in _MENU:
            self._add(menu, text.format(unit, _GRAY if is_gray else unit), words.replace("dose", word))
        if is_light("", unit):
            self._add(menu, "Zero[%]", "share of the volume that no light reached")
        menu.addSeparator()
        for model in MODELS.values():
            if is_gray or _GRAY not in model.example:  # light has no fractions in Gy, and no doses known to harm
                is_dose = isinstance(model, ValueModel) and model.is_dose
                self._add(menu, f"{model.example}[{unit}]" if is_dose else model.example, model.words)

    def _add(self, menu: QMenu, text: str, words: str) -> None:
        menu.addAction(f"{text}\t{words}", lambda: self.metric_chosen.emit(text))


def first_number(text: str, start: int = 0) -> tuple[int, int]:
    """Return where the first number of a text that a user may change begins, and its length."""
    end = text.rfind("[", start) if text.endswith("]") else -1  # the bracket of the value, whose unit may be J/cm2
    end = len(text) if end < 0 else end
    at = max(text.find("=", start, end), start)
    found = _NUMBER.search(text, at, end)
    return (found.start(), len(found.group())) if found else (start, len(text) - start)


def _is_gray(unit: str) -> bool:
    """Whether a unit of dose is Gy or known to be a part of it."""
    try:
        dose_factor(_GRAY, unit)
    except InvalidInput:
        return False
    return True


Row = list[Cell]
_PENDING_VALUE = "…"
_LOWEST = "the lowest dose counted in this structure: no dose was counted in this part of its volume"


class CurveMetricTable(QWidget):
    """A row for each curve, a column for each metric that was typed or chosen from the menu.

    ``metrics_changed`` is emitted when there are other columns, ``row_selected`` with the number of a curve,
    ``curve_renamed`` with the number of a curve and the name that was typed for it.
    """

    metrics_changed = Signal()
    row_selected = Signal(int)
    curve_renamed = Signal(int, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.columns, self.menu = ColumnEdit(self), ColumnMenu(self)
        self.table, self.problem = RowTable(self), ProblemLabel(self)
        self._curves: tuple[Curve, ...] = ()
        self._row_curves: list[int | None] = []  # number of the curve of each row, or None
        self._reader = MetricReader()
        self._values_key: tuple[Any, ...] = ()  # metrics and reader of the values
        self._values: dict[Curve, list[MetricValue]] = {}
        self._unit = ""
        tip = "Double-click to edit a column; one without a unit is in the unit of the first"
        self.table.horizontalHeader().setToolTip(tip)
        fill_column(self, row_of(self.columns, self.menu), self.problem, self.table, None, spacing=3)
        connect_all(
            [
                (self.columns.metrics_changed, self._on_metrics),
                (self.menu.metric_chosen, self.columns.add_metric),
                (self.table.itemChanged, self._on_item),
                (self.table.currentCellChanged, self._on_row),
                (self.table.horizontalHeader().sectionDoubleClicked, lambda n: self.columns.select_metric(n - 1)),
            ]
        )

    @property
    def metrics(self) -> "tuple[Metric, ...]":
        """The metrics of the columns."""
        return self.columns.metrics

    @property
    def titles(self) -> list[str]:
        """Titles of the columns."""
        return ["Structure", *(str(metric.in_unit(self._unit)) for metric in self.metrics)]

    def set_unit(self, unit: str) -> None:
        """Begin with columns in another unit, unless the user has typed some."""
        if unit != self._unit:
            self._unit = unit
            self.menu.list_metrics(unit)
            self.columns.set_unit(unit)

    def update_rows(self, curves: Sequence[Curve], reader: MetricReader) -> None:
        """Read the metrics off these curves."""
        self._curves, self._reader = tuple(curves), reader
        self._write_table()

    def _on_metrics(self) -> None:
        if self.columns.error:  # the columns before stay
            self.problem.show_problem(self.columns.error)
        else:
            self._write_table()
            self.metrics_changed.emit()

    def _on_item(self, item: QTableWidgetItem) -> None:
        curve, name = self._row_curves[item.row()], item.text().strip()
        if item.column() == 0 and curve is not None and name:
            self.curve_renamed.emit(curve, name)

    def _on_row(self, row: int, *_: int) -> None:
        if 0 <= row < len(self._row_curves) and (curve := self._row_curves[row]) is not None:
            self.row_selected.emit(curve)

    # -- rows -----------------------------------------------------------------------------------------------------

    def _write_table(self) -> None:
        self._read_values()
        self._row_curves, rows = self._ordered_rows()
        full = [_header_text(title) for title in self.titles]
        self.table.set_rows(rows, _headers(self.titles, self._unit), full)
        if not self.columns.error:
            reasons = (value.reason for values in self._values.values() for value in values if value.is_refused)
            self.problem.show_problem(next(reasons, ""))

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
        title = Cell(curve.title, tip, chip=curve.color, is_editable=not curve.second)
        pairs = zip(self.metrics, self._values[curve], strict=True)
        return [title, *(self._cell(curve, metric, value, tip) for metric, value in pairs)]

    def _cell(self, curve: Curve, metric: "Metric", value: MetricValue, tip: str) -> Cell:
        """A value in the digits that count, with its standard error as a tip where that is known."""
        if value.reason:
            return Cell(_PENDING_VALUE if value.reason == PENDING else NO_NUMBER, value.reason)
        error = self._reader.error(metric, curve)
        known = "" if math.isnan(error) else f"± {short_number(error, 2)} (1 standard error); "
        if value.is_limit:
            known = f"less than {short_number(value.below, LIMIT_FIGURES)} {metric.unit or self._unit}, {_LOWEST}; "
        text = self._reader.text(metric, curve, value)
        return Cell(re.sub(r"e([+-])0", r"e\1", text), f"{known}{tip}")  # narrower

    def _difference_row(self, first: Curve, second: Curve) -> Row:
        """The second plan minus the first."""
        tip = "second plan minus first"
        title = Cell(f"{second.dvh.name}: 2nd − 1st", tip, chip=second.color)
        return [title, *(Cell(self._change_text(n, first, second), tip) for n in range(len(self.metrics)))]

    def _change_text(self, number: int, first: Curve, second: Curve) -> str:
        """The change of a metric, as far as both of its values are known."""
        found = [(curve, self._values[curve][number]) for curve in (first, second)]
        if any(value.is_limit for _, value in found):
            return NO_NUMBER
        here, there = ((v.value, self._reader.figures(self.metrics[number], curve, v.value)) for curve, v in found)
        return difference_text(there[0] - here[0], here, there)


def _headers(titles: Sequence[str], unit: str) -> list[str]:
    """Titles of columns; a long unit of doses stands only once, in the first of them."""
    if len(unit) <= _SHORT_UNIT_LETTERS:
        return [_header_text(title) for title in titles]
    shared = f"[{unit}]"
    return [f"{titles[0]}\n{shared}", *(_header_text(title.removesuffix(shared)) for title in titles[1:])]


def _header_text(title: str) -> str:
    """A title in two lines, so that more columns fit: the unit below, or what follows a comma near the middle."""
    if title.endswith("]"):
        head, _, unit = title.rpartition("[")
        return f"{head}\n[{unit}"
    commas = [at + 2 for at in range(len(title)) if title.startswith(", ", at)]
    middle = min(commas, key=lambda at: abs(at - len(title) / 2), default=0)
    return f"{title[: middle - 1]}\n{title[middle:]}" if middle else title
