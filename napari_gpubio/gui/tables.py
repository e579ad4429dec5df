"""Tables whose cells are typed: checked while they are typed, with a unit, the clipboard and undo."""

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from qtpy.QtCore import QAbstractTableModel, QEvent, QModelIndex, QRect, QSize, Qt, Signal
from qtpy.QtGui import QColor, QIcon, QKeySequence, QPainter, QPixmap
from qtpy.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QHeaderView,
    QLineEdit,
    QSizePolicy,
    QStyledItemDelegate,
    QTableView,
    QWidget,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.text import delimited
from napari_gpubio.gui import theme

Cell = float | str | None  # a number, a text that is no number, or nothing yet


def typed_number(text: str, factor: Decimal | int = 1) -> Cell:
    """Return the number that a text stands for, divided by a factor (of units), or the text where it is none.

    A comma is a point, because many keyboards have none.
    """
    if not text:
        return None
    try:
        number = Decimal(text.replace(",", ".").replace("−", "-"))
        return float(number / factor if number.is_finite() else number)
    except (ArithmeticError, ValueError):  # a number beyond all exponents is none either
        return text


def shown_number(value: float, factor: Decimal | int = 1) -> float:
    """Return a number in the unit that is shown; ``factor`` as of `typed_number`."""
    return float(Decimal(repr(value)) * factor) if math.isfinite(value) else value


