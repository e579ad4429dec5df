"""The columns of the table of metrics: a text that is typed, and a menu of metrics that are added to it."""

import re
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QLineEdit, QMenu, QToolButton, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.metric_text import parse_metrics
from napari_gpubio.dose.metrics.models import MODELS
from napari_gpubio.dose.metrics.parameters import dose_factor, spans
from napari_gpubio.gui import theme

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
        was_default = self.text() in ("", DEFAULT_METRICS.format(unit=self._unit))
        self._unit = unit
        if was_default and unit:
            self.enter(DEFAULT_METRICS.format(unit=unit))

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
        for text, words in _MENU:
            self._add(menu, text.format(unit, _GRAY if is_gray else unit), words)
        menu.addSeparator()
        for model in MODELS.values():
            if is_gray or _GRAY not in model.example:  # light has no fractions in Gy, and no doses known to harm
                self._add(menu, f"{model.example}[{unit}]" if model.asks_dose else model.example, model.words)

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
