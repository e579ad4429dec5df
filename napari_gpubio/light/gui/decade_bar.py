"""The legend of the picture: its colors and the powers of ten that they stand for, with the unit."""

import math
from typing import Any

import numpy as np
from qtpy.QtCore import QRectF, Qt
from qtpy.QtGui import QColor, QImage, QPainter, QPalette
from qtpy.QtWidgets import QSizePolicy, QWidget

_BAR, _GAP, _MARGIN = 12, 3, 16  # pixels
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_STEPS = 256


class DecadeBar(QWidget):
    """Follows the colors and limits of the layer it speaks of."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layer: Any | None = None
        self._unit = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(_BAR + 2 * _GAP + 2 * self.fontMetrics().height())
        self.hide()

    def show_layer(self, layer: Any | None, unit: str) -> None:
        """Speak of a layer of logarithms (or of none) from now on."""
        self._unit = unit
        if layer is not self._layer:
            self.let_go()
            self._layer = layer
            for event in self._events():
                event.connect(self._on_event)
        self.setVisible(layer is not None)
        self.update()

    def let_go(self) -> None:
        """Hear no more of the layer."""
        for event in self._events():
            event.disconnect(self._on_event)
        self._layer = None

    @property
    def texts(self) -> list[str]:
        """What stands below the bar: powers of ten."""
        return [text for _, text in self._ticks()]

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw it."""
        if self._layer is None:
            return
        painter = QPainter(self)
        bar = QRectF(_MARGIN, 0, self.width() - 2 * _MARGIN, _BAR)
        painter.drawImage(bar, self._colors())
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        line = self.fontMetrics().height()
        for place, text in self._ticks():
            x = bar.left() + place * bar.width()
            painter.drawLine(int(x), _BAR, int(x), _BAR + 2)
            painter.drawText(QRectF(x - 40, _BAR + _GAP, 80, line), Qt.AlignmentFlag.AlignHCenter, text)
        painter.setPen(QColor("#9a9da5"))
        below = QRectF(0, _BAR + _GAP + line, self.width(), line)
        painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, self._unit)
        painter.end()

    def _events(self) -> list[Any]:
        return [] if self._layer is None else [self._layer.events.colormap, self._layer.events.contrast_limits]

    def _on_event(self, *_: Any) -> None:
        self.update()

    def _colors(self) -> QImage:
        rgba = (np.atleast_2d(self._layer.colormap.map(np.linspace(0, 1, _STEPS))) * 255).astype(np.uint8)
        return QImage(rgba.tobytes(), _STEPS, 1, 4 * _STEPS, QImage.Format.Format_RGBA8888).copy()

    def _ticks(self) -> list[tuple[float, str]]:
        """Places (0 to 1) and texts of the whole decades, at most eight of them."""
        if self._layer is None:
            return []
        low, high = (float(limit) for limit in self._layer.contrast_limits)
        decades = range(math.ceil(low - 1e-6), math.floor(high + 1e-6) + 1)
        every = -(-len(decades) // 8)
        return [((n - low) / (high - low), "10" + str(n).translate(_SUPERSCRIPT)) for n in decades[::-1][::every]]
