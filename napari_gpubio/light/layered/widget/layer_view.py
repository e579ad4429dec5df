"""The layer table on screen: keys, the clipboard, dragging rows, and the judgement of what is being typed."""

from collections.abc import Callable, Collection
from typing import Any

from qtpy.QtCore import QEvent, QModelIndex, QRect, QSize, Qt, Signal
from qtpy.QtGui import QColor, QKeySequence, QPainter
from qtpy.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QHeaderView,
    QSizePolicy,
    QStyledItemDelegate,
    QTableView,
    QWidget,
)

from napari_gpubio.light.layered.widget.layer_columns import COLUMNS, FIELDS
from napari_gpubio.light.layered.widget.layer_model import LayerModel
from napari_gpubio.light.widget.property_view import CellDelegate

Place = tuple[int, int]  # row and column
_FRAME = QColor("#ff6b5e")
_HEADERS = """QHeaderView::section {
    border: none; border-right: 1px solid rgba(128, 128, 128, 60); padding: 2px 3px;
    background: rgba(128, 128, 128, 45);
}"""
_PADDING, _CHIP = 10, 20  # pixels: both sides of a cell, a chip with its gap
_LONGEST = 9  # characters of a number that a column's width comes from
_MOST_ROWS, _FEWEST_ROWS = 12, 1
_Trigger = QAbstractItemView.EditTrigger
_Key = Qt.Key


class LayerView(QTableView):
    """Shows a `LayerModel`.

    ``typing`` carries what is wrong with what is being typed, ``typed`` says that the editor is gone.
    """

    typing = Signal(str)
    typed = Signal()

    def __init__(self, model: LayerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layers = model
        self.setModel(model)
        delegate = LayerDelegate(model, self)
        delegate.typing.connect(self.typing)
        delegate.closeEditor.connect(self._on_closed)
        self.setItemDelegate(delegate)
        self.setEditTriggers(_Trigger.DoubleClicked | _Trigger.EditKeyPressed | _Trigger.AnyKeyPressed)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setWordWrap(False)
        self._set_headers()
        self._measure()
        model.judged.connect(self._measure)

    # -- cells ----------------------------------------------------------------------------------------------------

    def selected_cells(self) -> list[Place]:
        """Places of the selected cells, in order."""
        return sorted((index.row(), index.column()) for index in self.selectionModel().selectedIndexes())

    def selected_rows(self) -> list[int]:
        """Rows with a selected cell, in order."""
        return sorted({row for row, _ in self.selected_cells()})

    def go_to(self, row: int, column: int = 0) -> None:
        """Make a cell the current one and bring it on screen."""
        self.setCurrentIndex(self.layers.index(row, column))
        self.scrollTo(self.currentIndex())

    def move_rows(self, step: int) -> None:
        """Move the current row up (-1) or down (1); it stays the current one."""
        index = self.currentIndex()
        if index.isValid() and 0 <= index.row() + step < self.layers.rowCount():
            self.layers.move(index.row(), index.row() + step)
            self.go_to(index.row() + step, index.column())

    def copy(self) -> None:
        """Put the selected cells on the clipboard."""
        if cells := self.selected_cells():
            QApplication.clipboard().setText(_text_of(self.layers, cells))

    def paste(self) -> None:
        """Put the clipboard into the cells from the current one on; layers are added as needed."""
        self.layers.type_in(_placed(QApplication.clipboard().text(), self.selected_cells()))

    def clear_cells(self) -> None:
        """Empty the selected cells."""
        self.layers.type_in(dict.fromkeys(self.selected_cells(), ""))

    # -- Qt -------------------------------------------------------------------------------------------------------

    def event(self, event: Any) -> bool:
        """Qt: claim our keys before a shortcut of the window takes them."""
        if event.type() == QEvent.Type.ShortcutOverride and self._action(event) is not None:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: Any) -> None:
        """Qt: a key."""
        action = self._action(event)
        if action is None:
            super().keyPressEvent(event)
        else:
            action()

    def sizeHint(self) -> QSize:
        """Qt: tall enough for the rows, up to a few."""
        rows = min(max(self.layers.rowCount(), _FEWEST_ROWS), _MOST_ROWS)
        height = self.horizontalHeader().sizeHint().height() + rows * self.verticalHeader().defaultSectionSize()
        return QSize(super().sizeHint().width(), height + 2 * self.frameWidth())

    def changeEvent(self, event: Any) -> None:
        """Qt: another style; the font may be another."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._measure()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _on_closed(self, *_: Any) -> None:
        self.typed.emit()

    def _action(self, event: Any) -> Callable[[], Any] | None:
        keys = {
            QKeySequence.StandardKey.Copy: self.copy,
            QKeySequence.StandardKey.Paste: self.paste,
            QKeySequence.StandardKey.Undo: self.layers.undo,
            QKeySequence.StandardKey.Delete: self.clear_cells,
        }
        if event.modifiers() & Qt.KeyboardModifier.AltModifier and event.key() in (_Key.Key_Up, _Key.Key_Down):
            return lambda: self.move_rows(-1 if event.key() == _Key.Key_Up else 1)
        return next((action for key, action in keys.items() if event.matches(key)), None)

    def _set_headers(self) -> None:
        across, down = self.horizontalHeader(), self.verticalHeader()
        for header in (across, down):
            header.setStyleSheet(_HEADERS)
            header.setHighlightSections(False)
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        across.setMinimumSectionSize(24)
        across.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        down.setDefaultAlignment(Qt.AlignmentFlag.AlignCenter)
        down.setSectionsMovable(True)
        down.sectionMoved.connect(self._on_dragged)

    def _on_dragged(self, _section: int, start: int, end: int) -> None:
        """A row's number was dragged: move the layer, and leave the header as it was."""
        header = self.verticalHeader()
        was = header.blockSignals(True)
        header.moveSection(end, start)
        header.blockSignals(was)
        self.layers.move(start, end)
        self.go_to(end)

    def _measure(self) -> None:
        """Give rows and columns the size that their text needs; names take what is left."""
        metrics, unit = self.fontMetrics(), self.layers.unit
        for column, about in enumerate(COLUMNS[1:], start=1):
            texts = [about.widest] + [row.short_text(about.field, unit)[:_LONGEST] for row in self.layers.rows]
            self.horizontalHeader().resizeSection(column, max(map(metrics.horizontalAdvance, texts)) + _PADDING)
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 8)
        self.verticalHeader().setFixedWidth(metrics.horizontalAdvance("000") + 4)
        self.updateGeometry()


