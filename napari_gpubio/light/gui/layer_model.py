"""The Qt model of the table of layers."""

from collections.abc import Iterable, Mapping
from typing import Any

from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtGui import QColor

from napari_gpubio.gui.tables import Column, Place
from napari_gpubio.light.gui.property_model import OpticalModel
from napari_gpubio.light.gui.table_rows import (
    THICKNESS,
    LayerRow,
    Recipe,
    first_layer_problem,
    layer_problem,
    layer_title,
)
from napari_gpubio.light.layers.model import Layer
from napari_gpubio.light.layers.napari_io import layer_colors

COLUMNS = (
    Column("name", "Layer", "What the layer is", "papillary d"),
    Column("n", "n", "Refractive index, at least 1", "1.34"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.015"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0; 0 with µa = 0 is glass", "70.77"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1", "0.85"),
    Column(THICKNESS, "d", "Thickness; ∞ or inf for a last layer without end", "0.162"),
)
FIELDS = tuple(column.field for column in COLUMNS)
NEW = LayerRow(name="", n=1.4, mua_per_mm=0.1, mus_per_mm=10.0, g=0.9, thickness_mm=1.0)
_Role = Qt.ItemDataRole
Rows = tuple[LayerRow, ...]


class LayerModel(OpticalModel):
    """Layers from the top to the bottom; thicknesses in mm with coefficients in 1/mm, or in cm with 1/cm."""

    columns = COLUMNS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._rows: Rows = ()

    # -- the layers -----------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The rows as they stand."""
        return self._rows

    def row(self, index: int) -> LayerRow:
        """The row at an index."""
        return self._rows[index]

    @property
    def colors(self) -> tuple[str, ...]:
        """Colors of the rows."""
        return layer_colors([row.name for row in self._rows])

    def begin_with(self, layers: Iterable[Layer]) -> None:
        """Show layers, before which there is nothing to come back to."""
        self.set_layers(layers)
        self._undo.clear()
        self.validity_changed.emit()

    def set_layers(self, layers: Iterable[Layer]) -> None:
        """Show other layers, as a step that can be undone."""
        self._replace(tuple(LayerRow.of(layer) for layer in layers))

    def fill(self, indexes: Iterable[int], recipe: Recipe, wavelength_nm: float) -> None:
        """Give rows the properties of a recipe at a wavelength; names and thicknesses stay."""
        rows = list(self._rows)
        for index in indexes:
            rows[index] = rows[index].filled(recipe, wavelength_nm)
        self._replace(tuple(rows))

    def insert(self, index: int, rows: Iterable[LayerRow]) -> None:
        """Put rows in before an index."""
        self._replace((*self._rows[:index], *rows, *self._rows[index:]))

    def remove(self, indexes: Iterable[int]) -> None:
        """Take rows out."""
        gone = set(indexes)
        self._replace(tuple(row for index, row in enumerate(self._rows) if index not in gone))

    def duplicate(self, indexes: Iterable[int]) -> None:
        """Put a copy of each of these rows below it."""
        twice = set(indexes)
        self._replace(tuple(row for i, row in enumerate(self._rows) for _ in range(2 if i in twice else 1)))

    def move(self, index: int, target: int) -> None:
        """Move a row to another place."""
        if 0 <= target < len(self._rows):
            rows = list(self._rows)
            rows.insert(target, rows.pop(index))
            self._replace(tuple(rows))

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells (row, column) as if the user had typed them, in one step; rows are added as needed."""
        rows = list(self._rows)
        for (index, column), text in sorted(texts.items()):
            rows += [LayerRow() for _ in range(index + 1 - len(rows))]
            rows[index] = rows[index].with_text(FIELDS[column], text, self._unit)
        self._replace(tuple(rows))

    def undo(self) -> None:
        """Take the last change back."""
        if self._undo:
            self._show(self._undo.pop())

    # -- what is wrong, and how it looks --------------------------------------------------------------------------

    def problem(self, index: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        return layer_problem(self._rows, index, FIELDS[column], self._unit)

    def first_problem(self) -> Place | None:
        """The first cell (row, column) with which something is wrong."""
        found = first_layer_problem(self._rows, self._unit)
        return None if found is None else (found[0], FIELDS.index(found[1]))

    def check_text(self, index: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        field, rows = FIELDS[column], list(self._rows)
        rows[index] = rows[index].with_text(field, text, self._unit)
        return layer_problem(rows, index, field, self._unit)

    def title(self, index: int) -> str:
        """What a row is called in sentences."""
        return layer_title(self._rows, index)

    def chip(self, index: int, field: str) -> Any:
        """The color of a layer."""
        return QColor(self.colors[index]) if field == "name" else None

    def tip(self, index: int, field: str) -> str:
        """What is wrong, or which layer it is."""
        return self.problem(index, FIELDS.index(field)) or self.title(index)

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title and help of a column, number of a row."""
        if orientation == Qt.Orientation.Horizontal:
            return super().headerData(section, orientation, role)
        tip = "Drag a number to move the layer"
        return {_Role.DisplayRole: str(section + 1), _Role.ToolTipRole: tip}.get(role)

    def _replace(self, rows: Rows) -> None:
        """Take rows over as a step that can be undone; nothing happens where nothing changes."""
        if rows != self._rows:
            self._undo.append(self._rows)
            self._show(rows)

    def _show(self, rows: Rows) -> None:
        if len(rows) == len(self._rows):
            self._rows = rows
            self._tell()
        else:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()
        self.changed.emit()
        self.validity_changed.emit()
