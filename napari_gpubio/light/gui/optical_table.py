"""What the tables of labels and of layers share: unit, presets, undo, the clipboard, and messages below."""

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QPoint, Qt, Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.tables import Place
from napari_gpubio.light.gui.preset_dialog import PresetDialog
from napari_gpubio.light.gui.property_model import OpticalModel
from napari_gpubio.light.gui.table_rows import UNITS, PropertyRow, Recipe
from napari_gpubio.light.gui.table_views import OpticalView

_STYLES = {"error": theme.ERROR_STYLE, "missing": theme.MISSING_STYLE, "note": theme.NOTE_STYLE}


class TableMessage(QWidget):
    """Below a table: the source of the current row's numbers, and what is wrong (a click leads to the cell)."""

    problem_clicked = Signal(int, int)

    def __init__(self, model: OpticalModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._place: Place | None = None
        self._text = ""
        self._problem, self._detail = _line(self), _line(self)
        self._detail.setStyleSheet(theme.MUTED_STYLE)
        self._problem.installEventFilter(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self._detail)
        layout.addWidget(self._problem)

    @property
    def text(self) -> str:
        """What is wrong or worth knowing, or an empty text."""
        return self._text

    @property
    def detail(self) -> str:
        """Where the current row's numbers come from, or an empty text."""
        return self._detail.text()

    def show_sentence(self, sentence: str, kind: str = "note") -> None:
        """Show a sentence: ``error``, ``missing`` or ``note``."""
        self._place, self._text = None, sentence
        self._problem.setStyleSheet(_STYLES[kind])
        self._problem.setText(sentence.replace(" 1/", "\u00a01/\u2060"))  # a unit is not broken across lines
        self._problem.setVisible(bool(sentence))

    def update_text(self, current: Place | None) -> None:
        """Describe the current cell (row, column), or else the first that is wrong."""
        source = "" if current is None else self._model.source(current[0])
        self._detail.setText(f"{self._model.title(current[0])}: {source}" if current is not None and source else "")
        self._detail.setVisible(bool(self.detail))
        place = current if current is not None and self._model.problem(*current) else self._model.first_problem()
        if place is None:
            warnings = self._model.warnings()
            self.show_sentence(warnings[0] + _more(len(warnings) - 1, "like it") if warnings else "", "missing")
            return
        missing = self._model.is_missing(*place)
        more = _more(self._model.problem_count - 1, "to fill or mend")
        self.show_sentence(self._model.problem(*place) + more, "missing" if missing else "error")
        self._place = place

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: an event of the sentence; a click on it leads to the cell."""
        if event.type() == event.Type.MouseButtonRelease and self._place is not None:
            self.problem_clicked.emit(*self._place)
        return super().eventFilter(watched, event)


class OpticalTable(QWidget):
    """A table of optical properties; ``changed``: what it gives may be different.

    A subclass lays out ``unit_box``, ``empty``, ``view``, ``message``, ``preset_button`` and ``undo_button``.
    """

    changed = Signal()

    def __init__(
        self, model: OpticalModel, view: OpticalView, empty_text: str, row_word: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._word = row_word
        self.message = TableMessage(model, self)
        self.unit_box = WheelSafeChoice(self)
        self.unit_box.addItems(list(UNITS))
        self.empty = QLabel(empty_text, self)
        self.empty.setWordWrap(True)
        self.empty.setStyleSheet(f"{theme.MUTED_STYLE} padding: 12px;")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.preset_button, self.undo_button = QPushButton("Preset…", self), QPushButton("Undo", self)
        self.preset_button.setToolTip("Fill the selected rows by tissue and wavelength, or from chromophores")
        self.undo_button.setToolTip("Take the last change of the table back (Ctrl+Z)")
        self._optical_model, self._optical_view = model, view
        connect_all(
            (
                (self.preset_button.clicked, self.choose_preset),
                (self.undo_button.clicked, model.undo),
                (self.unit_box.currentTextChanged, model.set_unit),
                (model.validity_changed, self.update_state),
                (view.selectionModel().selectionChanged, self.update_state),
                (view.typing, self._on_typing),
                (view.typed, self.update_state),
                (view.left_out, self._on_left_out),
                (view.customContextMenuRequested, self._on_context_menu),
                (self.message.problem_clicked, view.go_to),
            )
        )

    # -- what a subclass gives ------------------------------------------------------------------------------------

    @property
    def wavelength_nm(self) -> float:
        """The wavelength that presets begin with."""
        raise NotImplementedError

    def preset_rows(self, rows: Sequence[int]) -> list[PropertyRow]:
        """Return rows as the dialog of presets takes them."""
        raise NotImplementedError

    def fill(self, rows: Sequence[int], recipe: Recipe, wavelength_nm: float) -> None:
        """Give rows the properties of a preset; InvalidInput where it has none."""
        raise NotImplementedError

    def menu(self) -> QMenu:
        """The menu of the right mouse button."""
        raise NotImplementedError

    # -- unit and presets -----------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """The unit of the coefficients on screen."""
        return self._optical_model.unit

    def set_unit(self, unit: str) -> None:
        """Show coefficients in 1/mm or 1/cm; the properties stay."""
        self.unit_box.setCurrentText(unit)

    def choose_preset(self) -> None:
        """Let the user choose a preset for the selected rows."""
        rows = self._optical_view.selected_rows()
        if not rows:
            return
        dialog = PresetDialog(self.preset_rows(rows), self.wavelength_nm, self.unit, self, word=self._word)
        if dialog.exec() and (recipe := dialog.recipe) is not None:
            try:
                self.fill(rows, recipe, dialog.wavelength_nm)
            except GpuBioError as error:
                self.message.show_sentence(str(error), "error")
        dialog.deleteLater()

    # -- state ----------------------------------------------------------------------------------------------------

    def update_state(self, *_: Any) -> None:
        """Show what the model holds: what is wrong, and which buttons can be used."""
        index = self._optical_view.currentIndex()
        self.message.update_text((index.row(), index.column()) if index.isValid() else None)
        rows = self._optical_view.selected_rows()
        self.preset_button.setEnabled(bool(rows))
        self.undo_button.setEnabled(self._optical_model.can_undo)

    def _on_typing(self, problem: str) -> None:
        if problem:
            self.message.show_sentence(problem, "error")
        else:
            self.update_state()

    def _on_left_out(self, count: int) -> None:
        if count:
            self.message.show_sentence(f"{count} pasted values lie beyond the table and were left out", "missing")

    def _on_context_menu(self, at: QPoint) -> None:
        self.menu().exec(self._optical_view.viewport().mapToGlobal(at))


class WheelSafeChoice(QComboBox):
    """A choice that the wheel leaves alone unless it was clicked before."""

    def wheelEvent(self, event: Any) -> None:
        """Qt: the wheel was turned over it."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


def row_of(*parts: QWidget | None, stretch_first: bool = False) -> QWidget:
    """Return widgets side by side; None is a gap."""
    whole = QWidget()
    row = QHBoxLayout(whole)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(4)
    for index, part in enumerate(parts):
        if part is None:
            row.addStretch(1)
        else:
            row.addWidget(part, int(stretch_first and index == 0))
    return whole


def _more(count: int, what: str) -> str:
    return f" ({count} more row{'s' if count > 1 else ''} {what})" if count else ""


def _line(parent: QWidget) -> QLabel:
    label = QLabel(parent)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.hide()
    return label
