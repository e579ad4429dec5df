"""The table of layers between two ambient media, and their drawing."""

from collections.abc import Sequence
from typing import Any

from qtpy.QtWidgets import QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.light.gui.layer_model import NEW, LayerModel
from napari_gpubio.light.gui.optical_table import OpticalTable, row_of
from napari_gpubio.light.gui.stack_drawing import StackDrawing
from napari_gpubio.light.gui.table_rows import PropertyRow, Recipe, medium_of
from napari_gpubio.light.gui.table_views import LayerView
from napari_gpubio.light.layers.model import LayeredMedium

EMPTY = "No layers. Press Add, or choose a preset above."
_WAVELENGTH_NM = 690.0


class LayerTable(OpticalTable):
    """Layers between two ambient media; ``changed`` says that `medium` may give something else."""

    def __init__(self, parent: QWidget | None = None) -> None:
        model = LayerModel()
        view = LayerView(model)
        super().__init__(model, view, EMPTY, "layer", parent)
        model.setParent(self)
        self.model, self.view = model, view
        self.drawing = StackDrawing(self)
        self._name, self._wavelength_nm = "", _WAVELENGTH_NM
        self._build()
        connect_all(
            (
                (self.model.changed, self._on_changed),
                (self.drawing.clicked, self.view.go_to),
            )
        )
        self.update_state()

    # -- what the panel needs -------------------------------------------------------------------------------------

    def medium(self) -> LayeredMedium:
        """Return the layers; `InvalidInput` with the first problem."""
        return medium_of(self.model.rows, self.n_above.value(), self.n_below.value(), self._name, self.model.unit)

    def set_medium(self, medium: LayeredMedium, *, undoable: bool = True) -> None:
        """Show other layers; ``changed`` is emitted once."""
        was = self.blockSignals(True)
        self._name = medium.name
        self.n_above.show_value(medium.n_above)
        self.n_below.show_value(medium.n_below)
        (self.model.set_layers if undoable else self.model.begin_with)(medium.layers)
        self.update_state()
        self.blockSignals(was)
        self.changed.emit()

    @property
    def wavelength_nm(self) -> float:
        """The wavelength that presets begin with: that of the last one."""
        return self._wavelength_nm

    def preset_rows(self, rows: Sequence[int]) -> list[PropertyRow]:
        """Return rows as the dialog of presets takes them, layers counted from 1."""
        return [PropertyRow(label=row + 1, name=self.model.rows[row].name) for row in rows]

    def fill(self, rows: Sequence[int], recipe: Recipe, wavelength_nm: float) -> None:
        """Give layers the properties of a preset; names and thicknesses stay."""
        self.model.fill(rows, recipe, wavelength_nm)
        self._wavelength_nm = wavelength_nm

    def menu(self) -> QMenu:
        """The menu of the right mouse button."""
        return self._menu

    def add(self) -> None:
        """Add a layer below the current one; above a last one without end, below which nothing can be."""
        rows, current = self.model.rows, self.view.currentIndex()
        index = current.row() + 1 if current.isValid() else len(rows)
        if index == len(rows) and rows and rows[-1].thickness_mm == float("inf"):
            index -= 1
        self.model.insert(index, [NEW])
        self.view.go_to(index)

    def duplicate(self) -> None:
        """Put a copy below each selected layer."""
        self.model.duplicate(self.view.selected_rows())

    def remove(self) -> None:
        """Remove the selected layers."""
        rows = self.view.selected_rows()
        self.model.remove(rows)
        if self.model.rowCount() and rows:
            self.view.go_to(min(rows[0], self.model.rowCount() - 1))

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.n_above, self.n_below = (self._ambient(where) for where in ("above", "below"))
        self.unit_box.setToolTip("1/mm with thicknesses in mm, or 1/cm with thicknesses in cm, as in MCML's files")
        self._menu = QMenu(self)
        for text, act in (
            ("Copy cells", self.view.copy),
            ("Paste cells", self.view.paste),
            ("Clear cells", self.view.clear_cells),
        ):
            self._menu.addAction(text, act)
        top = row_of(QLabel("n above", self), self.n_above, None, QLabel("Unit", self), self.unit_box)
        below = row_of(QLabel("n below", self), self.n_below, None, *self._make_buttons())
        buttons = row_of(self.preset_button, self.undo_button, stretch_first=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        for part in (top, self.empty, self.view, self.message, below, buttons, self.drawing):
            layout.addWidget(part)

    def _ambient(self, where: str) -> NumberBox:
        box = NumberBox(1.0, 10.0, 1.0, 6, self, step=0.01)
        box.setToolTip(f"Refractive index {where} the layers")
        box.setFixedWidth(52)
        box.edited.connect(lambda _: self._on_changed())
        return box

    def _make_buttons(self) -> Sequence[QWidget]:
        self._add, self._duplicate, self._remove = (QPushButton(self) for _ in range(3))
        self._up, self._down = (QPushButton(self) for _ in range(2))
        for button, text, tip, act in (
            (self._add, "Add", "Add a layer below the current one", self.add),
            (self._duplicate, "Duplicate", "Put a copy below each selected layer", self.duplicate),
            (self._remove, "Remove", "Remove the selected layers", self.remove),
            (self._up, "▲", "Move the layer up (Alt+Up), or drag its number", lambda: self.view.move_rows(-1)),
            (self._down, "▼", "Move the layer down (Alt+Down), or drag its number", lambda: self.view.move_rows(1)),
        ):
            button.setText(text)
            button.setToolTip(tip)
            if len(text) == 1:
                button.setFixedWidth(26)
            button.clicked.connect(lambda _=False, act=act: act())
        return (self._add, self._duplicate, self._remove, self._up, self._down)

    def _on_changed(self) -> None:
        self.update_state()
        self.changed.emit()

    def update_state(self, *_: Any) -> None:
        """Show what the model holds: table or hint, drawing, what is wrong, which buttons can be used."""
        super().update_state()
        count, index = self.model.rowCount(), self.view.currentIndex()
        self.empty.setVisible(count == 0)
        self.view.setVisible(count > 0)
        self.drawing.show_stack(self.model.rows, self.n_above.value(), self.n_below.value(), self.model.unit)
        self.drawing.show_current(index.row() if index.isValid() else None)
        selected = bool(self.view.selected_rows())
        for button in (self._duplicate, self._remove):
            button.setEnabled(selected)
        self._up.setEnabled(index.isValid() and index.row() > 0)
        self._down.setEnabled(index.isValid() and index.row() < count - 1)
