"""The tables of labels and of layers on screen: clipboard, Tab order, dragged rows, and column widths."""

from collections.abc import Callable, Collection
from typing import Any

from qtpy.QtCore import QModelIndex, Qt, Signal
from qtpy.QtWidgets import QAbstractItemView, QApplication, QHeaderView, QWidget

from napari_gpubio.gui.tables import CHIP_PIXELS, CellView, Place
from napari_gpubio.light.gui.layer_model import LayerModel
from napari_gpubio.light.gui.property_model import FIELDS, OpticalModel, PropertyModel
from napari_gpubio.light.gui.table_rows import NUMBERS

_PADDING = 9  # pixels on both sides of a cell
_LEAST_NAME = 48
_LONGEST, _MOST_MEASURED = 10, 500  # characters of a number, and rows, that a column's width comes from
_MOST_ROWS, _FEWEST_ROWS = 9, 3
_MOST_LAYERS, _FEWEST_LAYERS = 12, 1
_Key = Qt.Key


def text_of(model: OpticalModel, cells: Collection[Place]) -> str:
    """Return the smallest block that holds the cells, with all digits, in the unit that is shown."""
    if not cells:
        return ""
    lines = [[_text(model, (row, column), cells) for column in _span(cells, 1)] for row in _span(cells, 0)]
    return "\n".join("\t".join(line) for line in lines) + "\n"


def placed(
    model: OpticalModel, text: str, cells: Collection[Place], *, grows: bool = False
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


def _text(model: OpticalModel, cell: Place, cells: Collection[Place]) -> str:
    if cell not in cells:
        return ""
    return " ".join(str(model.data(model.index(*cell), Qt.ItemDataRole.EditRole)).split())


class OpticalView(CellView):
    """Shows an `OpticalModel`; ``left_out`` carries how many pasted values lay beyond the table."""

    grows = False  # whether pasting adds rows
    left_out = Signal(int)

    def __init__(self, model: OpticalModel, fewest_rows: int, most_rows: int, parent: QWidget | None = None) -> None:
        super().__init__(model, fewest_rows, most_rows, parent)
        self.properties = model
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)

    def copy(self) -> None:
        """Put the selected cells on the clipboard."""
        if text := text_of(self.properties, self.selected_cells()):
            QApplication.clipboard().setText(text)

    def paste(self) -> None:
        """Put the clipboard into the cells from the selected ones on."""
        cells = self.selected_cells() or ([(0, 0)] if self.grows else [])
        texts, beyond = placed(self.properties, QApplication.clipboard().text(), cells, grows=self.grows)
        self.properties.type_in(texts)
        self.left_out.emit(beyond)


class PropertyView(OpticalView):
    """Shows a `PropertyModel`."""

    def __init__(self, model: PropertyModel, parent: QWidget | None = None) -> None:
        super().__init__(model, _FEWEST_ROWS, _MOST_ROWS, parent)
        self.labels = model
        self._widths: dict[str, int] = {}
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.measure()

    def moveCursor(self, action: Any, modifiers: Any) -> QModelIndex:
        """Qt: where a key leads; Tab goes from one cell that can be edited to the next."""
        steps = {QAbstractItemView.CursorAction.MoveNext: 1, QAbstractItemView.CursorAction.MovePrevious: -1}
        if action not in steps or not self.currentIndex().isValid():
            return super().moveCursor(action, modifiers)
        columns = self.labels.columns
        width, count = len(columns), len(columns) * self.labels.rowCount()
        place = self.currentIndex().row() * width + self.currentIndex().column() + steps[action]
        while not columns[place % width].editable or self.isColumnHidden(place % width):
            place += steps[action]
        return self.labels.index(place % count // width, place % width)

    def resizeEvent(self, event: Any) -> None:
        """Qt: another width; names and sources share what the numbers leave."""
        super().resizeEvent(event)
        self._share_width()

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        metrics, rows = self.fontMetrics(), self.labels.rows[:_MOST_MEASURED]
        for column in self.labels.columns:
            field, texts = column.field, [column.widest]
            if field in (*NUMBERS, "musp_per_mm"):
                texts += [row.short_text(field, self.labels.unit)[:_LONGEST] for row in rows]
            self._widths[field] = max(map(metrics.horizontalAdvance, texts)) + _PADDING
        largest = str(max(self.labels.labels, default=0))
        with_chip = CHIP_PIXELS + 6 + metrics.horizontalAdvance(largest) + _PADDING
        self._widths["label"] = max(self._widths["label"], with_chip)
        for number, field in enumerate(FIELDS):
            self.horizontalHeader().resizeSection(number, self._widths[field])
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 8)
        self._share_width()
        self.updateGeometry()

    def _share_width(self) -> None:
        """Give the name and the source what is left; where that is too little for a source, the line below has it."""
        spare = self.viewport().width() - sum(self._widths.values())
        source_fits = spare >= 0
        if not source_fits:
            spare += self._widths["source"]
        share = spare // 3 if source_fits else max(spare, _LEAST_NAME - self._widths["name"])
        self.setColumnHidden(FIELDS.index("source"), not source_fits)
        for field, more in (("name", share), ("source", spare - share)):
            self.horizontalHeader().resizeSection(FIELDS.index(field), self._widths[field] + more)


class LayerView(OpticalView):
    """Shows a `LayerModel`; rows can be dragged by their numbers."""

    grows = True

    def __init__(self, model: LayerModel, parent: QWidget | None = None) -> None:
        super().__init__(model, _FEWEST_LAYERS, _MOST_LAYERS, parent)
        self.layers = model
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        down = self.verticalHeader()
        down.setDefaultAlignment(Qt.AlignmentFlag.AlignCenter)
        down.setSectionsMovable(True)
        down.sectionMoved.connect(self._on_dragged)
        self.measure()

    def move_rows(self, step: int) -> None:
        """Move the current row up (-1) or down (1); it stays the current one."""
        index = self.currentIndex()
        if index.isValid() and 0 <= index.row() + step < self.layers.rowCount():
            self.layers.move(index.row(), index.row() + step)
            self.go_to(index.row() + step, index.column())

    def action_of(self, event: Any) -> Callable[[], Any] | None:
        """What a key does here, or None; Alt with an arrow moves the row."""
        if event.modifiers() & Qt.KeyboardModifier.AltModifier and event.key() in (_Key.Key_Up, _Key.Key_Down):
            return lambda: self.move_rows(-1 if event.key() == _Key.Key_Up else 1)
        return super().action_of(event)

    def measure(self) -> None:
        """Give rows and columns the size that their text needs; names take what is left."""
        metrics, unit = self.fontMetrics(), self.layers.unit
        for number, column in enumerate(self.layers.columns[1:], start=1):
            texts = [column.widest] + [row.short_text(column.field, unit)[:_LONGEST] for row in self.layers.rows]
            self.horizontalHeader().resizeSection(number, max(map(metrics.horizontalAdvance, texts)) + _PADDING)
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 8)
        self.verticalHeader().setFixedWidth(metrics.horizontalAdvance("000") + 4)
        self.updateGeometry()

    def _on_dragged(self, _section: int, start: int, end: int) -> None:
        """A row's number was dragged: move the layer, and leave the header as it was."""
        header = self.verticalHeader()
        was = header.blockSignals(True)
        header.moveSection(end, start)
        header.blockSignals(was)
        self.layers.move(start, end)
        self.go_to(end)
