"""The table of layers between two ambient media, and their drawing."""

from collections.abc import Callable, Sequence
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QHeaderView, QLabel, QPushButton, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import row_of, text_button
from napari_gpubio.light.gui.optical_model import NEW_LAYER, LayerModel
from napari_gpubio.light.gui.optical_rows import LayerRow, PropertyRow, Recipe
from napari_gpubio.light.gui.optical_table import OpticalTable, OpticalView, stacked
from napari_gpubio.light.gui.stack_drawing import StackDrawing
from napari_gpubio.light.layers.model import MOST_LAYERS, LayeredMedium

EMPTY = "No layers. Press Add, or choose a preset above."
_WAVELENGTH_NM = 690.0
_MOST_ROWS, _FEWEST_ROWS = 12, 1


class LayerRowsView(OpticalView):
    """Shows a `LayerModel`; rows can be dragged by their numbers."""

    grows = True
    properties: LayerModel

    def __init__(self, model: LayerModel) -> None:
        super().__init__(model, _FEWEST_ROWS, _MOST_ROWS)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)  # names take what is left
        down = self.verticalHeader()
        down.setDefaultAlignment(Qt.AlignmentFlag.AlignCenter)
        down.setSectionsMovable(True)
        down.sectionMoved.connect(self._on_dragged)
        self.measure()

    def move_rows(self, step: int) -> None:
        """Move the current row up (-1) or down (1); it stays the current one."""
        index = self.currentIndex()
        if index.isValid() and 0 <= index.row() + step < self.properties.rowCount():
            self.properties.move(index.row(), index.row() + step)
            self.go_to(index.row() + step, index.column())

    def action_of(self, event: Any) -> Callable[[], Any] | None:
        """What a key does here, or None; Alt with an arrow moves the row."""
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if event.modifiers() & Qt.KeyboardModifier.AltModifier and event.key() in steps:
            return lambda: self.move_rows(steps[event.key()])
        return super().action_of(event)

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        super().measure()
        self.verticalHeader().setFixedWidth(self.fontMetrics().horizontalAdvance("000") + 4)

    def _on_dragged(self, _section: int, start: int, end: int) -> None:
        """Move the layer whose number was dragged, and leave the header as it was."""
        header = self.verticalHeader()
        was = header.blockSignals(True)
        header.moveSection(end, start)
        header.blockSignals(was)
        self.properties.move(start, end)
        self.go_to(end)


class LayerTable(OpticalTable):
    """Layers between two ambient media; ``changed``: `medium` may be different."""

    model: LayerModel
    view: LayerRowsView

    def __init__(self, parent: QWidget | None = None) -> None:
        model = LayerModel()
        super().__init__(model, LayerRowsView(model), EMPTY, "layer", parent)
        self.drawing = StackDrawing(self)
        self._name, self._wavelength_nm = "", _WAVELENGTH_NM
        self._build()
        connect_all(((self.model.changed, self._on_changed), (self.drawing.clicked, self.view.go_to)))
        self.update_state()

    # -- what the panel needs -------------------------------------------------------------------------------------

    def medium(self) -> LayeredMedium:
        """Return the layers; `InvalidInput` with the first problem."""
        n_above, n_below = self.n_above.value(), self.n_below.value()
        return medium_of(self.model.rows, n_above, n_below, self._name, self.model.unit)

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

    def add(self) -> None:
        """Add a layer below the current one; above a last one without end, below which nothing can be."""
        rows, current = self.model.rows, self.view.currentIndex()
        index = current.row() + 1 if current.isValid() else len(rows)
        if index == len(rows) and rows and rows[-1].thickness_mm == float("inf"):
            index -= 1
        self.model.insert(index, [NEW_LAYER])
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
        self._fill_menu()
        add = text_button("Add", "Add a layer below the current one", self, self.add)
        self._duplicate = text_button("Duplicate", "Put a copy below each selected layer", self, self.duplicate)
        self._remove = text_button("Remove", "Remove the selected layers", self, self.remove)
        self._up, self._down = self._arrow("▲", "up", -1), self._arrow("▼", "down", 1)
        buttons = (add, self._duplicate, self._remove, self._up, self._down)
        stacked(
            self,
            row_of(QLabel("n above", self), self.n_above, None, QLabel("Unit", self), self.unit_box),
            self.empty,
            self.view,
            self.message,
            row_of(QLabel("n below", self), self.n_below, None, *buttons),
            row_of(self.preset_button, self.undo_button),
            self.drawing,
        )

    def _ambient(self, where: str) -> NumberBox:
        box = NumberBox(1.0, 10.0, 1.0, 6, self, step=0.01)
        box.setToolTip(f"Refractive index {where} the layers")
        box.setFixedWidth(52)
        box.edited.connect(self._on_changed)
        return box

    def _arrow(self, text: str, way: str, step: int) -> QPushButton:
        tip = f"Move the layer {way} (Alt+{way.title()}), or drag its number"
        button = text_button(text, tip, self, lambda: self.view.move_rows(step))
        button.setFixedWidth(26)
        return button

    def _on_changed(self, *_: Any) -> None:
        self.update_state()
        self.changed.emit()

    def update_state(self, *_: Any) -> None:
        """Show what the model holds: table or hint, drawing, what is wrong, which buttons can be used."""
        super().update_state()
        count, index = self.model.rowCount(), self.view.currentIndex()
        self.empty.setVisible(count == 0)
        self.view.setVisible(count > 0)
        current = index.row() if index.isValid() else None
        self.drawing.show_stack(self.model.rows, self.n_above.value(), self.n_below.value(), current)
        for button in (self._duplicate, self._remove):
            button.setEnabled(bool(self.view.selected_rows()))
        self._up.setEnabled(index.isValid() and index.row() > 0)
        self._down.setEnabled(index.isValid() and index.row() < count - 1)


def medium_of(rows: Sequence[LayerRow], n_above: float, n_below: float, name: str, unit: str = "1/mm") -> LayeredMedium:
    """Return the medium that the rows describe; `InvalidInput` with the first problem, in a unit."""
    if not rows:
        raise InvalidInput("there are no layers; press Add, or choose a preset")
    if len(rows) > MOST_LAYERS:
        raise InvalidInput(f"there are {len(rows)} layers; at most {MOST_LAYERS} are possible: remove some")
    if problem := next((problem for row in rows if (problem := row.first_problem(unit))), ""):
        raise InvalidInput(problem)
    return LayeredMedium(layers=tuple(row.layer() for row in rows), n_above=n_above, n_below=n_below, name=name)
