"""The table of optical properties of labels, with its buttons and messages."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QModelIndex, QPoint, Qt, Signal
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui.tables import Place
from napari_gpubio.light.gui.preset_dialog import PresetDialog, wavelength_box
from napari_gpubio.light.gui.preset_tissues import origins
from napari_gpubio.light.gui.property_model import NO_LABELS, PropertyModel, Rgba
from napari_gpubio.light.gui.property_rows import UNITS
from napari_gpubio.light.gui.property_view import PropertyView
from napari_gpubio.light.io.table import read_table, write_table
from napari_gpubio.light.model import Medium

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


FILES = "Optical properties (*.csv *.json)"


class PropertyTable(QWidget):
    """One row of optical properties for each label of a layer.

    ``changed`` says that `media` may give something else, ``label_selected`` which row the user went to.
    """

    changed = Signal()
    label_selected = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = PropertyModel(self)
        self.view = PropertyView(self.model, self)
        self.message = PropertyMessage(self.model, self)
        self._build()
        self._connect()
        self._show_state()

    # -- what the panel needs -------------------------------------------------------------------------------------

    def set_labels(self, labels: Sequence[int], colors: Mapping[int, Rgba | None]) -> None:
        """Show a row for each label; what the user typed for a label that was there before is still there.

        Parameters
        ----------
        labels
            Labels that occur; 0 is outside and left out.
        colors
            Their colors in the layer, RGBA from 0 to 1.
        """
        label = self.selected_label
        self.model.set_labels(labels, colors)
        if self.selected_label is None and self.model.labels:
            self.select_label(label if label in self.model.labels else self.model.labels[0])

    def media(self) -> tuple[Medium, ...]:
        """Return the properties of the labels.

        Raises
        ------
        InvalidInput
            With the first thing that is wrong, as a sentence for the user.
        """
        return self.model.media()

    def set_media(self, media: Iterable[Medium]) -> None:
        """Fill rows with properties; labels that are not among them keep theirs.

        Properties that are recognized as a preset's follow the wavelength from now on, and the wavelength is theirs.

        Parameters
        ----------
        media
            Properties, also of labels that are not there yet.
        """
        media = tuple(media)
        recipes, wavelength_nm = origins(media, self.wavelength_nm)
        self.set_wavelength(wavelength_nm)
        self.model.set_media(media, recipes)

    @property
    def wavelength_nm(self) -> float:
        """The wavelength of the rows that came from presets."""
        return self.model.wavelength_nm

    def set_wavelength(self, wavelength_nm: float) -> None:
        """Let the rows that came from presets follow to a wavelength."""
        self._wavelength.setValue(wavelength_nm)

    @property
    def unit(self) -> str:
        """The unit of the coefficients on screen."""
        return self.model.unit

    def set_unit(self, unit: str) -> None:
        """Show coefficients in 1/mm or 1/cm; what `media` gives stays."""
        self._unit.setCurrentText(unit)

    @property
    def selected_label(self) -> int | None:
        """The label of the current row, or None."""
        index = self.view.currentIndex()
        return self.model.labels[index.row()] if index.isValid() else None

    def select_label(self, label: int) -> None:
        """Go to a label's row, if it has one; ``label_selected`` is not emitted."""
        if label in self.model.labels and label != self.selected_label:
            was = self.blockSignals(True)
            self.view.go_to(self.model.labels.index(label))
            self.blockSignals(was)

    # -- presets and files ----------------------------------------------------------------------------------------

    def choose_preset(self) -> None:
        """Let the user choose a preset for the selected rows."""
        rows = self.view.selected_rows()
        if not rows:
            return
        dialog = PresetDialog([self.model.row(row) for row in rows], self.wavelength_nm, self.unit, self)
        if dialog.exec() and (recipe := dialog.recipe) is not None:
            self.set_wavelength(dialog.wavelength_nm)
            self.model.fill(rows, recipe)
        dialog.deleteLater()

    def load(self, path: str | Path) -> None:
        """Fill the table from a file; what goes wrong is shown as a sentence."""
        try:
            media = read_table(path)
        except (GpuBioError, OSError) as error:
            self.message.say(f"The table could not be loaded: {error}", "error")
            return
        self.set_media(media)
        self.message.say(self._loaded_text(path, {medium.label for medium in media}))

    def save(self, path: str | Path) -> None:
        """Write the table to a file; what goes wrong is shown as a sentence."""
        try:
            write_table(path, self.media())
        except (GpuBioError, OSError) as error:
            self.message.say(f"The table could not be saved: {error}", "error")
        else:
            self.message.say(f"saved {self.model.rowCount()} rows in {Path(path).name}")

    def _loaded_text(self, path: str | Path, found: set[int]) -> str:
        ours = set(self.model.labels)
        text = f"loaded {len(found)} rows from {Path(path).name}"
        if missing := sorted(ours - found):
            text += f"; it has none for label {_listed(missing)}"
        if beyond := sorted(found - ours):
            text += f"; label {_listed(beyond)} is not in the layer"
        return text

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._empty = QLabel(f"{NO_LABELS[0].upper()}{NO_LABELS[1:]}".replace("-", "\u2011"), self)
        self._empty.setWordWrap(True)
        self._empty.setStyleSheet("color: #8b8e95; padding: 12px;")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._filled = QWidget(self)
        for owner, parts in (
            (self, (self._empty, self._filled)),
            (self._filled, (self._top_row(), self.view, self.message, self._button_row())),
        ):
            layout = QVBoxLayout(owner)
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setSpacing(5)
            for part in parts:
                layout.addWidget(part)

    def _top_row(self) -> QWidget:
        self._wavelength = wavelength_box(self.wavelength_nm, self)
        self._wavelength.setToolTip("Rows that came from presets follow the wavelength; typed ones stay")
        self._unit = _Choice(self)
        self._unit.addItems(list(UNITS))
        self._unit.setToolTip("Unit of µa, µs and µs′ on screen")
        return _in_a_row(QLabel("Wavelength", self), self._wavelength, None, QLabel("Unit", self), self._unit)

    def _button_row(self) -> QWidget:
        self._preset = QPushButton("Preset…", self)
        self._preset.setToolTip("Fill the selected rows by tissue and wavelength, or from chromophores")
        self._preset.clicked.connect(self.choose_preset)
        self._undo = QPushButton("Undo", self)
        self._undo.setToolTip("Take the last change of the table back (Ctrl+Z)")
        self._undo.clicked.connect(self.model.undo)
        self._more = QPushButton("More", self)
        self._menu = self._make_menu()
        self._more.setMenu(self._menu)
        return _in_a_row(self._preset, self._undo, self._more)

    def _make_menu(self) -> QMenu:
        menu = QMenu(self)
        for text, call in (
            ("Load…", self._on_load),
            ("Save…", self._on_save),
            (None, None),
            ("Copy cells", self.view.copy),
            ("Paste cells", self.view.paste),
            ("Clear cells", self.view.clear_cells),
            (None, None),
            ("Reset", self.model.reset),
        ):
            menu.addSeparator() if text is None else menu.addAction(text, call)
        return menu

    def _connect(self) -> None:
        self.model.changed.connect(self.changed)
        self.model.judged.connect(self._show_state)
        self._unit.currentTextChanged.connect(self.model.set_unit)
        self._wavelength.valueChanged.connect(self.model.set_wavelength)
        self.view.selectionModel().currentRowChanged.connect(self._on_row)
        self.view.selectionModel().selectionChanged.connect(self._show_state)
        self.view.typing.connect(self._on_typing)
        self.view.typed.connect(self._show_state)
        self.view.left_out.connect(self._on_left_out)
        self.view.customContextMenuRequested.connect(self._on_context_menu)
        self.message.problem_clicked.connect(self.view.go_to)

    def _on_row(self, index: QModelIndex, *_: QModelIndex) -> None:
        if index.isValid():
            self.label_selected.emit(self.model.labels[index.row()])

    def _on_typing(self, problem: str) -> None:
        if problem:
            self.message.say(problem, "error")
        else:
            self._show_state()

    def _on_left_out(self, count: int) -> None:
        if count:
            self.message.say(f"{count} pasted values lie beyond the table and were left out", "missing")

    def _on_context_menu(self, at: QPoint) -> None:
        self._menu.exec(self.view.viewport().mapToGlobal(at))

    def _show_state(self, *_: Any) -> None:
        """Show what the model holds: table or hint, what is wrong, which buttons can be used."""
        filled = self.model.rowCount() > 0
        self._empty.setVisible(not filled)
        self._filled.setVisible(filled)
        index = self.view.currentIndex()
        self.message.show_table((index.row(), index.column()) if index.isValid() else None)
        rows = self.view.selected_rows()
        self._preset.setEnabled(bool(rows))
        self._preset.setText(_preset_text([self.model.labels[row] for row in rows]))
        self._undo.setEnabled(self.model.can_undo)

    def _on_load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load optical properties", "", FILES)
        if path:
            self.load(path)

    def _on_save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save optical properties", "optical properties.csv", FILES)
        if path:
            self.save(path)


class _Choice(QComboBox):
    """A choice that the wheel leaves alone unless it was clicked before."""

    def wheelEvent(self, event: Any) -> None:
        """Qt: the wheel was turned over it."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()


def _in_a_row(*parts: QWidget | None) -> QWidget:
    """Widgets side by side, the first as wide as can be; None is a gap."""
    whole = QWidget()
    row = QHBoxLayout(whole)
    row.setContentsMargins(0, 0, 0, 0)
    for index, part in enumerate(parts):
        row.addStretch(1) if part is None else row.addWidget(part, int(index == 0 and None not in parts))
    return whole


def _preset_text(labels: list[int]) -> str:
    if not labels:
        return "Preset…"
    return f"Preset for label {labels[0]}…" if len(labels) == 1 else f"Preset for {len(labels)} labels…"


def _listed(labels: Sequence[int]) -> str:
    return ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")
