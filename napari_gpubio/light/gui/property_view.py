"""The table of optical properties on screen: the clipboard, the way of Tab, and how columns share the width."""

from typing import Any

from qtpy.QtCore import QModelIndex, Qt, Signal
from qtpy.QtWidgets import QAbstractItemView, QApplication, QWidget

from napari_gpubio.gui.tables import CHIP_PIXELS, CellView
from napari_gpubio.light.gui.property_clipboard import placed, text_of
from napari_gpubio.light.gui.property_columns import COLUMNS, FIELDS
from napari_gpubio.light.gui.property_model import PropertyModel
from napari_gpubio.light.gui.property_rows import NUMBERS

_PADDING = 9  # pixels on both sides of a cell
_LEAST_NAME = 48
_LONGEST, _MOST_MEASURED = 10, 500  # characters of a number, and rows, that a column's width comes from
_MOST_ROWS, _FEWEST_ROWS = 9, 3


class PropertyView(CellView):
    """Shows a `PropertyModel`; ``left_out`` carries how many pasted values lay beyond the table."""

    left_out = Signal(int)

    def __init__(self, model: PropertyModel, parent: QWidget | None = None) -> None:
        super().__init__(model, _FEWEST_ROWS, _MOST_ROWS, parent)
        self.properties = model
        self._widths: dict[str, int] = {}
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.measure()

    def copy(self) -> None:
        """Put the selected cells on the clipboard."""
        if text := text_of(self.properties, self.selected_cells()):
            QApplication.clipboard().setText(text)

    def paste(self) -> None:
        """Put the clipboard into the cells from the selected ones on."""
        texts, beyond = placed(self.properties, QApplication.clipboard().text(), self.selected_cells())
        self.properties.type_in(texts)
        self.left_out.emit(beyond)

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

    def resizeEvent(self, event: Any) -> None:
        """Qt: another width; names and sources share what the numbers leave."""
        super().resizeEvent(event)
        self._share_width()

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        metrics, rows = self.fontMetrics(), self.properties.rows[:_MOST_MEASURED]
        for column in COLUMNS:
            field, texts = column.field, [column.widest]
            if field in (*NUMBERS, "musp_per_mm"):
                texts += [row.short_text(field, self.properties.unit)[:_LONGEST] for row in rows]
            self._widths[field] = max(map(metrics.horizontalAdvance, texts)) + _PADDING
        largest = str(max(self.properties.labels, default=0))
        with_chip = CHIP_PIXELS + 6 + metrics.horizontalAdvance(largest) + _PADDING
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
