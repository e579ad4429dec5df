"""The names of the curves: a strip below the plot, and the legend of a figure."""

import html
import math
from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QPointF, QRectF, Qt, Signal
from qtpy.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen
from qtpy.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from napari_gpubio.dose.gui.curves import SECOND_PLAN, Curve, band_text, named_curves
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import RichLabel

_MAX_ROWS_UNSCROLLED = 5
_LEGEND_TIP = "Point at a name to emphasize its curve; click it to highlight voxels inside that structure"
_ROW, _LINE, _GAP, _WIDEST_NAME, _FONT = 20.0, 24.0, 8.0, 190.0, 15  # of the legend of a figure, pixels


class LegendStrip(QScrollArea):
    """Names in the colors of the curves, in as many rows as they need; beyond a few they scroll.

    ``name_clicked`` has the number of a curve, ``name_hovered`` that of the one under the mouse (-1 for none).
    """

    name_clicked = Signal(int)
    name_hovered = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = RichLabel(self, wordWrap=True, toolTip=_LEGEND_TIP)
        self.label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        connect_all(
            [
                (self.label.linkActivated, lambda number: self.name_clicked.emit(int(number))),
                (self.label.linkHovered, lambda number: self.name_hovered.emit(int(number) if number else -1)),
            ]
        )
        self.setWidget(self.label)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.hide()

    def name_curves(self, curves: Sequence[Curve]) -> None:
        """Write the names of the curves."""
        parts = [_legend_entry(number, curve) for number, curve in named_curves(curves)]
        if any(curve.second for curve in curves):
            parts.append(f"<i>{SECOND_PLAN}</i>".replace(" ", "&nbsp;"))
        if shading := band_text(curves):
            parts.append(f"<i>{html.escape(shading)}</i>")
        text = " &nbsp; ".join(parts)
        if text != self.label.text():
            self.name_hovered.emit(-1)  # Qt does not report that the old text is left
            self.label.setText(text)
            self._fit_height()
        self.setVisible(bool(parts))

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        self._fit_height()

    def _fit_height(self) -> None:
        """Take the height of the rows, with room for the borders that a theme adds."""
        row = self.label.fontMetrics().lineSpacing()
        needed = self.label.heightForWidth(self.viewport().width()) + row // 2
        self.setFixedHeight(min(needed, (_MAX_ROWS_UNSCROLLED + 1) * row))


def _legend_entry(number: int, curve: Curve) -> str:
    """A name that can be clicked, kept on one line."""
    name = html.escape(curve.dvh.name).replace(" ", "&nbsp;")
    style = f"color: {theme.TEXT}; text-decoration: none"
    line = "╍" if curve.second else "━"
    zero = f"&nbsp;({curve.zero_text})".replace(" ", "&nbsp;") if curve.zero_text else ""
    return f'<span style="color:{curve.color}">{line}</span>&nbsp;<a href="{number}" style="{style}">{name}{zero}</a>'


# -- the legend of a figure -------------------------------------------------------------------------------------------


def legend_width(curves: Sequence[Curve], height: float) -> float:
    """Return the width of a legend of this height, pixels."""
    columns = math.ceil(len(_entries(curves, theme.PRINT_TEXT)) / _rows_in(height))
    return columns * _column_width(curves)


def draw_legend(painter: QPainter, place: QRectF, curves: Sequence[Curve], text_color: str) -> None:
    """Draw lines and names of curves into a place of a figure, in columns where they are many."""
    painter.setFont(_legend_font())
    width, rows = _column_width(curves), _rows_in(place.height())
    for number, (name, color, style) in enumerate(_entries(curves, text_color)):
        left = place.left() + width * (number // rows)
        middle = place.top() + _ROW * (number % rows + 0.5)
        painter.setPen(QPen(QColor(color), 2.0, style))
        painter.drawLine(QPointF(left, middle), QPointF(left + _LINE, middle))
        painter.setPen(QColor(text_color))
        painter.drawText(
            QRectF(left + _LINE + _GAP, middle - _ROW / 2, width, _ROW),
            int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft),
            _elided(name),
        )


def _entries(curves: Sequence[Curve], text_color: str) -> list[tuple[str, str, Qt.PenStyle]]:
    """Name, color and line style of each entry."""
    solid, dashed = Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine
    entries = [(curve.dvh.name, curve.color, dashed if curve.second else solid) for _, curve in named_curves(curves)]
    entries += [(SECOND_PLAN, text_color, dashed)] * any(curve.second for curve in curves)
    return entries + [("shaded: ± 1 standard error", text_color, Qt.PenStyle.NoPen)] * bool(band_text(curves))


def _rows_in(height: float) -> int:
    return max(int(height // _ROW), 1)


def _column_width(curves: Sequence[Curve]) -> float:
    names = [name for name, _, _ in _entries(curves, theme.PRINT_TEXT)]
    metrics = QFontMetricsF(_legend_font())
    return _LINE + 3 * _GAP + max((metrics.horizontalAdvance(_elided(name)) for name in names), default=0.0)


def _elided(name: str) -> str:
    return str(QFontMetricsF(_legend_font()).elidedText(name, Qt.TextElideMode.ElideMiddle, _WIDEST_NAME))


def _legend_font() -> QFont:
    font = QFont()
    font.setPixelSize(_FONT)
    return font