Place = tuple[int, int]  # row and column
_WRONG_ALPHA = 110
_MOST_UNDO = 100
_Role = Qt.ItemDataRole


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    field
        What it shows of a row.
    title, help
        The text above it, and the sentence about it.
    widest
        A text that it has room for, at least.
    editable
        Whether its cells can be typed into.
    """

    field: str
    title: str
    help: str = ""
    widest: str = "00.00"
    editable: bool = True


class CellModel(QAbstractTableModel):
    """Rows of cells.

    A subclass gives ``columns`` and ``units``, keeps the rows, puts into ``self._shows`` what a cell shows by role, and
    implements `rowCount`, `headerData`, `type_in`, `undo`, `problem`, `check_text` and `is_missing`. ``changed`` is
    emitted when the rows may have changed, ``validity_changed`` when their problems or the unit may have.
    """

    changed = Signal()
    validity_changed = Signal()
    columns: tuple[Column, ...]
    units: Collection[str]

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._unit = next(iter(self.units))
        self._undo: deque[Any] = deque(maxlen=_MOST_UNDO)  # the rows before each change
        self._shows: dict[Any, Callable[[int, str], Any]] = {}  # by role: from row and field

    # -- what a subclass gives ------------------------------------------------------------------------------------

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells as if the user had typed them, in one step."""
        raise NotImplementedError

    def undo(self) -> None:
        """Take the last change of the rows back."""
        raise NotImplementedError

    def problem(self, row: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        raise NotImplementedError

    def check_text(self, row: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        raise NotImplementedError

    def is_missing(self, row: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        raise NotImplementedError

    # -- unit and undo --------------------------------------------------------------------------------------------

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

    @property
    def can_undo(self) -> bool:
        """Whether there is a change to take back."""
        return bool(self._undo)

    # -- Qt -------------------------------------------------------------------------------------------------------

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of columns."""
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def data(self, index: QModelIndex, role: int = _Role.DisplayRole) -> Any:
        """Qt: text, color or tool tip of a cell."""
        show = self._shows.get(role)
        return None if show is None or not index.isValid() else show(index.row(), self.columns[index.column()].field)

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

    def _redraw(self) -> None:
        """Let every cell be drawn anew."""
        if self.rowCount():
            self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, len(self.columns) - 1))


def copied_text(model: CellModel, cells: Collection[Place]) -> str:
    """Return the smallest block that holds the cells, with all digits, in the unit on screen."""
    if not cells:
        return ""
    lines = [[_cell_text(model, (row, column), cells) for column in _span(cells, 1)] for row in _span(cells, 0)]
    return delimited(lines, "\t")


def pasted_cells(
    model: CellModel, text: str, cells: Collection[Place], *, grows: bool = False
) -> tuple[dict[Place, str], int]:
    """Return where the parts of a text go when it is pasted onto cells, and how many lie beyond the table.

    The block begins at the first of the cells. A single line goes into each of the rows, a single value into each of
    the cells. Parts for cells that cannot be edited are left out; ``grows``: rows may be added.
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
    inside = {
        cell: part for cell, part in block.items() if (grows or cell[0] < model.rowCount()) and cell[1] < len(columns)
    }
    return {cell: part for cell, part in inside.items() if columns[cell[1]].editable}, len(block) - len(inside)


def _span(cells: Collection[Place], axis: int) -> range:
    numbers = [cell[axis] for cell in cells]
    return range(min(numbers), max(numbers) + 1)


def _cell_text(model: CellModel, cell: Place, cells: Collection[Place]) -> str:
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


CHIP_PIXELS = 14  # the edge of a color chip
_EDITOR = "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; }"
_WRONG_EDITOR = (
    "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; background: "
    + theme.INVALID_INPUT
    + "; color: white; }"
)


class CellDelegate(QStyledItemDelegate):
    """Draws a frame around what is wrong, and checks a text while it is typed; ``typing`` carries the sentence."""

    typing = Signal(str)

    def __init__(self, model: CellModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model

    def createEditor(self, parent: QWidget, _option: Any, index: QModelIndex) -> QWidget:
        """Qt: make the editor of a cell."""
        editor = CellEditor(self._model, index, parent)
        editor.validity_changed.connect(self.typing)
        return editor

    def initStyleOption(self, option: Any, index: QModelIndex) -> None:
        """Qt: how a cell looks; a chip keeps its color in a selected cell."""
        super().initStyleOption(option, index)
        color = index.data(Qt.ItemDataRole.DecorationRole)
        if color is not None:
            option.icon = color_chip(color)
            option.decorationSize = QSize(CHIP_PIXELS, CHIP_PIXELS)

    def paint(self, painter: QPainter, option: Any, index: QModelIndex) -> None:
        """Qt: draw a cell."""
        super().paint(painter, option, index)
        row, column = index.row(), index.column()
        if self._model.problem(row, column) and not self._model.is_missing(row, column):
            painter.setPen(QColor(theme.ERROR))
            painter.drawRect(QRect(option.rect).adjusted(0, 0, -1, -1))


class CellEditor(QLineEdit):
    """Checks its text at every key; ``validity_changed`` carries the problem, empty if there is none."""

    validity_changed = Signal(str)

    def __init__(self, model: CellModel, index: QModelIndex, parent: QWidget) -> None:
        super().__init__(parent)
        self._model, self._row, self._column = model, index.row(), index.column()
        self.setFrame(False)
        self.setAlignment(Qt.AlignmentFlag(index.data(Qt.ItemDataRole.TextAlignmentRole)))
        self.setStyleSheet(_EDITOR)
        self.textEdited.connect(self._check_typed)

    def _check_typed(self, text: str) -> None:
        problem = self._model.check_text(self._row, self._column, text)
        self.setStyleSheet(_WRONG_EDITOR if problem else _EDITOR)
        self.validity_changed.emit(problem)


def color_chip(color: Any) -> QIcon:
    """Return a small square of a color, given as Qt or as red, green, blue 0 to 1; it keeps it in a selected row."""
    pixmap = QPixmap(CHIP_PIXELS, CHIP_PIXELS)
    pixmap.fill(QColor(color) if isinstance(color, (str, QColor)) else QColor.fromRgbF(*map(float, color[:3])))
    icon = QIcon()
    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
        icon.addPixmap(pixmap, mode)
    return icon


_HEADERS = f"""QHeaderView::section {{
    border: none; border-right: 1px solid {theme.TABLE_LINE}; padding: 2px 3px;
    background: {theme.TABLE_HEADER};
}}"""
_Trigger = QAbstractItemView.EditTrigger


class CellView(QTableView):
    """Shows a `CellModel`, with room for ``fewest_rows`` to ``most_rows``; more are scrolled.

    A subclass implements `measure`, and calls it when it is made. ``typing`` carries what is wrong with what is being
    typed; ``typed`` is emitted when the editor is gone; ``left_out`` carries how many pasted values lay outside.
    """

    grows = False  # whether pasting adds rows
    typing = Signal(str)
    typed = Signal()
    left_out = Signal(int)

    def __init__(self, model: CellModel, fewest_rows: int, most_rows: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cells, self._fewest_rows, self._most_rows = model, fewest_rows, most_rows
        self.setModel(model)
        delegate = CellDelegate(model, self)
        delegate.typing.connect(self.typing)
        delegate.closeEditor.connect(self._on_closed)
        self.setItemDelegate(delegate)
        self.setEditTriggers(_Trigger.DoubleClicked | _Trigger.EditKeyPressed | _Trigger.AnyKeyPressed)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setWordWrap(False)
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.setStyleSheet(_HEADERS)
            header.setHighlightSections(False)
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setMinimumSectionSize(24)
        model.validity_changed.connect(self.measure)

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        raise NotImplementedError

    def copy(self) -> None:
        """Put the selected cells on the clipboard."""
        if text := copied_text(self._cells, self.selected_cells()):
            QApplication.clipboard().setText(text)

    def paste(self) -> None:
        """Put the clipboard into the cells from the selected ones on."""
        cells = self.selected_cells() or ([(0, 0)] if self.grows else [])
        texts, beyond = pasted_cells(self._cells, QApplication.clipboard().text(), cells, grows=self.grows)
        self._cells.type_in(texts)
        self.left_out.emit(beyond)

    def recolor(self, _swap: Mapping[str, str]) -> None:
        """Draw with the colors of another theme; the model reads them when it is asked."""
        self.viewport().update()

    def selected_cells(self) -> list[Place]:
        """Places of the selected cells, in order."""
        return sorted((index.row(), index.column()) for index in self.selectionModel().selectedIndexes())

    def selected_rows(self) -> list[int]:
        """Rows with a selected cell, in order."""
        return sorted({row for row, _ in self.selected_cells()})

    def go_to(self, row: int, column: int = 0) -> None:
        """Make a cell the current one and bring it on screen."""
        self.setCurrentIndex(self._cells.index(row, column))
        self.scrollTo(self.currentIndex())

    def clear_cells(self) -> None:
        """Empty the selected cells."""
        self._cells.type_in(dict.fromkeys(self.selected_cells(), ""))

    def action_of(self, event: Any) -> Callable[[], Any] | None:
        """What a key does here, or None."""
        keys = {
            QKeySequence.StandardKey.Copy: self.copy,
            QKeySequence.StandardKey.Paste: self.paste,
            QKeySequence.StandardKey.Undo: self._cells.undo,
            QKeySequence.StandardKey.Delete: self.clear_cells,
        }
        return next((action for key, action in keys.items() if event.matches(key)), None)

    # -- Qt -------------------------------------------------------------------------------------------------------

    def event(self, event: Any) -> bool:
        """Qt: claim our keys before a shortcut of the window takes them."""
        if event.type() == QEvent.Type.ShortcutOverride and self.action_of(event) is not None:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: Any) -> None:
        """Qt: a key."""
        action = self.action_of(event)
        if action is None:
            super().keyPressEvent(event)
        else:
            action()

    def sizeHint(self) -> QSize:
        """Qt: tall enough for the rows, up to a few."""
        rows = min(max(self._cells.rowCount(), self._fewest_rows), self._most_rows)
        height = self.horizontalHeader().sizeHint().height() + rows * self.verticalHeader().defaultSectionSize()
        return QSize(super().sizeHint().width(), height + 2 * self.frameWidth())

    def changeEvent(self, event: Any) -> None:
        """Qt: another style; the font may be another."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self.measure()

    def _on_closed(self, *_: Any) -> None:
        self.typed.emit()
