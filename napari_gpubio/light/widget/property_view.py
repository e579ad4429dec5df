"""The table on screen: keys, the clipboard, and the editor that says while one types whether a number will do."""

from typing import Any

from qtpy.QtCore import QEvent, QModelIndex, QRect, QSize, Qt, Signal
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

from napari_gpubio.light.widget.property_clipboard import Place, placed, text_of
from napari_gpubio.light.widget.property_columns import COLUMNS, FIELDS
from napari_gpubio.light.widget.property_model import PropertyModel
from napari_gpubio.light.widget.property_rows import NUMBERS

_EDITOR = "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; }"
_WRONG_EDITOR = "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; background: #8a3a34; color: white; }"
_FRAME = QColor("#ff6b5e")
_HEADER = """QHeaderView::section {
    border: none; border-right: 1px solid rgba(128, 128, 128, 60); padding: 2px 3px;
    background: rgba(128, 128, 128, 45);
}"""
_WIDEST = {"label": "Label", "name": "grey matter", "mua_per_mm": "0.0000", "source": "G. Stran…"}  # at least
_NUMBER = "00.00"
_PADDING, _CHIP = 9, 14  # pixels: both sides of a cell, the edge of a colour chip
_LEAST_NAME = 48
_LONGEST, _MOST_MEASURED = 10, 500  # characters of a number, and rows, that a column's width comes from
_MOST_ROWS, _FEWEST_ROWS = 9, 3
_Trigger = QAbstractItemView.EditTrigger


