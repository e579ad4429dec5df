"""Numbers in a table of a panel: their rows, and how they are copied."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QBrush, QColor, QIcon, QKeySequence
from qtpy.QtWidgets import (
    QApplication,
    QHeaderView,
    QMenu,
    QSizePolicy,
    QTableWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from napari_gpubio.core.text import delimited
from napari_gpubio.gui import theme
from napari_gpubio.gui.forms import lay_out_around, tip_of
from napari_gpubio.gui.tables import color_chip
from napari_gpubio.gui.typed_rows import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One row of a table of numbers.

    Parameters
    ----------
    group
        The heading above it.
    name, text, unit
        In the three columns.
    note
        Shown while the mouse is over the row.
    status
        "ok", "warning" or "error".
    color
        Of a chip before the name, as Qt or as red, green, blue 0 to 1; or None.
    """

    group: str
    name: str
    text: str
    unit: str = ""
    note: str = ""
    status: str = "ok"
    color: Any = None


_LINE_GAP = 2  # pixels between the lines
_MAX_PIXELS = 900  # a longer table scrolls by itself
_NAME, _VALUE, _UNIT = range(3)
_NAMES_SHARE = 0.5  # of the width, which values and units leave to names that need it


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def bare(text: str) -> str:
    """Return numbers without commas between thousands, which are decimal marks to spreadsheets of some languages."""
    return _THOUSANDS.sub("", text)


