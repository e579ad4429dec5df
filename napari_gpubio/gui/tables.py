"""Tables whose cells are typed: their model with units, the clipboard, and how cells are colored."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt, Signal
from qtpy.QtGui import QColor, QIcon, QPixmap

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.text import delimited
from napari_gpubio.gui import theme
from napari_gpubio.gui.typed_rows import Column, TypedRow

Place = tuple[int, int]  # row and column
CHIP_PIXELS = 14  # the edge of a color chip
_WRONG_ALPHA = 110
_Role = Qt.ItemDataRole
Row = TypeVar("Row", bound=TypedRow)


class CellModel(QAbstractTableModel, Generic[Row]):
    """Rows of typed cells.

    A subclass declares ``columns`` (those of its rows), ``units``, and ``new_row`` where typing and pasting add rows.
    ``changed`` is emitted when rows may have changed, ``validity_changed`` when their problems or the unit may have.
    """

    changed = Signal()
    validity_changed = Signal()
    columns: tuple[Column, ...]
    units: Collection[str]
    new_row: Callable[[], Row] | None = None
    kept: tuple[str, ...] = ("_state",)

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Row, ...] = ()  # as they stand
        self._state: Any = ()  # what undo returns to: the rows, where a subclass keeps nothing else
        self._unit = next(iter(self.units))
        self._shows: dict[Any, Callable[[int, Column], Any]] = {
            _Role.DisplayRole: self._short_text,
            _Role.EditRole: lambda i, column: self.rows[i].text(column.field, self._unit),
            _Role.ToolTipRole: self.tip,
            _Role.DecorationRole: lambda i, column: self.color(i) if column is self.columns[0] else None,
            _Role.BackgroundRole: self._background,
            _Role.ForegroundRole: self.foreground,
            _Role.TextAlignmentRole: lambda _, column: aligned(left=not column.is_number),
        }

    # -- what a subclass may give ---------------------------------------------------------------------------------

    def color(self, _index: int) -> QColor | None:
        """The color beside a row's first cell, or None."""
        return None

    def source(self, _index: int) -> str:
        """Where the numbers of a row come from, or an empty text."""
        return ""

    def warnings(self) -> list[str]:
        """Sentences about rows that are not wrong."""
        return []

    def tip(self, index: int, column: Column) -> str:
        """The tool tip of a cell: what is wrong, or which row it is."""
        return self.rows[index].problem(column.field, self._unit) or self.rows[index].title

    def foreground(self, index: int, column: Column) -> QColor | None:
        """The color of a cell's text, or None for the theme's."""
        return missing_color() if self.rows[index].is_missing(column.field) else None

    def _state_with(self, rows: Sequence[Row]) -> Any:
        """The state in which the table has these rows."""
        return tuple(rows)

    def _rows_of(self, state: Any) -> Iterable[Row]:
        """The rows of a state."""
        return tuple(state)

    # -- rows -----------------------------------------------------------------------------------------------------

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells as if the user had typed them, from left to right, in one step."""
        rows = list(self.rows)
        for (index, number), text in sorted(texts.items()):
            if self.new_row is not None:
                rows += [self.new_row() for _ in range(index + 1 - len(rows))]
            if self.columns[number].editable:
                rows[index] = rows[index].with_text(self.columns[number].field, text, self._unit)
        self._replace(self._state_with(rows))

    def _replace(self, state: Any) -> None:
        """Take over a state; nothing happens where nothing changes."""
        if state != self._state:
            self._take(state)

    def _take(self, state: Any, *, resets: bool = False) -> None:
        """Show the rows of a state; ``resets``: they are others, even if as many."""
        rows = tuple(self._rows_of(state))
        resets = resets or len(rows) != len(self.rows)
        if resets:
            self.beginResetModel()
        self._state, self.rows = state, rows
        if resets:
            self.endResetModel()
        self._redraw()
        self.changed.emit()
        self.validity_changed.emit()

    def show_kept(self) -> None:
        """Show rows that undo has brought back."""
        self._take(self._state, resets=True)

    # -- the unit -------------------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """In what numbers are shown and typed."""
        return self._unit

    def set_unit(self, unit: str) -> None:
        """Show numbers in another unit; the stored ones stay."""
        if unit not in self.units:
            raise InvalidInput(f"the unit is {unit!r}; choose one of {', '.join(self.units)}")
        self._unit = unit
        self._redraw()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)
        self.validity_changed.emit()

    # -- problems -------------------------------------------------------------------------------------------------

    def problem(self, index: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        return self.rows[index].problem(self.columns[column].field, self._unit)

    def check_text(self, index: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        field = self.columns[column].field
        return self.rows[index].with_text(field, text, self._unit).problem(field, self._unit)

    def first_problem(self) -> Place | None:
        """The first cell (row, column) with a problem."""
        cells = ((index, row, field) for index, row in enumerate(self.rows) for field in row.numbers())
        return next(((index, self.column_of(field)) for index, row, field in cells if row.problem(field)), None)

    @property
    def problem_count(self) -> int:
        """How many rows have a problem."""
        return sum(bool(row.first_problem()) for row in self.rows)

    def column_of(self, field: str) -> int:
        """The column of a field."""
        return next(number for number, column in enumerate(self.columns) if column.field == field)

    def is_missing(self, index: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        return self.rows[index].is_missing(self.columns[column].field)

    # -- Qt -------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of columns."""
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def data(self, index: QModelIndex, role: int = _Role.DisplayRole) -> Any:
        """Qt: text, color or tool tip of a cell."""
        show = self._shows.get(role)
        return None if show is None or not index.isValid() else show(index.row(), self.columns[index.column()])

    def setData(self, index: QModelIndex, value: Any, role: int = _Role.EditRole) -> bool:
        """Qt: the user typed into a cell."""
        if role != _Role.EditRole or not index.isValid() or not self.columns[index.column()].editable:
            return False
        self.type_in({(index.row(), index.column()): str(value)})
        return True

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        """Qt: what can be done with a cell."""
        flags = super().flags(index)
        editable = index.isValid() and self.columns[index.column()].editable
        return flags | Qt.ItemFlag.ItemIsEditable if editable else flags

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title over unit, and help of a column."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        unit, _ = column.shown_in(self._unit)
        shows = {
            _Role.DisplayRole: f"{column.title}\n{unit}".rstrip(),
            _Role.ToolTipRole: column.help + (f" ({unit})" if unit else ""),
            _Role.TextAlignmentRole: aligned(left=not column.is_number),
        }
        return shows.get(role)

    def _short_text(self, index: int, column: Column) -> str:
        row = self.rows[index]
        return "–" if row.is_missing(column.field) else row.short_text(column.field, self._unit)

    def _background(self, index: int, column: Column) -> QColor | None:
        row = self.rows[index]
        return wrong_color() if row.problem(column.field, self._unit) and not row.is_missing(column.field) else None

    def _redraw(self) -> None:
        """Let every cell be drawn anew."""
        if self.rowCount():
            self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, len(self.columns) - 1))


