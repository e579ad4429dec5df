"""A small drawing of the layers, thick ones compressed, with the beam and the end of the grid."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from qtpy.QtCore import QPointF, QRectF, Qt, Signal
from qtpy.QtGui import QColor, QFont, QLinearGradient, QPainter, QPen, QPolygonF
from qtpy.QtWidgets import QSizePolicy, QWidget

from napari_gpubio.gui import theme
from napari_gpubio.light.gui.optical_rows import LayerRow
from napari_gpubio.light.layers.napari_io import layer_colors

_SIDE, _LETTERS = 4, 11  # pixels
_ROW, _FEWEST, _MOST = 19, 2, 14  # height that a layer adds, and of how many at least and at most
_AMBIENT = 18  # height of what is above and below
_POWER = 0.4  # a layer a hundred times as thick is drawn about six times as high
_BEAM, _GRID = QColor(theme.SOURCE), QColor(theme.NOTE)
_SOFT = 175  # opacity of a layer


class StackDrawing(QWidget):
    """Draws rows of the layer table; ``clicked`` carries the layer under the mouse."""

    clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: Sequence[LayerRow] = ()
        self._colors: Sequence[str] = ()
        self._n = (1.0, 1.0)
        self._current: int | None = None
        self._grid_mm: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(
            "The layers from the top, with heights that grow as the thickness to the power of 0.4. The dashed line is "
            "where the grid ends. Click a layer to go to its row"
        )

    def show_stack(self, rows: Sequence[LayerRow], n_above: float, n_below: float, current: int | None) -> None:
        """Draw other layers, with a frame around the current one."""
        self._rows, self._n, self._current = rows, (n_above, n_below), current
        self._colors = layer_colors([row.name for row in rows])
        self.setVisible(bool(rows))
        self.setFixedHeight(2 * _AMBIENT + _ROW * min(max(len(rows), _FEWEST), _MOST))
        self.update()

    def show_grid(self, depth_mm: float | None) -> None:
        """Mark where the grid ends."""
        self._grid_mm = depth_mm
        self.update()

    def edges(self) -> np.ndarray:
        """Where the layers begin and the last one ends on screen, pixels from the top, shape (L + 1,)."""
        weights = np.array([_weight(row.thickness_mm) for row in self._rows])
        if self._rows and self._rows[-1].thickness_mm == math.inf:
            weights[-1] = 1.2 * max(weights[:-1], default=1.0)
        room = self.height() - 2 * _AMBIENT
        least = min(_LETTERS + 3.0, room / max(1, len(weights)))
        heights = np.maximum(weights / max(weights.sum(), 1e-9) * room, least)
        spare = heights - least
        heights = least + spare * (room - least * len(heights)) / max(spare.sum(), 1e-9)
        return np.concatenate([[_AMBIENT], _AMBIENT + np.cumsum(heights)])

    # -- Qt -------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: Any) -> None:
        """Qt: the mouse was pressed on it."""
        index = int(np.searchsorted(self.edges(), event.position().y())) - 1
        if 0 <= index < len(self._rows):
            self.clicked.emit(index)

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw it."""
        if not self._rows:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edges = self.edges()
        self._paint_ambient(painter, edges)
        for index in range(len(self._rows)):
            self._paint_layer(painter, index, edges[index], edges[index + 1])
        self._paint_grid(painter, edges)
        self._paint_beam(painter, edges[0])
        painter.end()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _paint_ambient(self, painter: QPainter, edges: np.ndarray) -> None:
        painter.setPen(self.palette().windowText().color())
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        above, below = self._n
        painter.drawText(QRectF(_SIDE + 4, 0, self.width(), _AMBIENT), left, f"n = {above:g}")
        if self._rows[-1].thickness_mm != math.inf:
            painter.drawText(QRectF(_SIDE + 4, edges[-1], self.width(), _AMBIENT), left, f"n = {below:g}")

    def _paint_layer(self, painter: QPainter, index: int, top: float, bottom: float) -> None:
        row, color = self._rows[index], QColor(self._colors[index])
        color.setAlpha(_SOFT)
        box = QRectF(_SIDE, top, self.width() - 2 * _SIDE, bottom - top)
        fill: Any = color
        if row.thickness_mm == math.inf:
            box.setBottom(bottom + _AMBIENT)
            fill = QLinearGradient(0, top, 0, box.bottom())
            clear = QColor(color)
            clear.setAlpha(0)
            fill.setColorAt(0.5, color)
            fill.setColorAt(1.0, clear)
        painter.fillRect(box, fill)
        if index == self._current:
            painter.setPen(QPen(QColor(theme.WHITE), 1.5))
            painter.drawRect(box.adjusted(1, 1, -1, -1))
        if bottom - top > _LETTERS:
            self._write(painter, row, QRectF(box.left() + 4, top, box.width() - 8, bottom - top), color)

    def _write(self, painter: QPainter, row: LayerRow, box: QRectF, color: QColor) -> None:
        font = QFont(self.font())
        font.setPixelSize(_LETTERS)
        painter.setFont(font)
        behind = self.palette().window().color().lightnessF()
        light = color.lightnessF() * color.alphaF() + behind * (1 - color.alphaF())
        painter.setPen(QColor(theme.PRINT_TEXT if light > 0.42 else theme.WHITE))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | middle, row.name)
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | middle, _thickness_text(row))

    def _paint_grid(self, painter: QPainter, edges: np.ndarray) -> None:
        """Dash the depth at which the grid ends, where it ends inside the layers."""
        thicknesses = [t for row in self._rows if isinstance(t := row.thickness_mm, float) and t > 0]
        if self._grid_mm is None or len(thicknesses) < len(self._rows):
            return
        tops = np.concatenate([[0.0], np.cumsum(thicknesses)])
        index = int(np.searchsorted(tops, self._grid_mm)) - 1
        if index >= len(self._rows):
            return
        part = 0.9 if math.isinf(tops[index + 1]) else (self._grid_mm - tops[index]) / (tops[index + 1] - tops[index])
        y = edges[index] + part * (edges[index + 1] - edges[index])
        painter.setPen(QPen(_GRID, 1.5, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(_SIDE, y), QPointF(self.width() - _SIDE, y))

    def _paint_beam(self, painter: QPainter, surface: float) -> None:
        x = self.width() / 2
        painter.setPen(QPen(_BEAM, 2))
        painter.setBrush(_BEAM)
        painter.drawLine(QPointF(x, 1), QPointF(x, surface - 5))
        painter.drawPolygon(QPolygonF([QPointF(x - 4, surface - 7), QPointF(x + 4, surface - 7), QPointF(x, surface)]))


def _weight(thickness_mm: Any) -> float:
    """Relative height of a layer; one whose thickness is not known yet is drawn thin."""
    known = isinstance(thickness_mm, float) and 0 < thickness_mm < math.inf
    return float(thickness_mm**_POWER) if known else 0.0


def _thickness_text(row: LayerRow) -> str:
    thickness = row.thickness_mm
    if not isinstance(thickness, float) or not thickness > 0:
        return "–"
    if math.isinf(thickness):
        return "∞"
    return f"{1000 * thickness:.4g} µm" if thickness < 0.1 else f"{thickness:.4g} mm"
