"""The table of optical properties of labels."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QModelIndex, QSignalBlocker, Signal
from qtpy.QtWidgets import QAbstractItemView, QPushButton, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui.cell_view import CellView
from napari_gpubio.gui.file_dialogs import opens_with, saves_with
from napari_gpubio.gui.forms import Label, fill_column, muted_label, row_of
from napari_gpubio.gui.tables import CHIP_PIXELS
from napari_gpubio.optics.gui.optical_model import NO_LABELS, KeptRows, PropertyModel, Rgba
from napari_gpubio.optics.gui.optical_rows import OpticalRecipe
from napari_gpubio.optics.gui.optical_table import SPACING, OpticalTable
from napari_gpubio.optics.gui.preset_dialog import wavelength_box
from napari_gpubio.optics.gui.preset_tissues import origins
from napari_gpubio.optics.io.table import read_table, write_table
from napari_gpubio.optics.model import VOXEL_LIMITS, Domain, Medium

FILES = "Optical properties (*.csv *.json)"
_SYMBOLS = {"mua_per_mm": "µa", "mus_per_mm": "µs"}  # others are named by their symbol
_MIN_NAME = 48  # pixels beside the width that a name has in any case
_MAX_ROWS, _FEWEST_ROWS = 9, 3


class PropertyView(CellView):
    """Shows a `PropertyModel`."""

    cells: PropertyModel

    def __init__(self, model: PropertyModel) -> None:
        super().__init__(model, _FEWEST_ROWS, _MAX_ROWS)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()

    def moveCursor(self, action: Any, modifiers: Any) -> QModelIndex:
        """Qt: where a key leads; Tab goes from one cell that can be edited to the next."""
        steps = {QAbstractItemView.CursorAction.MoveNext: 1, QAbstractItemView.CursorAction.MovePrevious: -1}
        if action not in steps or not self.currentIndex().isValid():
            return super().moveCursor(action, modifiers)
        columns = self.cells.columns
        width, count = len(columns), len(columns) * self.cells.rowCount()
        place = self.currentIndex().row() * width + self.currentIndex().column() + steps[action]
        while not columns[place % width].editable or self.isColumnHidden(place % width):
            place += steps[action]
        return self.cells.index(place % count // width, place % width)

    def resizeEvent(self, event: Any) -> None:
        """Qt: another width; names and sources share what the numbers leave."""
        super().resizeEvent(event)
        self._share_width()

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        super().measure()
        largest = self.fontMetrics().horizontalAdvance(str(max(self.cells.labels, default=0)))
        self.widths["label"] = max(self.widths["label"], largest + CHIP_PIXELS + 15)
        self.horizontalHeader().resizeSection(0, self.widths["label"])
        self._share_width()

    def _share_width(self) -> None:
        """Give the name and the source what is left; where that is too little for a source, the line below has it."""
        spare = self.viewport().width() - sum(self.widths.values())
        source_fits = spare >= 0
        if not source_fits:
            spare += self.widths["source"]
        share = spare // 3 if source_fits else max(spare, _MIN_NAME - self.widths["name"])
        self.setColumnHidden(self.cells.column_of("source"), not source_fits)
        for field, more in (("name", share), ("source", spare - share)):
            self.horizontalHeader().resizeSection(self.cells.column_of(field), self.widths[field] + more)


class PropertyTable(OpticalTable):
    """One row of optical properties for each label of a layer."""

    label_selected = Signal(int)  # by the user
    model: PropertyModel

    def __init__(self, parent: QWidget | None = None) -> None:
        model = PropertyModel()
        empty_text = f"{NO_LABELS[0].upper()}{NO_LABELS[1:]}".replace("-", "\u2011")  # not broken at hyphens
        super().__init__(model, PropertyView(model), empty_text, "label", parent)
        self._build()
        model.changed.connect(self.changed)
        self.wavelength_box.valueChanged.connect(model.set_wavelength)
        self.view.selectionModel().currentRowChanged.connect(self._on_row)
        self.update_state()

    # -- what the panel needs -------------------------------------------------------------------------------------

    def set_labels(self, labels: Sequence[int], colors: Mapping[int, Rgba | None]) -> None:
        """Show a row for each label except 0, the outside; ``colors`` are RGBA from 0 to 1."""
        label = self.selected_label
        self.model.set_labels(labels, colors)
        if self.selected_label is None and self.model.labels:
            self.select_label(label if label in self.model.labels else self.model.labels[0])

    def begin_with(self, kept: KeptRows | None) -> None:
        """Show the rows of another layer as `PropertyModel.keep` gave them, or none."""
        self.model.begin_with(kept)
        self.set_wavelength(self.model.wavelength_nm)
        if self.model.labels:
            self.select_label(self.model.labels[0])

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

    def show_carried(self, domain: Domain | None, *, has_fibers: bool) -> None:
        """Say which properties come with the labels instead of from the table; ``has_fibers``: fibers are chosen."""
        text = "" if domain is None else _carried_text(domain, has_fibers=has_fibers)
        self.carried_note.setText(text)
        self.carried_note.setVisible(bool(text))

    def set_wavelength(self, wavelength_nm: float) -> None:
        """Let the rows that came from presets follow to a wavelength."""
        self.wavelength_box.setValue(wavelength_nm)

    @property
    def selected_label(self) -> int | None:
        """The label of the current row, or None."""
        index = self.view.currentIndex()
        return self.model.labels[index.row()] if index.isValid() else None

    def select_label(self, label: int) -> None:
        """Go to a label's row, if it has one; ``label_selected`` is not emitted."""
        if label in self.model.labels and label != self.selected_label:
            with QSignalBlocker(self):
                self.view.go_to(self.model.labels.index(label))

    def fill(self, rows: Sequence[int], recipe: OpticalRecipe, wavelength_nm: float) -> None:
        """Give rows the properties of a preset; every row that has one follows to the wavelength."""
        self.set_wavelength(wavelength_nm)
        super().fill(rows, recipe, wavelength_nm)

    # -- files ----------------------------------------------------------------------------------------------------

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
        self.wavelength_box = wavelength_box(self.wavelength_nm, self)
        self.wavelength_box.setToolTip("Rows filled from presets follow the wavelength; typed values stay")
        self.unit_box.setToolTip("Unit of µa, µs and µs′ on screen")
        load = opens_with(self, "Load optical properties", FILES, self.load)
        save = saves_with(self, "Save optical properties", FILES, "optical properties.csv", self.save)
        self._fill_menu((("Load…", load), ("Save…", save), ("Reset", self.model.reset)))
        more = QPushButton("More", self)
        more.setMenu(self.menu)
        self._filled = QWidget(self)
        top = row_of(Label("Wavelength", self), self.wavelength_box, None, Label("Unit", self), self.unit_box)
        self.carried_note = muted_label(self)
        self.carried_note.hide()
        below = (self.message, self.carried_note)
        buttons = row_of(self.preset_button, more)
        fill_column(self._filled, top, self.view, *below, buttons, spacing=SPACING)
        fill_column(self, self.empty, self._filled, spacing=SPACING)

    def update_state(self, *_: Any) -> None:
        """Show what the model holds: table or hint, what is wrong, which buttons can be used."""
        super().update_state()
        filled, rows = self.model.rowCount() > 0, self.view.selected_rows()
        self.empty.setVisible(not filled)
        self._filled.setVisible(filled)
        target = f"label {self.model.labels[rows[0]]}" if len(rows) == 1 else f"{len(rows)} labels"
        self.preset_button.setText(f"Preset for {target}…" if rows else "Preset…")

    def _on_row(self, index: QModelIndex, *_: QModelIndex) -> None:
        if index.isValid():
            self.label_selected.emit(self.model.labels[index.row()])


def _carried_text(domain: Domain, *, has_fibers: bool) -> str:
    """What the table does not change of a domain; chosen fibers replace its scattering tensors."""
    names = [_SYMBOLS.get(name, name) for name in VOXEL_LIMITS if getattr(domain, name) is not None]
    notes = []
    if names:
        notes.append(f"These labels have {' and '.join(names)} voxel by voxel; the table does not change these values.")
    if domain.phase_function is not None:
        notes.append("These labels have a phase function, which is used instead of g.")
    if domain.is_anisotropic and not has_fibers:
        notes.append(
            "These labels have scattering tensors; where there is one, the table does not change the scattering "
            "coefficient. Fiber anisotropy 'none' keeps them; a layer that is chosen there replaces them."
        )
    return " ".join(notes)


def _listed(labels: Sequence[int]) -> str:
    return ", ".join(map(str, labels[:8])) + (", …" if len(labels) > 8 else "")
