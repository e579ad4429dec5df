"""The layer table on screen: moving rows, and the clipboard."""

from collections.abc import Callable, Collection
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QHeaderView, QWidget

from napari_gpubio.gui.tables import CellView, Place
from napari_gpubio.light.gui.layers.layer_columns import COLUMNS, FIELDS
from napari_gpubio.light.gui.layers.layer_model import LayerModel

_PADDING = 10  # pixels on both sides of a cell
_LONGEST = 9  # characters of a number that a column's width comes from
_MOST_ROWS, _FEWEST_ROWS = 12, 1
_Key = Qt.Key


class LayerView(CellView):
    """Shows a `LayerModel`."""

    def __init__(self, model: LayerModel, parent: QWidget | None = None) -> None:
        super().__init__(model, _FEWEST_ROWS, _MOST_ROWS, parent)
        self.layers = model
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._set_headers()
        self.measure()

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

    def action_of(self, event: Any) -> Callable[[], Any] | None:
        """What a key does here, or None; Alt with an arrow moves the row."""
        if event.modifiers() & Qt.KeyboardModifier.AltModifier and event.key() in (_Key.Key_Up, _Key.Key_Down):
            return lambda: self.move_rows(-1 if event.key() == _Key.Key_Up else 1)
        return super().action_of(event)

    def measure(self) -> None:
        """Give rows and columns the size that their text needs; names take what is left."""
        metrics, unit = self.fontMetrics(), self.layers.unit
        for column, about in enumerate(COLUMNS[1:], start=1):
            texts = [about.widest] + [row.short_text(about.field, unit)[:_LONGEST] for row in self.layers.rows]
            self.horizontalHeader().resizeSection(column, max(map(metrics.horizontalAdvance, texts)) + _PADDING)
        self.verticalHeader().setDefaultSectionSize(metrics.height() + 8)
        self.verticalHeader().setFixedWidth(metrics.horizontalAdvance("000") + 4)
        self.updateGeometry()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _set_headers(self) -> None:
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        down = self.verticalHeader()
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
