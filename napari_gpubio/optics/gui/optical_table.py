"""What the tables of labels and of layers share: unit, presets, column widths, and messages below."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qtpy.QtCore import QPoint, Qt, Signal
from qtpy.QtWidgets import QMenu, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui import theme
from napari_gpubio.gui.cell_view import CellView
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import fill_column, muted_label, text_button
from napari_gpubio.gui.preferences import preference
from napari_gpubio.gui.tables import Place
from napari_gpubio.optics.gui.optical_model import OpticalModel
from napari_gpubio.optics.gui.optical_rows import TABLE_UNITS, OpticalRecipe, PropertyRow
from napari_gpubio.optics.gui.preset_dialog import PresetDialog

SPACING = 4  # pixels between the parts of a table


class TableMessage(QWidget):
    """Below a table: the source of the current row's numbers, and what is wrong (a click leads to the cell)."""

    problem_clicked = Signal(int, int)  # row and column

    def __init__(self, model: OpticalModel[Any], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._place: Place | None = None
        self.text = ""  # what is wrong or worth knowing
        self.problem_label, self._detail = muted_label(self), muted_label(self)
        self.problem_label.installEventFilter(self)
        for label in (self._detail, self.problem_label):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.hide()
        fill_column(self, self._detail, self.problem_label, spacing=2)

    @property
    def detail(self) -> str:
        """Where the current row's numbers come from, or an empty text."""
        return self._detail.text()

    def show_sentence(self, sentence: str, kind: str = "note") -> None:
        """Show a sentence: ``error``, ``missing`` or ``note``."""
        self._place, self.text = None, sentence
        self.problem_label.setStyleSheet(getattr(theme, f"{kind.upper()}_STYLE"))
        self.problem_label.setText(sentence.replace(" 1/", "\u00a01/\u2060"))  # a unit is not broken across lines
        self.problem_label.setVisible(bool(sentence))

    def update_text(self, current: Place | None) -> None:
        """Describe the current cell (row, column), or else the first problem."""
        source = "" if current is None else self._model.source(current[0])
        self._detail.setText(f"{self._model.rows[current[0]].title}: {source}" if current and source else "")
        self._detail.setVisible(bool(self.detail))
        place = current if current is not None and self._model.problem(*current) else self._model.first_problem()
        if place is None:
            warnings = self._model.warnings()
            self.show_sentence(warnings[0] + _more(len(warnings) - 1, "like it") if warnings else "", "missing")
            return
        more = _more(self._model.problem_count - 1, "to complete or correct")
        self.show_sentence(self._model.problem(*place) + more, "missing" if self._model.is_missing(*place) else "error")
        self._place = place

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: an event of the sentence; a click on it leads to the cell."""
        if event.type() == event.Type.MouseButtonRelease and self._place is not None:
            self.problem_clicked.emit(*self._place)
        return super().eventFilter(watched, event)


class OpticalTable(QWidget):
    """A table of optical properties; ``changed``: what it gives may be different.

    A subclass lays out ``unit_box``, ``empty``, ``view``, ``message`` and ``preset_button``;
    ``row_word`` is ``label`` or ``layer``.
    """

    changed = Signal()

    def __init__(
        self, model: OpticalModel[Any], view: CellView, empty_text: str, row_word: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.model: OpticalModel[Any] = model
        self.view = view
        self._word = row_word
        view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        model.setParent(self)
        self.message = TableMessage(model, self)
        self.unit_box = ElidedComboBox(self, entries=TABLE_UNITS)
        model.set_unit(preference("coefficient_unit"))
        self.set_unit(model.unit)
        self.empty = muted_label(self, empty_text)
        self.empty.setStyleSheet(f"{theme.MUTED_STYLE} padding: 12px;")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        tip = "Fill the selected rows for a tissue and wavelength, or from chromophores"
        self.preset_button = text_button("Preset…", tip, self, self.choose_preset)
        self.menu = QMenu(self)
        connect_all(
            (
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

    # -- unit and presets -----------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """The unit of the coefficients on screen."""
        return self.model.unit

    def set_unit(self, unit: str) -> None:
        """Show coefficients in 1/mm or 1/cm; the properties stay."""
        self.unit_box.setCurrentText(unit)

    @property
    def wavelength_nm(self) -> float:
        """The wavelength that presets begin with."""
        return self.model.wavelength_nm

    def preset_rows(self, rows: Sequence[int]) -> list[PropertyRow]:
        """Return rows as the dialog of presets takes them."""
        return [self.model.rows[row] for row in rows]

    def fill(self, rows: Sequence[int], recipe: OpticalRecipe, wavelength_nm: float) -> None:
        """Give rows the properties of a preset; `InvalidInput` where it has none."""
        self.model.fill(rows, recipe, wavelength_nm)

    def choose_preset(self) -> None:
        """Let the user choose a preset for the selected rows."""
        rows = self.view.selected_rows()
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
        index = self.view.currentIndex()
        self.message.update_text((index.row(), index.column()) if index.isValid() else None)
        self.preset_button.setEnabled(bool(self.view.selected_rows()))

    def _fill_menu(self, before: Iterable[tuple[str, Callable[[], Any]]] = ()) -> None:
        """Fill the menu of the right mouse button."""
        for text, act in before:
            self.menu.addAction(text, act)
        self.menu.addSeparator()
        for text, act in (
            ("Copy cells", self.view.copy),
            ("Paste cells", self.view.paste),
            ("Clear cells", self.view.clear_cells),
        ):
            self.menu.addAction(text, act)

    def _on_typing(self, problem: str) -> None:
        if problem:
            self.message.show_sentence(problem, "error")
        else:
            self.update_state()

    def _on_left_out(self, count: int) -> None:
        if count:
            self.message.show_sentence(f"{count} pasted values did not fit into the table and were left out", "missing")

    def _on_context_menu(self, at: QPoint) -> None:
        self.menu.exec(self.view.viewport().mapToGlobal(at))


def _more(count: int, what: str) -> str:
    return f" ({count} more row{'s' if count > 1 else ''} {what})" if count else ""
