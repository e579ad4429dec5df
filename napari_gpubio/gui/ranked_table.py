"""A table of results, one row for each, that is sorted by any of its numbers and in which one row can be picked."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtGui import QIcon
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QTableWidgetItem, QWidget

from napari_gpubio.core.numbers import short_number
from napari_gpubio.gui.number_table import CopyingTable
from napari_gpubio.gui.tables import color_chip


class RankedTable(CopyingTable):
    """Shows rows of numbers and texts under the columns that a subclass declares; clicking on a title sorts by it.

    ``row_picked`` carries the index of a row in the order in which rows were given, or -1 if none is picked.
    """

    row_picked = Signal(int)
    unscrolled = 12  # rows that are seen at least, if there are as many
    is_as_high_as_rows = False  # and no higher

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.itemSelectionChanged.connect(lambda: self.row_picked.emit(self.picked))

    @property
    def picked(self) -> int:
        """Index of the picked row in the order in which rows were given, or -1."""
        chosen = self.selectedItems()
        return int(self.item(chosen[0].row(), 0).data(Qt.ItemDataRole.UserRole)) if chosen else -1

    def pick(self, index: int) -> None:
        """Pick a row by its index in the order in which rows were given; -1: none. ``row_picked`` is not emitted."""
        with QSignalBlocker(self):
            self.clearSelection()
            for row in range(self.rowCount()):
                if self.item(row, 0).data(Qt.ItemDataRole.UserRole) == index:
                    self.selectRow(row)
                    self.scrollToItem(self.item(row, 0))

    def show_rows(self, rows: Iterable[Mapping[str, float | str]], colors: Sequence[Any] = ()) -> None:
        """Show these rows, sorted as before; ``colors``: of a chip before the first cell of each row."""
        self.setSortingEnabled(False)
        with QSignalBlocker(self):
            self.setRowCount(0)
            for index, row in enumerate(rows):
                self.insertRow(index)
                for place, column in enumerate(self.columns):
                    self.setItem(index, place, _Cell(row[column.field]))
                first = self.item(index, 0)
                first.setData(Qt.ItemDataRole.UserRole, index)
                first.setIcon(color_chip(colors[index]) if index < len(colors) else QIcon())
        self.setSortingEnabled(True)
        lines = min(self.rowCount(), self.unscrolled)
        edge = self.horizontalHeader().sizeHint().height() + 2 * self.frameWidth()
        height = edge + lines * self.verticalHeader().defaultSectionSize()
        if self.is_as_high_as_rows:
            self.setFixedHeight(height + self.horizontalScrollBar().sizeHint().height())
        else:
            self.setMinimumHeight(height)


class _Cell(QTableWidgetItem):
    """A text, or a number that is sorted by its value; no number is less than any."""

    def __init__(self, value: float | str) -> None:
        super().__init__(_text(value))
        self._order: Any = value
        if not isinstance(value, str):
            self._order = -math.inf if math.isnan(value) else float(value)
            self.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)

    def __lt__(self, other: Any) -> bool:
        return bool(self._order < other._order)


def _text(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else short_number(float(value))
