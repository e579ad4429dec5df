"""A plot whose colors are those of napari's theme."""

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QGraphicsItem, QWidget

from napari_gpubio.gui import theme

Array = npt.NDArray[Any]
_BAND_ALPHA = 0x40  # of 255
_GRID_OPACITY = 0.15
_SIDES = ("bottom", "left")


class ThemedPlot(pyqtgraph.PlotWidget):
    """A plot with two labeled axes; `theme.restyle` gives it the colors of another theme.

    Parameters
    ----------
    text_color
        Of the axes; None: that of the theme, which it then follows.
    background
        None: what lies behind is seen.
    grid
        Whether lines lead from the ticks through the plot.
    """

    def __init__(
        self,
        parent: QWidget | None = None,
        *,
        text_color: str | None = None,
        background: str | None = None,
        grid: bool = True,
        axes: Mapping[str, pyqtgraph.AxisItem] | None = None,
    ) -> None:
        super().__init__(parent, background=background, axisItems=dict(axes or {}))
        self.showGrid(x=grid, y=grid, alpha=_GRID_OPACITY)
        self.setMenuEnabled(False)
        self._follows = text_color is None
        self._color_axes(text_color or theme.TEXT)
        for side in _SIDES:
            self.getAxis(side).enableAutoSIPrefix(False)

    def setLabel(self, axis: str, text: str, **options: Any) -> None:
        """pyqtgraph: label an axis, here with the text letter by letter."""
        self.plotItem.setLabel(axis, html.escape(text, quote=False), **options)

    def add_band(self, x: Array, low: Array, high: Array, color: str, **options: Any) -> None:
        """Fill what lies between two curves (each of shape (N,)); there is a gap where one of them is not finite.

        ``options`` are those of pyqtgraph's ``addItem``.
        """
        good = np.isfinite(low) & np.isfinite(high)
        edges = np.flatnonzero(np.diff(good.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
        for first, last in edges:
            if last - first > 1:
                sides = [pyqtgraph.PlotCurveItem(x[first:last], side[first:last]) for side in (low, high)]
                self.addItem(pyqtgraph.FillBetweenItem(*sides, brush=theme.translucent(color, _BAND_ALPHA)), **options)

    def recolor(self, swap: Mapping[str, str]) -> None:
        """Exchange colors: of the axes, curves, bands, lines, bars, their labels and the legend."""
        if not self._follows:
            return
        self._color_axes(theme.TEXT)
        for item in self.scene().items():
            _recolor(item, swap)
        if (legend := self.plotItem.legend) is not None:
            legend.setBrush(theme.PLOT_BACKGROUND)
            legend.setLabelTextColor(theme.TEXT)

    def _color_axes(self, color: str) -> None:
        for side in _SIDES:
            self.getAxis(side).setPen(color)
            self.getAxis(side).setTextPen(color)


def _recolor(item: QGraphicsItem, swap: Mapping[str, str]) -> None:
    """Exchange the colors of one item of a scene."""
    if isinstance(item, pyqtgraph.PlotDataItem):
        item.setPen(_pen(item.opts["pen"], swap))
        if item.opts["symbol"] is not None and item.opts["symbolBrush"] is not None:
            item.setSymbolBrush(_brush(item.opts["symbolBrush"], swap))
    elif isinstance(item, pyqtgraph.InfiniteLine):
        item.setPen(_pen(item.pen, swap))
        if getattr(item, "label", None) is not None:
            item.label.setColor(_exchanged(item.label.color, swap))
    elif isinstance(item, pyqtgraph.BarGraphItem):
        item.setOpts(brush=_brush(item.opts["brush"], swap))
    elif isinstance(item, pyqtgraph.FillBetweenItem):
        item.setBrush(_brush(item.brush(), swap))


def _pen(pen: Any, swap: Mapping[str, str]) -> Any:
    pen = pyqtgraph.mkPen(pen)
    pen.setColor(_exchanged(pen.color(), swap))
    return pen


def _brush(brush: Any, swap: Mapping[str, str]) -> Any:
    brush = pyqtgraph.mkBrush(brush)
    brush.setColor(_exchanged(brush.color(), swap))
    return brush


def _exchanged(color: QColor, swap: Mapping[str, str]) -> QColor:
    """Return the color that takes the place of another, as opaque as that was."""
    new = QColor(swap.get(color.name(), color.name()))
    new.setAlpha(color.alpha())
    return new
