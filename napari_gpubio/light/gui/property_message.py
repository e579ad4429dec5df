"""The lines under the table of optical properties: what is wrong, and where the current row's numbers come from."""

from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QLabel, QVBoxLayout, QWidget

from napari_gpubio.gui.tables import Place
from napari_gpubio.light.gui.property_model import PropertyModel

_STYLES = {
    "error": "color: #ff6b5e; font-weight: 600;",
    "missing": "color: #d6942a;",
    "note": "color: #8fb3d9;",
    "detail": "color: #8b8e95;",
}


class PropertyMessage(QWidget):
    """Two sentences under the table.

    ``problem_clicked`` carries row and column of the cell that the sentence speaks of.
    """

    problem_clicked = Signal(int, int)

    def __init__(self, model: PropertyModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._place: Place | None = None
        self._said = ""
        self._problem, self._detail = _line(self), _line(self)
        self._detail.setStyleSheet(_STYLES["detail"])
        self._problem.installEventFilter(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._detail)
        layout.addWidget(self._problem)

    @property
    def text(self) -> str:
        """What is wrong or worth knowing, or an empty text."""
        return self._said

    @property
    def detail(self) -> str:
        """Where the current row's numbers come from, or an empty text."""
        return self._detail.text()

    def say(self, sentence: str, kind: str = "note") -> None:
        """Show a sentence: ``error``, ``missing`` or ``note``."""
        self._place, self._said = None, sentence
        self._problem.setStyleSheet(_STYLES[kind])
        self._problem.setText(sentence.replace(" 1/", "\u00a01/\u2060"))  # a unit is not broken across lines
        self._problem.setVisible(bool(sentence))

    def show_table(self, current: Place | None) -> None:
        """Speak of the current cell (row, column), or else of the first that something is wrong with."""
        row = None if current is None else self._model.row(current[0])
        self._detail.setText(f"{row.title}: {row.source}" if row is not None and row.source else "")
        self._detail.setVisible(bool(self.detail))
        place = current if current is not None and self._model.problem(*current) else self._model.first_problem()
        if place is None:
            warnings = self._model.warnings()
            self.say(warnings[0] + _more(len(warnings) - 1, "like it") if warnings else "", "missing")
            return
        missing = self._model.is_missing(*place)
        more = _more(self._model.problem_count - 1, "to fill or mend")
        self.say(self._model.problem(*place) + more, "missing" if missing else "error")
        self._place = place

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: an event of the sentence; a click on it leads to the cell."""
        if event.type() == event.Type.MouseButtonRelease and self._place is not None:
            self.problem_clicked.emit(*self._place)
        return super().eventFilter(watched, event)


def _more(count: int, what: str) -> str:
    return f" ({count} more row{'s' if count > 1 else ''} {what})" if count else ""


def _line(parent: QWidget) -> QLabel:
    label = QLabel(parent)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.hide()
    return label
