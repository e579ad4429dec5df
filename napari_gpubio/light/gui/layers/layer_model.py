"""The layers behind the table on screen."""

from collections.abc import Iterable, Mapping
from typing import Any

from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtGui import QColor

from napari_gpubio.gui.tables import MISSING, WRONG, CellModel, Place, aligned
from napari_gpubio.light.gui.layers.layer_columns import COLUMNS, FIELDS, heading
from napari_gpubio.light.gui.layers.layer_rows import UNITS, LayerRow, first_problem, problem_at, title
from napari_gpubio.light.layers.model import Layer
from napari_gpubio.light.layers.napari_io import layer_colors

Rows = tuple[LayerRow, ...]
NEW = LayerRow(name="", n=1.4, mua_per_mm=0.1, mus_per_mm=10.0, g=0.9, thickness_mm=1.0)
_Role = Qt.ItemDataRole


class LayerModel(CellModel):
    """Layers from the top to the bottom; coefficients in 1/mm with thicknesses in mm, or in 1/cm and cm."""

    columns, units = COLUMNS, UNITS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._rows: Rows = ()
        self._shows = {
            _Role.DisplayRole: lambda i, field: self._shown_text(i, field),
            _Role.EditRole: lambda i, field: self._rows[i].text(field, self._unit),
            _Role.ToolTipRole: lambda i, field: self.problem(i, FIELDS.index(field)) or title(self._rows, i),
            _Role.DecorationRole: lambda i, field: QColor(self.colors[i]) if field == "name" else None,
            _Role.BackgroundRole: self._background,
            _Role.ForegroundRole: lambda i, field: MISSING if self.is_missing(i, FIELDS.index(field)) else None,
            _Role.TextAlignmentRole: lambda _, field: aligned(left=field == "name"),
        }

    # -- the layers -----------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The rows as they stand."""
        return self._rows

    @property
    def colors(self) -> tuple[str, ...]:
        """Colors of the rows."""
        return layer_colors([row.name for row in self._rows])

    def begin_with(self, layers: Iterable[Layer]) -> None:
        """Show layers, before which there is nothing to come back to."""
        self.set_layers(layers)
        self._undo.clear()
        self.judged.emit()

    def set_layers(self, layers: Iterable[Layer]) -> None:
        """Show other layers, as a step that can be undone."""
        self._replace(tuple(LayerRow.of(layer) for layer in layers))

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

    # -- what is wrong --------------------------------------------------------------------------------------------

    def problem(self, index: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        return problem_at(self._rows, index, FIELDS[column], self._unit)

    def first_problem(self) -> Place | None:
        """The first cell (row, column) with which something is wrong."""
        found = first_problem(self._rows, self._unit)
        return None if found is None else (found[0], FIELDS.index(found[1]))

    def judge(self, index: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        field, rows = FIELDS[column], list(self._rows)
        rows[index] = rows[index].with_text(field, text, self._unit)
        return problem_at(rows, index, field, self._unit)

    def is_missing(self, index: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        return getattr(self._rows[index], FIELDS[column]) is None

    # -- Qt -------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title and help of a column, number of a row."""
        if orientation != Qt.Orientation.Horizontal:
            tip = "Drag a number to move the layer"
            return {_Role.DisplayRole: str(section + 1), _Role.ToolTipRole: tip}.get(role)
        column = COLUMNS[section]
        shows = {
            _Role.DisplayRole: heading(column, self._unit),
            _Role.ToolTipRole: column.help,
            _Role.TextAlignmentRole: aligned(left=column.field == "name"),
        }
        return shows.get(role)

    def _shown_text(self, index: int, field: str) -> str:
        return "–" if self.is_missing(index, FIELDS.index(field)) else self._rows[index].short_text(field, self._unit)

    def _background(self, index: int, field: str) -> Any:
        column = FIELDS.index(field)
        return WRONG if self.problem(index, column) and not self.is_missing(index, column) else None

    # -- changes --------------------------------------------------------------------------------------------------

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
        self.judged.emit()
