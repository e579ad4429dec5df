"""How a table with typed cells is shown: editors that check at every key, keys, the clipboard, widths."""

from collections.abc import Callable, Mapping
from typing import Any

from qtpy.QtCore import QEvent, QModelIndex, QRect, QSize, Qt, Signal
from qtpy.QtGui import QColor, QKeySequence, QPainter
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

from napari_gpubio.gui import theme
from napari_gpubio.gui.tables import CHIP_PIXELS, CellModel, Place, color_chip, copied_text, pasted_cells

_EDITOR = "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; }"
_WRONG_EDITOR = (
    "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; background: "
    + theme.INVALID_INPUT
    + "; color: white; }"
)


class CellDelegate(QStyledItemDelegate):
    """Draws a frame around what is wrong, and checks a text while it is typed; ``typing`` carries the sentence."""

    typing = Signal(str)

    def __init__(self, model: CellModel[Any], parent: QWidget) -> None:
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

    def __init__(self, model: CellModel[Any], index: QModelIndex, parent: QWidget) -> None:
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


_HEADERS = f"""QHeaderView::section {{
    border: none; border-right: 1px solid {theme.TABLE_LINE}; padding: 2px 3px;
    background: {theme.TABLE_HEADER};
}}"""
_Trigger = QAbstractItemView.EditTrigger
_CELL_PADDING_PIXELS = 9  # on both sides together
_LONGEST, _MAX_MEASURED = 10, 500  # characters of a number, and rows, that determine a column's width


class CellView(QTableView):
    """Shows a `CellModel`, with room for ``fewest_rows`` to ``most_rows``; more are scrolled.

    ``typing`` carries what is wrong with what is being typed; ``typed`` is emitted when the editor is gone;
    ``left_out`` carries how many pasted values lay outside.
    """

    typing = Signal(str)
    typed = Signal()
    left_out = Signal(int)

    def __init__(self, model: CellModel[Any], fewest_rows: int, most_rows: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.cells, self._fewest_rows, self._most_rows = model, fewest_rows, most_rows
        self.widths: dict[str, int] = {}  # that the texts of each field need, pixels
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
        self.measure()

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        metrics, rows = self.fontMetrics(), self.cells.rows[:_MAX_MEASURED]
        for number, column in enumerate(self.cells.columns):
            texts = [column.widest]
            if column.is_number:
                texts += [row.short_text(column.field, self.cells.unit)[:_LONGEST] for row in rows]
            self.widths[column.field] = max(map(metrics.horizontalAdvance, texts)) + _CELL_PADDING_PIXELS
            self.horizontalHeader().resizeSection(number, self.widths[column.field])
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 8)
        self.updateGeometry()

    def copy(self) -> None:
        """Put the selected cells on the clipboard."""
        if text := copied_text(self.cells, self.selected_cells()):
            QApplication.clipboard().setText(text)

    def paste(self) -> None:
        """Put the clipboard into the cells from the selected ones on."""
        cells = self.selected_cells() or ([(0, 0)] if self.cells.new_row else [])
        texts, beyond = pasted_cells(self.cells, QApplication.clipboard().text(), cells)
        self.cells.type_in(texts)
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
        self.setCurrentIndex(self.cells.index(row, column))
        self.scrollTo(self.currentIndex())

    def clear_cells(self) -> None:
        """Empty the selected cells."""
        self.cells.type_in(dict.fromkeys(self.selected_cells(), ""))

    def action_of(self, event: Any) -> Callable[[], Any] | None:
        """What a key does here, or None."""
        keys = {
            QKeySequence.StandardKey.Copy: self.copy,
            QKeySequence.StandardKey.Paste: self.paste,
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
        """Qt: a key; Tab goes through the cells, and behind the last one to what follows the table."""
        action, forward = self.action_of(event), event.key() == Qt.Key.Key_Tab
        if action is not None:
            action()
        elif event.key() in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab) and self._is_at_end(forward=forward):
            event.ignore()  # Qt then goes on
        else:
            super().keyPressEvent(event)

    def _is_at_end(self, *, forward: bool) -> bool:
        """Whether Qt would go on at the other end of the table."""
        way = self.CursorAction.MoveNext if forward else self.CursorAction.MovePrevious
        here, there = self.currentIndex(), self.moveCursor(way, Qt.KeyboardModifier.NoModifier)
        before, after = ((one.row(), one.column()) for one in (here, there))
        return after <= before if forward else after >= before

    def sizeHint(self) -> QSize:
        """Qt: tall enough for the rows, up to a few."""
        rows = min(max(self.cells.rowCount(), self._fewest_rows), self._most_rows)
        height = self.horizontalHeader().sizeHint().height() + rows * self.verticalHeader().defaultSectionSize()
        return QSize(super().sizeHint().width(), height + 2 * self.frameWidth())

    def changeEvent(self, event: Any) -> None:
        """Qt: another style; the font may be another."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self.measure()

    def _on_closed(self, *_: Any) -> None:
        self.typed.emit()