class CopyingView:
    """The part of a table for reading that puts its text on the clipboard: by Ctrl+C, and by a menu."""

    def copied_text(self) -> str:
        """Return lines with tabs, which a spreadsheet takes."""
        raise NotImplementedError

    def copy(self) -> None:
        """Put the text on the clipboard."""
        QApplication.clipboard().setText(self.copied_text())

    def keyPressEvent(self, event: Any) -> None:
        """Qt: a key."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)  # type: ignore[misc] # of the Qt class that stands beside this one

    def contextMenuEvent(self, event: Any) -> None:
        """Qt: the right mouse button."""
        menu = QMenu(self)
        menu.addAction("Copy", self.copy)
        menu.exec(event.globalPos())


class CopyingTable(CopyingView, QTableWidget):
    """A table of texts to read; copied are its titles, and the selected rows, or all rows if none is selected.

    A subclass declares its ``columns``, where they are always the same ones, and whether several rows can be selected.
    """

    columns: ClassVar[tuple[Column, ...]] = ()
    selects_many = False

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.verticalHeader().hide()
        self.setSelectionBehavior(self.SelectionBehavior.SelectRows)
        self.setSelectionMode(
            self.SelectionMode.ExtendedSelection if self.selects_many else self.SelectionMode.SingleSelection
        )
        self.setColumnCount(len(self.columns))
        self.setHorizontalHeaderLabels([column.title for column in self.columns])
        for place, column in enumerate(self.columns):
            self.horizontalHeaderItem(place).setToolTip(column.help)

    def copied_titles(self) -> list[str]:
        """Return the titles that are copied."""
        return [self.horizontalHeaderItem(column).text() for column in range(self.columnCount())]

    def copied_text(self) -> str:
        """Return titles and rows as lines with tabs, which a spreadsheet takes."""
        columns = range(self.columnCount())
        rows = sorted({index.row() for index in self.selectedIndexes()}) or range(self.rowCount())
        lines = [[" ".join(title.split()) for title in self.copied_titles()]]
        lines += [[self.item(row, 0).text(), *(bare(self.item(row, n).text()) for n in columns[1:])] for row in rows]
        return delimited(lines, "\t").removesuffix("\n")


class NumberTable(CopyingView, QTreeWidget):
    """Shows rows of numbers; while only the numbers change, what is folded or selected stays so."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Number, ...] = ()
        self._items: list[QTreeWidgetItem] = []
        self._is_sizing = False
        self.setColumnCount(3)
        self.setHeaderHidden(True)
        self.setIndentation(14)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QTreeWidget.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QTreeWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._size_rows()
        self.setToolTip("Ctrl+C copies the selected rows, or all rows if none is selected")
        self.header().setMinimumSectionSize(20)
        self.header().setStretchLastSection(False)
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.itemExpanded.connect(self._fit)
        self.itemCollapsed.connect(self._fit)

    def show_rows(self, rows: Iterable[Number]) -> None:
        """Show these rows; their groups become headings, in the order in which they come."""
        rows = tuple(rows)
        if [(row.group, row.name) for row in rows] != [(row.group, row.name) for row in self.rows]:
            self._build(rows)
        self.rows = rows
        for item, row in zip(self._items, rows, strict=True):
            _fill(item, row)
        self._fit()
        self._share_width()

    def changeEvent(self, event: Any) -> None:
        """Qt: another style; the font may be another."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._size_rows()

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        self._share_width()

    def recolor(self, _swap: Mapping[str, str]) -> None:
        """Take the colors of another theme."""
        self.show_rows(self.rows)

    def copied_text(self) -> str:
        """Return the selected rows, or all, as lines with tabs, which a spreadsheet takes."""
        chosen = [row for item, row in zip(self._items, self.rows, strict=True) if item.isSelected()]
        lines = [(row.group, row.name, bare(row.text), row.unit) for row in chosen or self.rows]
        return delimited(lines, "\t").removesuffix("\n")

    def _build(self, rows: Sequence[Number]) -> None:
        folded = {item.text(_NAME) for item in self._headings() if not item.isExpanded()}
        self.clear()
        self._items = []
        headings: dict[str, QTreeWidgetItem] = {}
        for row in rows:
            if row.group not in headings:
                headings[row.group] = self._heading(row.group, is_folded=row.group in folded)
            self._items.append(QTreeWidgetItem(headings[row.group]))

    def _heading(self, title: str, *, is_folded: bool) -> QTreeWidgetItem:
        item = QTreeWidgetItem(self, [title])
        font = item.font(_NAME)
        font.setBold(True)
        item.setFont(_NAME, font)
        item.setFlags(Qt.ItemFlag.ItemIsEnabled)
        item.setFirstColumnSpanned(True)
        item.setExpanded(not is_folded)
        return item

    def _headings(self) -> list[QTreeWidgetItem]:
        return [self.topLevelItem(index) for index in range(self.topLevelItemCount())]

    def _share_width(self) -> None:
        """Give units and values the width that they need, and names the rest, or what they need up to a half."""
        width, (name, value, unit) = self.viewport().width(), (self.sizeHintForColumn(n) for n in range(3))
        name = max(width - value - unit, min(name, round(_NAMES_SHARE * width)))
        unit = min(unit, max(width - name - value, round((width - name) / 3)))
        for column, size in ((_NAME, name), (_VALUE, width - name - unit), (_UNIT, unit)):
            self.header().resizeSection(column, size)

    def _size_rows(self) -> None:
        rows = f"QTreeView::item {{ height: {self.fontMetrics().height() + _LINE_GAP}px; }}"
        if rows != self.styleSheet() and not self._is_sizing:  # a new style sheet is a change of the font, too
            self._is_sizing = True
            self.setStyleSheet(rows)
            self._is_sizing = False
            self._fit()

    def _fit(self, *_: Any) -> None:
        """Be as high as what is unfolded."""
        headings = self._headings()
        lines = len(headings) + sum(heading.childCount() for heading in headings if heading.isExpanded())
        line = self.sizeHintForRow(0) if headings else 0
        height = min(lines * line + 2 * self.frameWidth() + 2, _MAX_PIXELS)
        before = self.height()
        self.setFixedHeight(height)
        if height != before:
            lay_out_around(self)  # else it covers what is below until the event loop has come round to all of them


def _fill(item: QTreeWidgetItem, row: Number) -> None:
    for column, text in ((_NAME, row.name), (_VALUE, row.text), (_UNIT, row.unit)):
        item.setText(column, text)
    item.setTextAlignment(_VALUE, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    brush = QBrush() if row.status == "ok" else QBrush(QColor(theme.STATUS_COLORS[row.status]))
    for column in (_NAME, _VALUE):
        item.setForeground(column, brush)
        item.setToolTip(column, tip_of(row.note or f"{row.name}: {row.text} {row.unit}".strip()))
    item.setIcon(_NAME, QIcon() if row.color is None else color_chip(row.color))