class LayerDelegate(CellDelegate):
    """Draws a frame around what is wrong, and judges a number while it is typed."""

    def __init__(self, model: LayerModel, parent: QWidget) -> None:
        super().__init__(model, parent)
        self._layers = model

    def paint(self, painter: QPainter, option: Any, index: QModelIndex) -> None:
        """Qt: draw a cell."""
        QStyledItemDelegate.paint(self, painter, option, index)
        row, column = index.row(), index.column()
        if self._layers.problem(row, column) and not self._layers.is_missing(row, column):
            painter.setPen(_FRAME)
            painter.drawRect(QRect(option.rect).adjusted(0, 0, -1, -1))


def _text_of(model: LayerModel, cells: Collection[Place]) -> str:
    """The smallest block that holds the cells, with all digits, in the unit that is shown."""
    rows, columns = ({cell[axis] for cell in cells} for axis in (0, 1))
    texts = {cell: model.rows[cell[0]].text(FIELDS[cell[1]], model.unit) for cell in cells}
    across = range(min(columns), max(columns) + 1)
    return "".join("\t".join(texts.get((row, c), "") for c in across) + "\n" for row in sorted(rows))


def _placed(text: str, cells: Collection[Place]) -> dict[Place, str]:
    """Where the parts of a text go; a single value goes into every selected cell, a block begins at the first."""
    lines = [line.split("\t") for line in text.rstrip("\r\n").splitlines()]
    if not lines:
        return {}
    if len(lines) == len(lines[0]) == 1:
        return dict.fromkeys(cells, lines[0][0])
    top, left = min(cells, default=(0, 0))
    block = {(top + i, left + j): part for i, line in enumerate(lines) for j, part in enumerate(line)}
    return {cell: part for cell, part in block.items() if cell[1] < len(FIELDS)}
