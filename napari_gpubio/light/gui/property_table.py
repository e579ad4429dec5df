"""The table of optical properties of labels."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QModelIndex, Signal
from qtpy.QtWidgets import QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui.file_dialogs import open_path, save_path
from napari_gpubio.light.gui.optical_table import OpticalTable, row_of
from napari_gpubio.light.gui.preset_dialog import wavelength_box
from napari_gpubio.light.gui.preset_tissues import origins
from napari_gpubio.light.gui.property_model import NO_LABELS, PropertyModel, Rgba
from napari_gpubio.light.gui.table_rows import PropertyRow, Recipe
from napari_gpubio.light.gui.table_views import PropertyView
from napari_gpubio.light.io.table import read_table, write_table
from napari_gpubio.light.model import Medium

FILES = "Optical properties (*.csv *.json)"


class PropertyTable(OpticalTable):
    """One row of optical properties for each label of a layer."""

    label_selected = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        model = PropertyModel()
        view = PropertyView(model)
        super().__init__(model, view, _sentence(NO_LABELS), "label", parent)
        model.setParent(self)
        self.model, self.view = model, view
        self._build()
        self._connect()
        self.update_state()

    # -- what the panel needs -------------------------------------------------------------------------------------

    def set_labels(self, labels: Sequence[int], colors: Mapping[int, Rgba | None]) -> None:
        """Show a row for each label except 0, the outside; ``colors`` are RGBA from 0 to 1."""
        label = self.selected_label
        self.model.set_labels(labels, colors)
        if self.selected_label is None and self.model.labels:
            self.select_label(label if label in self.model.labels else self.model.labels[0])

    def media(self) -> tuple[Medium, ...]:
        """Return the properties of the labels; `InvalidInput` with the first problem."""
        return self.model.media()

    def set_media(self, media: Iterable[Medium]) -> None:
        """Fill rows with properties, also of labels that come later; other labels keep theirs.

        Properties recognized as a preset's follow the wavelength from now on, and the wavelength is theirs.
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

    def preset_rows(self, rows: Sequence[int]) -> list[PropertyRow]:
        """Return rows as the dialog of presets takes them."""
        return [self.model.row(row) for row in rows]

    def fill(self, rows: Sequence[int], recipe: Recipe, wavelength_nm: float) -> None:
        """Give rows the properties of a preset; every row that has one follows to the wavelength."""
        self.set_wavelength(wavelength_nm)
        self.model.fill(rows, recipe)

    def menu(self) -> QMenu:
        """The menu of the right mouse button."""
        return self._menu

    def load(self, path: str | Path) -> None:
        """Fill the table from a file; what goes wrong is shown as a sentence."""
        try:
            media = read_table(path)
        except (GpuBioError, OSError) as error:
            self.message.show_sentence(f"The table could not be loaded: {error}", "error")
            return
        self.set_media(media)
        self.message.show_sentence(self._loaded_text(path, {medium.label for medium in media}))

    def save(self, path: str | Path) -> None:
        """Write the table to a file; what goes wrong is shown as a sentence."""
        try:
            write_table(path, self.media())
        except (GpuBioError, OSError) as error:
            self.message.show_sentence(f"The table could not be saved: {error}", "error")
        else:
            self.message.show_sentence(f"saved {self.model.rowCount()} rows in {Path(path).name}")

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
        self._wavelength = wavelength_box(self.wavelength_nm, self)
        self._wavelength.setToolTip("Rows that came from presets follow the wavelength; typed ones stay")
        self.unit_box.setToolTip("Unit of µa, µs and µs′ on screen")
        more = QPushButton("More", self)
        self._menu = self._make_menu()
        more.setMenu(self._menu)
        top = row_of(QLabel("Wavelength", self), self._wavelength, None, QLabel("Unit", self), self.unit_box)
        buttons = row_of(self.preset_button, self.undo_button, more, stretch_first=True)
        self._filled = QWidget(self)
        for owner, parts in (
            (self, (self.empty, self._filled)),
            (self._filled, (top, self.view, self.message, buttons)),
        ):
            layout = QVBoxLayout(owner)
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setSpacing(5)
            for part in parts:
                layout.addWidget(part)

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
        self._wavelength.valueChanged.connect(self.model.set_wavelength)
        self.view.selectionModel().currentRowChanged.connect(self._on_row)

    def _on_row(self, index: QModelIndex, *_: QModelIndex) -> None:
        if index.isValid():
            self.label_selected.emit(self.model.labels[index.row()])

    def update_state(self, *_: Any) -> None:
        """Show what the model holds: table or hint, what is wrong, which buttons can be used."""
        super().update_state()
        filled = self.model.rowCount() > 0
        self.empty.setVisible(not filled)
        self._filled.setVisible(filled)
        self.preset_button.setText(_preset_text([self.model.labels[row] for row in self.view.selected_rows()]))

    def _on_load(self) -> None:
        if path := open_path(self, "Load optical properties", FILES):
            self.load(path)

    def _on_save(self) -> None:
        if path := save_path(self, "Save optical properties", FILES, name="optical properties.csv"):
            self.save(path)


def _sentence(text: str) -> str:
    """A text with a large first letter, not broken at hyphens."""
    return f"{text[0].upper()}{text[1:]}".replace("-", "\u2011")


def _preset_text(labels: list[int]) -> str:
    if not labels:
        return "Preset…"
    return f"Preset for label {labels[0]}…" if len(labels) == 1 else f"Preset for {len(labels)} labels…"


def _listed(labels: Sequence[int]) -> str:
    return ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")