def copied_text(model: CellModel[Any], cells: Collection[Place]) -> str:
    """Return the smallest block that holds the cells, with all digits, in the unit on screen."""
    if not cells:
        return ""
    cells = set(cells)
    lines = [[_cell_text(model, (row, column), cells) for column in _span(cells, 1)] for row in _span(cells, 0)]
    return delimited(lines, "\t")


def pasted_cells(model: CellModel[Any], text: str, cells: Collection[Place]) -> tuple[dict[Place, str], int]:
    """Return where the parts of a text go when it is pasted onto cells, and how many lie beyond the table.

    The block begins at the first of the cells. A single line goes into each of the rows, a single value into each of
    the cells. Parts for cells that cannot be edited are left out; rows are added where the model has new ones.
    """
    lines = [line.split("\t") for line in text.rstrip("\r\n").splitlines()]
    if not cells or not lines:
        return {}, 0
    columns = model.columns
    if len(lines) == len(lines[0]) == 1:
        return {cell: lines[0][0] for cell in cells if columns[cell[1]].editable}, 0
    rows = sorted({row for row, _ in cells})
    if len(lines) == 1:
        lines *= len(rows)
    else:
        rows = list(range(rows[0], rows[0] + len(lines)))
    left = min(column for _, column in cells)
    block = {(row, left + step): part for row, line in zip(rows, lines, strict=True) for step, part in enumerate(line)}
    height = math.inf if model.new_row else model.rowCount()
    inside = {cell: part for cell, part in block.items() if cell[0] < height and cell[1] < len(columns)}
    return {cell: part for cell, part in inside.items() if columns[cell[1]].editable}, len(block) - len(inside)


def _span(cells: Collection[Place], axis: int) -> range:
    numbers = [cell[axis] for cell in cells]
    return range(min(numbers), max(numbers) + 1)


def _cell_text(model: CellModel[Any], cell: Place, cells: Collection[Place]) -> str:
    return " ".join(str(model.data(model.index(*cell), _Role.EditRole)).split()) if cell in cells else ""


def wrong_color() -> QColor:
    """Behind a cell that holds nonsense."""
    return theme.translucent(theme.ERROR, _WRONG_ALPHA)


def missing_color() -> QColor:
    """Of a cell that has yet to be filled."""
    return QColor(theme.MISSING)


def aligned(*, left: bool) -> Qt.AlignmentFlag:
    """Where the text of a cell stands: words to the left, numbers to the right."""
    side = Qt.AlignmentFlag.AlignLeft if left else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter


def color_chip(color: Any) -> QIcon:
    """Return a small square of a color, given as Qt or as red, green, blue 0 to 1; it keeps it in a selected row."""
    pixmap = QPixmap(CHIP_PIXELS, CHIP_PIXELS)
    pixmap.fill(QColor(color) if isinstance(color, (str, QColor)) else QColor.fromRgbF(*map(float, color[:3])))
    icon = QIcon()
    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
        icon.addPixmap(pixmap, mode)
    return icon
