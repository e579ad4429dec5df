"""The button that offers metrics as columns of the table."""

import re

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QMenu, QToolButton, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.models import MODELS, Model
from napari_gpubio.dose.metrics.parameters import dose_factor

_READ_OFF = (  # 0: the unit of the dose, 1: the unit in which 20 and 30 are doses one asks for
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
_GRAY, _NUMBER = "Gy", re.compile(r"\d+\.?\d*")
_TIP = "Add a column: what can be read off a histogram, biological doses and probabilities, indices of a plan"


class ColumnMenu(QToolButton):
    """A menu of metrics; ``chosen`` carries the text of one."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText("+")
        self.setToolTip(_TIP)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setMenu(QMenu(self))
        self.show_unit("")

    def show_unit(self, unit: str) -> None:
        """Offer metrics of doses in another unit."""
        menu, unit = self.menu(), unit or _GRAY
        is_gray = _is_gray(unit)
        menu.clear()
        for text, words in _READ_OFF:
            self._add(menu, text.format(unit, _GRAY if is_gray else unit), words)
        menu.addSeparator()
        for model in MODELS.values():
            if is_gray or _GRAY not in model.example:  # light has no fractions in Gy, and no doses known to harm
                self._add(menu, _example(model, unit), model.words)

    def _add(self, menu: QMenu, text: str, words: str) -> None:
        menu.addAction(f"{text}\t{words}", lambda: self.chosen.emit(text))


def first_number(text: str, start: int = 0) -> tuple[int, int]:
    """Where the first number of a text stands that a user may want to change, and how long it is."""
    end = text.rfind("[", start) if text.endswith("]") else -1  # the bracket of the answer, whose unit may be J/cm2
    end = len(text) if end < 0 else end
    at = max(text.find("=", start, end), start)
    found = _NUMBER.search(text, at, end)
    return (found.start(), len(found.group())) if found else (start, len(text) - start)


def _example(model: Model, unit: str) -> str:
    return f"{model.example}[{unit}]" if model.asks_dose else model.example


def _is_gray(unit: str) -> bool:
    """Whether a unit of dose is Gy or known to be a part of it."""
    try:
        dose_factor(_GRAY, unit)
    except InvalidInput:
        return False
    return True
