"""A color bar with its unit, as wide as the panel."""

from typing import Any

import numpy as np
from qtpy.QtCore import QRectF, Qt
from qtpy.QtGui import QColor, QImage, QPainter
from qtpy.QtWidgets import QWidget

from napari_gpubio.speckle.gui.words import limit_text

_BAR, _GAP = 14, 3  # pixels


class ColorBar(QWidget):
    """Draws the colors of a layer between its limits."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colors: Any = None
        self._limits = (0.0, 1.0)
        self._title = ""
        self.setFixedHeight(_BAR + 2 * _GAP + self.fontMetrics().height())

    def show_layer(self, layer: Any, title: str) -> None:
        """Show the colors of an image layer, or nothing if it is None."""
        self._title = title
        if layer is None:
            self._colors = None
        else:
            self._colors = np.ascontiguousarray(255 * layer.colormap.map(np.linspace(0, 1, 256)), np.uint8)
            self._limits = tuple(float(limit) for limit in layer.contrast_limits)
        self.setVisible(layer is not None)
        self.update()

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw."""
        if self._colors is None:
            return
        painter = QPainter(self)
        image = QImage(self._colors.tobytes(), 256, 1, 1024, QImage.Format.Format_RGBA8888)
        painter.drawImage(QRectF(0, _GAP, self.width(), _BAR), image)
        painter.setPen(QColor("#d0d0d0"))
        below = QRectF(0, _BAR + _GAP, self.width(), self.height() - _BAR - _GAP)
        low, high = self._limits
        sides = (Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignHCenter, Qt.AlignmentFlag.AlignRight)
        for side, text in zip(sides, (limit_text(low), self._title, limit_text(high)), strict=True):
            painter.drawText(below, int(side | Qt.AlignmentFlag.AlignVCenter), text)
        painter.end()
