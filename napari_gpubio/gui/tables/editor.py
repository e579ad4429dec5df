"""How a cell looks, and the editor that says while one types whether a text will do."""

from typing import Any

from qtpy.QtCore import QModelIndex, QRect, QSize, Qt, Signal
from qtpy.QtGui import QColor, QIcon, QPainter, QPixmap
from qtpy.QtWidgets import QLineEdit, QStyledItemDelegate, QWidget

from napari_gpubio.gui.tables.model import CellModel

CHIP_PIXELS = 14  # the edge of a color chip
_EDITOR = "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; }"
_WRONG_EDITOR = "QLineEdit { padding: 0 2px; min-height: 0; border-radius: 0; background: #8a3a34; color: white; }"
_FRAME = QColor("#ff6b5e")


class CellDelegate(QStyledItemDelegate):
    """Draws a frame around what is wrong, and judges a text while it is typed; ``typing`` carries the sentence."""

    typing = Signal(str)

    def __init__(self, model: CellModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model

    def createEditor(self, parent: QWidget, _option: Any, index: QModelIndex) -> QWidget:
        """Qt: make the editor of a cell."""
        editor = CellEditor(self._model, index, parent)
        editor.judged.connect(self.typing)
        return editor

    def initStyleOption(self, option: Any, index: QModelIndex) -> None:
        """Qt: how a cell looks; a chip keeps its color in a selected cell."""
        super().initStyleOption(option, index)
        color = index.data(Qt.ItemDataRole.DecorationRole)
        if color is not None:
            option.icon = _chip(color)
            option.decorationSize = QSize(CHIP_PIXELS, CHIP_PIXELS)

    def paint(self, painter: QPainter, option: Any, index: QModelIndex) -> None:
        """Qt: draw a cell."""
        super().paint(painter, option, index)
        row, column = index.row(), index.column()
        if self._model.problem(row, column) and not self._model.is_missing(row, column):
            painter.setPen(_FRAME)
            painter.drawRect(QRect(option.rect).adjusted(0, 0, -1, -1))


class CellEditor(QLineEdit):
    """Says at every key what would be wrong with the cell; ``judged`` carries the sentence, empty if nothing is."""

    judged = Signal(str)

    def __init__(self, model: CellModel, index: QModelIndex, parent: QWidget) -> None:
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


def _chip(color: QColor) -> QIcon:
    pixmap = QPixmap(CHIP_PIXELS, CHIP_PIXELS)
    pixmap.fill(color)
    icon = QIcon()
    for mode in (QIcon.Mode.Normal, QIcon.Mode.Selected):
        icon.addPixmap(pixmap, mode)
    return icon
