"""The legend, which covers no curve: names below the plot on screen, beside the plot in a figure."""

import html
from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QPointF, QRectF, Qt, Signal
from qtpy.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen
from qtpy.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QWidget

from napari_gpubio.dose.gui.readout import Shown

DASHES = "dashed: second plan"
_MOST_ROWS = 4  # that are shown without scrolling
_TIP = "Point at a name to see its curve; click it to light voxels inside that structure"
_NONE = -1
_ROW, _LINE, _GAP, _WIDEST = 20.0, 24.0, 8.0, 190.0  # of a figure, pixels
_POINTS = 11


def named(curves: Sequence[Shown]) -> list[tuple[int, Shown]]:
    """The curves that are named, with their numbers: not the empty ones, and each structure once.

    A curve of the second plan is named where the first plan draws none of that name.
    """
    drawn = [(number, one) for number, one in enumerate(curves) if not one.dvh.is_empty]
    firsts = {one.dvh.name for _, one in drawn if not one.second}
    return [(number, one) for number, one in drawn if not one.second or one.dvh.name not in firsts]


def has_second(curves: Sequence[Shown]) -> bool:
    """Whether there are dashed curves."""
    return any(one.second for one in curves)


# -- on screen --------------------------------------------------------------------------------------------------------


class LegendStrip(QScrollArea):
    """Names in the colors of the curves, in as many rows as they need; beyond a few they scroll.

    ``chosen`` carries the number of a curve whose name was clicked, ``pointed`` of the one under the mouse (-1: none).
    """

    chosen = Signal(int)
    pointed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = QLabel(self)
        self.label.setWordWrap(True)
        self.label.setTextFormat(Qt.TextFormat.RichText)
        self.label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.label.setToolTip(_TIP)
        self.label.linkActivated.connect(lambda number: self.chosen.emit(int(number)))
        self.label.linkHovered.connect(lambda number: self.pointed.emit(int(number) if number else _NONE))
        self.setWidget(self.label)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.hide()

    def show_curves(self, curves: Sequence[Shown]) -> None:
        """Name these curves."""
        parts = [_link(number, one) for number, one in named(curves)]
        if has_second(curves):
            parts.append(f"<i>{DASHES}</i>".replace(" ", "&nbsp;"))
        text = " &nbsp; ".join(parts)
        if text != self.label.text():
            self.pointed.emit(_NONE)  # nobody says that the old text is left
            self.label.setText(text)
            self._fit()
        self.setVisible(bool(parts))

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Take the height of the rows, with room for the borders that a theme adds."""
        row = self.label.fontMetrics().lineSpacing()
        needed = self.label.heightForWidth(self.viewport().width()) + row // 2
        self.setFixedHeight(min(needed, (_MOST_ROWS + 1) * row))


def _link(number: int, one: Shown) -> str:
    """A name that can be clicked, kept on one line."""
    name = html.escape(one.dvh.name).replace(" ", "&nbsp;")
    style = "color: #c8ccd0; text-decoration: none"
    line = "╍" if one.second else "━"
    return f'<span style="color:{one.color}">{line}</span>&nbsp;<a href="{number}" style="{style}">{name}</a>'


# -- in a figure ------------------------------------------------------------------------------------------------------


def legend_width(curves: Sequence[Shown], height: float) -> float:
    """How wide a legend of this height is, pixels."""
    return _columns(curves, height) * _column_width(curves)


def draw_legend(painter: QPainter, place: QRectF, curves: Sequence[Shown], ink: str) -> None:
    """Draw lines and names of curves into a place of a figure, in columns where they are many."""
    painter.setFont(_font())
    width, rows = _column_width(curves), _rows(place.height())
    entries = [(one.dvh.name, one.color, _style(one)) for _, one in named(curves)]
    entries += [(DASHES, ink, Qt.PenStyle.DashLine)] if has_second(curves) else []
    for number, (name, color, style) in enumerate(entries):
        left = place.left() + width * (number // rows)
        middle = place.top() + _ROW * (number % rows + 0.5)
        painter.setPen(QPen(QColor(color), 2.0, style))
        painter.drawLine(QPointF(left, middle), QPointF(left + _LINE, middle))
        painter.setPen(QColor(ink))
        painter.drawText(
            QRectF(left + _LINE + _GAP, middle - _ROW / 2, width, _ROW),
            int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft),
            _elided(name),
        )


def _style(one: Shown) -> Qt.PenStyle:
    return Qt.PenStyle.DashLine if one.second else Qt.PenStyle.SolidLine


def _columns(curves: Sequence[Shown], height: float) -> int:
    return -(-(len(named(curves)) + has_second(curves)) // _rows(height))


def _rows(height: float) -> int:
    return max(int(height // _ROW), 1)


def _column_width(curves: Sequence[Shown]) -> float:
    names = [one.dvh.name for _, one in named(curves)] + ([DASHES] if has_second(curves) else [])
    widest = max((QFontMetricsF(_font()).horizontalAdvance(_elided(name)) for name in names), default=0.0)
    return _LINE + 3 * _GAP + widest


def _elided(name: str) -> str:
    return QFontMetricsF(_font()).elidedText(name, Qt.TextElideMode.ElideMiddle, _WIDEST)


def _font() -> QFont:
    font = QFont()
    font.setPixelSize(round(_POINTS * 4 / 3))
    return font
