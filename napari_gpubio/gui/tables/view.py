"""The table on screen: keys, cells that are selected, and its size."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QEvent, QSize, Qt, Signal
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QSizePolicy, QTableView, QWidget

from napari_gpubio.gui.tables.editor import CellDelegate
from napari_gpubio.gui.tables.model import CellModel, Place

_HEADERS = """QHeaderView::section {
    border: none; border-right: 1px solid rgba(128, 128, 128, 60); padding: 2px 3px;
    background: rgba(128, 128, 128, 45);
}"""
_Trigger = QAbstractItemView.EditTrigger


class CellView(QTableView):
    """Shows a `CellModel`.

    A subclass implements `copy`, `paste` and `measure`, and calls `measure` when it is made. ``typing`` carries what is
    wrong with what is being typed, ``typed`` says that the editor is gone.

    Parameters
    ----------
    model
        The cells.
    fewest_rows, most_rows
        For how many rows there is room; more are scrolled.
    """

    typing = Signal(str)
    typed = Signal()

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
        model.judged.connect(self.measure)

    # -- what a subclass gives ------------------------------------------------------------------------------------

    def copy(self) -> None:
        """Put the selected cells on the clipboard."""
        raise NotImplementedError

    def paste(self) -> None:
        """Put the clipboard into the cells from the selected ones on."""
        raise NotImplementedError

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        raise NotImplementedError

    # -- cells ----------------------------------------------------------------------------------------------------

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
