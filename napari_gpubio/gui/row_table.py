"""A table of texts to read, as high as its rows."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtGui import QBrush, QColor, QIcon
from qtpy.QtWidgets import QFrame, QTableView, QTableWidget, QTableWidgetItem, QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import Label, tip_of
from napari_gpubio.gui.number_table import CopyingTable
from napari_gpubio.gui.tables import aligned, color_chip

_ROW = 22  # height in pixels
_MIN_NAME = 60  # pixels of the first column, with the square of its color
_FIXED = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable


class Cell(NamedTuple):
    """What one cell shows."""

    text: str
    tip: str = ""
    color: str = ""  # of the text
    chip: str = ""  # color of a square before the text
    is_editable: bool = False


class _Item(QTableWidgetItem):
    cell = Cell("")


class RowTable(CopyingTable):
    """A table as high as its rows, up to ``most_rows``; its first column takes the width that the others leave.

    The first column holds names, which are elided before numbers are cut, and stays in sight while the others scroll.
    """

    most_rows = 8  # that are visible without scrolling

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._copied_titles: Sequence[str] = ()
        self._text_lengths: tuple[int, ...] = ()  # of each column
        self.verticalHeader().setDefaultSectionSize(_ROW)
        self.setWordWrap(False)
        self.setVerticalScrollMode(QTableWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QTableWidget.ScrollMode.ScrollPerPixel)
        self.names = _Names(self)

    def copied_titles(self) -> list[str]:
        """Return the titles that are copied."""
        return list(self._copied_titles)

    def set_rows(
        self, rows: Sequence[Sequence[Cell]], titles: Sequence[str] = (), copied_titles: Sequence[str] = ()
    ) -> None:
        """Show these rows, without a signal, below titles other than the columns' if so; and which titles are copied.

        Columns are fitted where texts have other lengths: that takes longer than all else in a table of the same size.
        """
        titles = titles or [column.title for column in self.columns]
        self._copied_titles = copied_titles or titles
        with QSignalBlocker(self):
            self.setColumnCount(len(titles))
            self.setHorizontalHeaderLabels(list(titles))
            self.setRowCount(len(rows))
            for row, cells in enumerate(rows):
                for column, cell in enumerate(cells):
                    self._write_cell(row, column, cell)
        columns = zip(titles, *([cell.text for cell in cells] for cells in rows), strict=True)
        lengths = tuple(max(map(len, texts)) for texts in columns)
        if lengths != self._text_lengths:
            self._text_lengths = lengths
            self.resizeColumnsToContents()
        self._fit_height()

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.resizeColumnsToContents()
            self._fit_height()

    def recolor(self, swap: Mapping[str, str]) -> None:
        """Take the colors of another theme."""
        for place in itertools.product(range(self.rowCount()), range(self.columnCount())):
            item = self.item(*place)
            if isinstance(item, _Item) and item.cell.color in swap:
                self._write_cell(*place, item.cell._replace(color=swap[item.cell.color]))

    def _write_cell(self, row: int, column: int, cell: Cell) -> None:
        """Write what has changed: Qt takes its time also where nothing does."""
        item = self.item(row, column)
        if item is None:
            item = _Item()
            self.setItem(row, column, item)
        if item.cell != cell or item.text() != cell.text:  # which may have been typed over
            item.cell = cell
            item.setText(cell.text)
            item.setToolTip(tip_of(cell.tip if column else f"{cell.text}\n{cell.tip}".strip()))
            item.setTextAlignment(aligned(left=column == 0 or cell.color != ""))  # colored cells hold words
            item.setForeground(QColor(cell.color) if cell.color else QBrush())
            item.setIcon(color_chip(cell.chip) if cell.chip else QIcon())
            item.setFlags(_FIXED | Qt.ItemFlag.ItemIsEditable if cell.is_editable else _FIXED)

    def _fit_height(self) -> None:
        """Take the height of the rows, and give the first column the width that the others leave."""
        header, scroll_bar = self.horizontalHeader(), self.horizontalScrollBar().sizeHint().height()
        if self.columnCount():
            wanted = self.columnWidth(0) + self.viewport().width() - header.length()
            least = max(header.sectionSizeHint(0), _MIN_NAME)
            self.setColumnWidth(0, max(wanted, min(self.columnWidth(0), least)))
        spare = self.viewport().width() - header.length()
        rows = min(max(self.rowCount(), 1), self.most_rows)
        height = header.sizeHint().height() + rows * _ROW + 2 * self.frameWidth() + (scroll_bar if spare < 0 else 0)
        if self.height() != height:
            self.setFixedHeight(height)
        self.names.fit()


class _Names(QTableView):
    """The first column of a table once more, in front of it where the table is scrolled sideways."""

    def __init__(self, table: RowTable) -> None:
        super().__init__(table)
        self._table = table
        self.setModel(table.model())
        self.setSelectionModel(table.selectionModel())
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW)
        self.setWordWrap(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        for bar in (self.setHorizontalScrollBarPolicy, self.setVerticalScrollBarPolicy):
            bar(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        connect_all(
            [
                (table.verticalScrollBar().valueChanged, self.verticalScrollBar().setValue),
                (table.horizontalScrollBar().valueChanged, lambda _: self.fit()),
                (table.horizontalScrollBar().rangeChanged, lambda *_: self.fit()),
            ]
        )
        self.hide()

    def fit(self) -> None:
        """Lie on the first column, where that is not in its place."""
        table, header = self._table, self._table.horizontalHeader()
        for column in range(table.columnCount()):
            self.setColumnHidden(column, column > 0)
        width = min(table.columnWidth(0), table.viewport().width() * 2 // 3)  # longer names are elided
        self.setColumnWidth(0, width)
        self.horizontalHeader().setFixedHeight(header.height())
        frame = table.frameWidth()
        self.setGeometry(frame, frame, width, header.height() + table.viewport().height())
        self.setVisible(table.horizontalScrollBar().value() > 0)


class ProblemLabel(Label):
    """What is wrong with a text that was typed; hidden while nothing is."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setStyleSheet(theme.text_style(theme.ERROR))
        self.hide()

    def show_problem(self, sentence: str) -> None:
        """Show a sentence, or nothing."""
        self.setText(sentence[:1].upper() + sentence[1:])
        self.setVisible(bool(sentence))
