"""The button that offers metrics as columns of the table."""

import re

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QMenu, QToolButton, QWidget

from napari_gpubio.dose.curves.models import MODELS, Model

_READ_OFF = (
    ("Volume[cc]", "volume of the structure"),
    ("Mean[{0}]", "mean dose"),
    ("Median[{0}]", "median dose"),
    ("Min[{0}]", "least dose"),
    ("Max[{0}]", "largest dose"),
    ("D95%[{0}]", "dose that 95 % of the volume get at least"),
    ("D0.03cc[{0}]", "dose that 0.03 cc get at least"),
    ("DC1cc[{0}]", "dose that the coldest 1 cc get at most"),
    ("V20{0}[%]", "share of the volume with at least this dose"),
    ("V20{0}-30{0}[cc]", "volume in a band of doses"),
    ("CV20{0}[cc]", "volume with less than this dose"),
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
        menu.clear()
        for text, words in _READ_OFF:
            self._add(menu, text.format(unit), words)
        menu.addSeparator()
        for model in MODELS.values():
            if unit == _GRAY or model.changed is None:  # fractions are counted in Gy
                self._add(menu, _example(model, unit), model.words)

    def _add(self, menu: QMenu, text: str, words: str) -> None:
        menu.addAction(f"{text}\t{words}", lambda: self.chosen.emit(text))


def first_number(text: str, start: int = 0) -> tuple[int, int]:
    """Where the first number of a text stands that a user may want to change, and how long it is."""
    at = max(text.find("=", start), start)
    found = _NUMBER.search(text, at)
    return (found.start(), len(found.group())) if found else (start, len(text) - start)


def _example(model: Model, unit: str) -> str:
    told = model.example if unit == _GRAY else model.example.replace(_GRAY, unit)
    return f"{told}[{unit}]" if model.asks_dose else told
