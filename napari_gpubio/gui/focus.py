"""The control that has the keys: a frame around it, and the order in which Tab goes from one to the next."""

import itertools
from typing import Any

from qtpy.QtCore import QPoint, Qt
from qtpy.QtGui import QColor, QPainter, QPen
from qtpy.QtWidgets import QApplication, QFocusFrame, QScrollArea, QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.accessible import controls_of

_PIXELS = 2  # of the frame


class FocusRing(QFocusFrame):
    """A frame around the control of a part that has the focus, in the color of the theme; napari's style has none."""

    def __init__(self, part: QWidget) -> None:
        super().__init__(part)
        self._part = part
        self.hide()
        QApplication.instance().focusChanged.connect(self._follow)

    def _follow(self, _before: QWidget | None, now: QWidget | None) -> None:
        is_inside = now is not None and self._part.isAncestorOf(now) and not isinstance(now, QScrollArea)
        self.setWidget(now if is_inside else None)
        self.setVisible(is_inside)

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw it."""
        painter = QPainter(self)
        painter.setPen(QPen(QColor(theme.ACCENT), _PIXELS))
        half = _PIXELS // 2
        painter.drawRect(self.rect().adjusted(half, half, -half, -half))
        painter.end()


def order_by_place(part: QWidget) -> None:
    """Let Tab go through the controls of a part as one reads them: row by row, from the top to the bottom."""
    found = [one for one in controls_of(part) if one.isVisible() and one.focusPolicy() & Qt.FocusPolicy.TabFocus]
    places = {control: control.mapTo(part, QPoint(0, 0)) for control in found}
    found.sort(key=lambda control: places[control].y())
    rows: list[list[QWidget]] = []
    bottom = 0.0
    for control in found:
        top, height = places[control].y(), control.height()
        if not rows or top + height / 2 > bottom:
            rows.append([])
            bottom = top + height
        rows[-1].append(control)
    ordered = [control for row in rows for control in sorted(row, key=lambda one: places[one].x())]
    for before, after in itertools.pairwise(ordered):
        QWidget.setTabOrder(before, after)
