"""The control that has the keys: a frame around it, and the order in which Tab goes from one to the next."""

import itertools
from typing import Any

from qtpy.QtCore import QPoint, Qt
from qtpy.QtGui import QColor, QPainter, QPen
from qtpy.QtWidgets import QApplication, QFocusFrame, QProxyStyle, QScrollArea, QStyle, QTableView, QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.accessible import controls_of
from napari_gpubio.gui.forms import Folded

_PIXELS = 2  # of the frame


class _OnTheControl(QProxyStyle):
    """Lays the frame upon the edge of the control; around it, what the control lies in would cut it off."""

    def styleHint(self, hint: Any, *more: Any) -> int:
        """Qt: how the frame is drawn."""
        return 1 if hint == QStyle.StyleHint.SH_FocusFrame_AboveWidget else super().styleHint(hint, *more)

    def pixelMetric(self, metric: Any, *more: Any) -> int:
        """Qt: how far the frame stands out."""
        margins = (QStyle.PixelMetric.PM_FocusFrameHMargin, QStyle.PixelMetric.PM_FocusFrameVMargin)
        return 0 if metric in margins else super().pixelMetric(metric, *more)


class FocusRing(QFocusFrame):
    """A frame around the control of a part that has the focus, in the color of the theme; napari's style has none."""

    def __init__(self, part: QWidget) -> None:
        super().__init__(part)
        self._part, self._look = part, _OnTheControl()
        self.setStyle(self._look)
        self.hide()
        QApplication.instance().focusChanged.connect(self._follow)

    def _follow(self, _before: QWidget | None, now: QWidget | None) -> None:
        is_inside = now is not None and self._part.isAncestorOf(now) and not isinstance(now, QScrollArea)
        if is_inside:
            self.setWidget(now)
            self.setVisible(True)
            self.raise_()
        else:
            self.leave()

    def leave(self) -> None:
        """Surround nothing; Qt has put the frame into the window, from which it comes back to its part."""
        self.setWidget(None)
        self.setParent(self._part)
        self.hide()

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw it."""
        painter = QPainter(self)
        painter.setPen(QPen(QColor(theme.ACCENT), _PIXELS))
        half = _PIXELS // 2
        painter.drawRect(self.rect().adjusted(half, half, -half, -half))
        painter.end()


def is_folded_away(control: QWidget) -> bool:
    """Whether a control lies in a folded part, which Qt counts as visible."""
    part = control
    while (around := part.parentWidget()) is not None:
        if isinstance(around, Folded) and part is around.content() and not around.isExpanded():
            return True
        part = around
    return False


def order_by_place(part: QWidget, scrolled: QWidget) -> None:
    """Let Tab go through the controls of a part as one reads them: row by row, what scrolls as if it were all seen."""
    for table in part.findChildren(QTableView):
        if table.editTriggers() == QTableView.EditTrigger.NoEditTriggers:
            table.setTabKeyNavigation(False)  # Tab would never leave it; arrows go through its cells
    top = scrolled.parentWidget().mapTo(part, QPoint(0, 0)).y()
    zones: tuple[list[QWidget], ...] = ([], [], [])  # above what scrolls, in it, and below
    for one in controls_of(part):
        is_reached = one.focusPolicy() & Qt.FocusPolicy.TabFocus and one.focusProxy() is None
        if is_reached and one.isVisible() and not is_folded_away(one):
            is_below = one.mapTo(part, QPoint(0, 0)).y() > top
            zones[1 if scrolled.isAncestorOf(one) else 2 * is_below].append(one)
    above, inside, below = zones
    ordered = [*_rows(above, part), *_rows(inside, scrolled), *_rows(below, part)]
    for before, after in itertools.pairwise(ordered):
        QWidget.setTabOrder(before, after)


def _rows(controls: list[QWidget], around: QWidget) -> list[QWidget]:
    """Sort controls by the rows that they stand in, and by their places in these."""
    places = {control: control.mapTo(around, QPoint(0, 0)) for control in controls}
    rows: list[list[QWidget]] = []
    bottom = 0
    for control in sorted(controls, key=lambda one: places[one].y()):
        top, height = places[control].y(), control.height()
        if not rows or top + height / 2 > bottom:
            rows.append([])
            bottom = top + height
        rows[-1].append(control)
    return [control for row in rows for control in sorted(row, key=lambda one: places[one].x())]