class PropertyView(QTableView):
    """Shows a `PropertyModel`.

    ``typing`` carries what is wrong with what is being typed, ``typed`` says that the editor is gone, ``left_out`` how
    many pasted values lay beyond the table.
    """

    typing = Signal(str)
    typed = Signal()
    left_out = Signal(int)

    def __init__(self, model: PropertyModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.properties = model
        self._widths: dict[str, int] = {}
        self.setModel(model)
        delegate = CellDelegate(model, self)
        delegate.typing.connect(self.typing)
        delegate.closeEditor.connect(self._on_closed)
        self.setItemDelegate(delegate)
        self.setEditTriggers(_Trigger.DoubleClicked | _Trigger.EditKeyPressed | _Trigger.AnyKeyPressed)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
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
        self.setCurrentIndex(self.properties.index(row, column))
        self.scrollTo(self.currentIndex())

    def copy(self) -> None:
        """Put the selected cells on the clipboard."""
        if text := text_of(self.properties, self.selected_cells()):
            QApplication.clipboard().setText(text)

    def paste(self) -> None:
        """Put the clipboard into the cells from the selected ones on."""
        texts, beyond = placed(self.properties, QApplication.clipboard().text(), self.selected_cells())
        self.properties.type_in(texts)
        self.left_out.emit(beyond)

    def clear_cells(self) -> None:
        """Empty the selected cells."""
        self.properties.type_in(dict.fromkeys(self.selected_cells(), ""))

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

    def moveCursor(self, action: Any, modifiers: Any) -> QModelIndex:
        """Qt: where a key leads; Tab goes from one cell that can be edited to the next."""
        steps = {QAbstractItemView.CursorAction.MoveNext: 1, QAbstractItemView.CursorAction.MovePrevious: -1}
        if action not in steps or not self.currentIndex().isValid():
            return super().moveCursor(action, modifiers)
        columns, count = len(COLUMNS), len(COLUMNS) * self.properties.rowCount()
        place = self.currentIndex().row() * columns + self.currentIndex().column() + steps[action]
        while not COLUMNS[place % columns].editable or self.isColumnHidden(place % columns):
            place += steps[action]
        return self.properties.index(place % count // columns, place % columns)

    def sizeHint(self) -> QSize:
        """Qt: tall enough for the rows, up to a few."""
        rows = min(max(self.properties.rowCount(), _FEWEST_ROWS), _MOST_ROWS)
        height = self.horizontalHeader().sizeHint().height() + rows * self.verticalHeader().defaultSectionSize()
        return QSize(super().sizeHint().width(), height + 2 * self.frameWidth())

    def resizeEvent(self, event: Any) -> None:
        """Qt: another width; names and sources share what the numbers leave."""
        super().resizeEvent(event)
        self._share_width()

    def changeEvent(self, event: Any) -> None:
        """Qt: another style; the font may be another."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._measure()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _on_closed(self, *_: Any) -> None:
        self.typed.emit()

    def _action(self, event: Any) -> Any:
        keys = {
            QKeySequence.StandardKey.Copy: self.copy,
            QKeySequence.StandardKey.Paste: self.paste,
            QKeySequence.StandardKey.Undo: self.properties.undo,
            QKeySequence.StandardKey.Delete: self.clear_cells,
        }
        return next((action for key, action in keys.items() if event.matches(key)), None)

    def _set_headers(self) -> None:
        across, down = self.horizontalHeader(), self.verticalHeader()
        across.setStyleSheet(_HEADER)
        across.setHighlightSections(False)
        across.setMinimumSectionSize(24)
        for header in (across, down):
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        down.hide()

    def _measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        metrics, rows = self.fontMetrics(), self.properties.rows[:_MOST_MEASURED]
        for field in FIELDS:
            texts = [_WIDEST.get(field, _NUMBER)]
            if field in (*NUMBERS, "musp_per_mm"):
                texts += [row.short_text(field, self.properties.unit)[:_LONGEST] for row in rows]
            self._widths[field] = max(map(metrics.horizontalAdvance, texts)) + _PADDING
        largest = str(max(self.properties.labels, default=0))
        with_chip = _CHIP + 6 + metrics.horizontalAdvance(largest) + _PADDING
        self._widths["label"] = max(self._widths["label"], with_chip)
        for column, field in enumerate(FIELDS):
            self.horizontalHeader().resizeSection(column, self._widths[field])
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 8)
        self._share_width()
        self.updateGeometry()

    def _share_width(self) -> None:
        """Give the name and the source what is left; where that is too little for a source, the line below says it."""
        spare = self.viewport().width() - sum(self._widths.values())
        source_fits = spare >= 0
        if not source_fits:
            spare += self._widths["source"]
        share = spare // 3 if source_fits else max(spare, _LEAST_NAME - self._widths["name"])
        self.setColumnHidden(FIELDS.index("source"), not source_fits)
        for field, more in (("name", share), ("source", spare - share)):
            self.horizontalHeader().resizeSection(FIELDS.index(field), self._widths[field] + more)


class CellDelegate(QStyledItemDelegate):
    """Draws a frame around what is wrong, and judges a number while it is typed."""

    typing = Signal(str)

    def __init__(self, model: PropertyModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model

    def createEditor(self, parent: QWidget, _option: Any, index: QModelIndex) -> QWidget:
        """Qt: make the editor of a cell."""
        editor = CellEditor(self._model, index, parent)
        editor.judged.connect(self.typing)
        return editor

    def initStyleOption(self, option: Any, index: QModelIndex) -> None:
        """Qt: how a cell looks; a chip keeps its colour in a selected cell."""
        super().initStyleOption(option, index)
        colour = index.data(Qt.ItemDataRole.DecorationRole)
        if colour is not None:
            option.icon = _chip(colour)
            option.decorationSize = QSize(_CHIP, _CHIP)

    def paint(self, painter: QPainter, option: Any, index: QModelIndex) -> None:
        """Qt: draw a cell."""
        super().paint(painter, option, index)
        row, column = index.row(), index.column()
        if self._model.problem(row, column) and not self._model.row(row).is_missing(FIELDS[column]):
            painter.setPen(_FRAME)
            painter.drawRect(QRect(option.rect).adjusted(0, 0, -1, -1))


class CellEditor(QLineEdit):
    """Says at every key what would be wrong with the cell; ``judged`` carries the sentence, empty if nothing is."""

    judged = Signal(str)

    def __init__(self, model: PropertyModel, index: QModelIndex, parent: QWidget) -> None:
        super().__init__(parent)
        self._model, self._row, self._column = model, index.row(), index.column()
        self.setFrame(False)
        self.setAlignment(Qt.AlignmentFlag(index.data(Qt.ItemDataRole.TextAlignmentRole)))
        self.setStyleSheet(_EDITOR)
        self.textEdited.connect(self._judge)

    def _judge(self, text: str) -> None:
        problem = self._model.judge(self._row, self._column, text)
        self.setStyleSheet(_WRONG_EDITOR if problem else _EDITOR)
        self.judged.emit(problem)


def _chip(colour: QColor) -> QIcon:
    pixmap = QPixmap(_CHIP, _CHIP)
    pixmap.fill(colour)
    icon = QIcon()
    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
        icon.addPixmap(pixmap, mode)
    return icon
