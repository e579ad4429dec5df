"""Plots that declare their axes, with the colors of napari's theme, and an axis of decimal logarithms."""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import QRectF, Qt
from qtpy.QtGui import QColor, QFontMetrics
from qtpy.QtWidgets import QGraphicsItem, QWidget

from napari_gpubio.core.quantity import power_of_ten
from napari_gpubio.gui import theme

Array = npt.NDArray[Any]
_BAND_ALPHA = 0x40  # of 255
_GRID_OPACITY = 0.15
_OVERHANG = 12  # pixels of a label at the end of a horizontal axis
_DECADES_WITH_PARTS = {"bottom": (34.0, 2.5), "left": (18.0, 2.0)}  # pixels of a label; in how many 2 and 5 have one


class DecadeAxis(pyqtgraph.AxisItem):
    """An axis of decimal logarithms that is labeled with what they stand for.

    Parameters
    ----------
    side
        ``"bottom"`` or ``"left"``.
    plain
        The first and the last decade that are written in full; None: all are powers of ten.
    """

    logarithmic = True  # else an axis as any other

    def __init__(self, side: str, plain: tuple[int, int] | None = None) -> None:
        super().__init__(side)
        self._plain = range(plain[0], plain[1] + 1) if plain else range(0)
        self._pixels, self._few = _DECADES_WITH_PARTS[side]

    def boundingRect(self) -> QRectF:
        """pyqtgraph: where it may draw; with a grid, pyqtgraph forgets that labels may stand out at both ends."""
        more = _OVERHANG if self.orientation == "bottom" else 0
        return super().boundingRect().adjusted(-more, 0, more, 0)

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        """pyqtgraph: positions of the ticks, at each level."""
        if not self.logarithmic:
            return list(super().tickValues(low, high, size))
        every = max(1, math.ceil((high - low) * self._pixels / max(size, 1.0)))
        decades = [float(d) for d in range(math.ceil(low), math.floor(high) + 1) if d % every == 0]
        between = [d + math.log10(m) for d in range(math.floor(low), math.ceil(high)) for m in range(2, 10)]
        return [(1.0, decades), (0.1, [at for at in between if every == 1 and low <= at <= high])]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """pyqtgraph: labels of the ticks of one level; between decades only where few are visible."""
        if not self.logarithmic:
            return list(super().tickStrings(values, scale, spacing))
        low, high = self.range
        labeled = (2, 5) if spacing < 1 and high - low < self._few else ()
        return [self._number(at) if spacing >= 1 or round(10 ** (at % 1)) in labeled else "" for at in values]

    def _number(self, at: float) -> str:
        """The text of a number that is given as its logarithm."""
        decade = math.floor(at + 1e-9)
        if decade in self._plain:
            return f"{10**at:.3g}" if decade < 3 else f"{10**at:.0f}"
        front, power = round(10 ** (at - decade)), power_of_ten(decade)
        return power if front == 1 else f"{front}·{power}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis of a plot.

    Parameters
    ----------
    title
        The text beside it.
    pixels
        Room across it; None: as its labels need.
    decades
        Whether its positions are decimal logarithms; see `DecadeAxis`.
    plain
        As of `DecadeAxis`.
    """

    title: str = ""
    pixels: int | None = None
    decades: bool = False
    plain: tuple[int, int] | None = None


class ThemedPlot(pyqtgraph.PlotWidget):
    """A plot with two labeled axes; `theme.restyle` gives it the colors of another theme.

    A subclass declares its axes as `bottom` and `left`, whether lines lead from the ticks through the plot (`grid`),
    whether a button fits the range (`button`), and where a legend is put (`legend_at`, pixels from a corner).

    Parameters
    ----------
    text_color
        Of the axes; None: that of the theme, which it then follows.
    background
        None: what lies behind is seen.
    """

    bottom, left = Axis(), Axis()
    grid, button = True, False
    legend_at: tuple[int, int] | None = None

    def __init__(
        self, parent: QWidget | None = None, *, text_color: str | None = None, background: str | None = None
    ) -> None:
        axes = {"bottom": self.bottom, "left": self.left}
        items = {side: DecadeAxis(side, axis.plain) for side, axis in axes.items() if axis.decades}
        super().__init__(parent, background=background, axisItems=items)
        self._titles: dict[str, tuple[str, dict[str, Any]]] = {}  # as they were given, and how they look
        self.showGrid(x=self.grid, y=self.grid, alpha=_GRID_OPACITY)
        self.setMenuEnabled(False)
        if not self.button:
            self.hideButtons()
        self._follows = text_color is None
        self._color_axes(text_color or theme.TEXT)
        for side, axis in axes.items():
            item = self.getAxis(side)
            item.enableAutoSIPrefix(False)
            if axis.pixels is not None:
                (item.setHeight if side == "bottom" else item.setWidth)(axis.pixels)
            if axis.title:
                self.setLabel(side, axis.title)
            item.geometryChanged.connect(self._fit_titles)
        if self.legend_at is not None:
            style = {"labelTextColor": theme.TEXT, "brush": theme.PLOT_BACKGROUND, "verSpacing": -4}
            self.legend = self.addLegend(offset=self.legend_at, **style)

    def empty(self) -> None:
        """Take every curve away."""
        self.clear()
        if self.legend_at is not None:
            self.legend.clear()

    def setLabel(self, axis: str, text: str, **options: Any) -> None:
        """pyqtgraph: label an axis, here letter by letter; a text that is too long is shortened in the middle."""
        self._titles[axis] = text, options
        self._fit_titles()

    def showEvent(self, event: Any) -> None:
        """Qt: it comes on screen."""
        super().showEvent(event)
        self._fit_titles()

    def _fit_titles(self) -> None:
        """Shorten the texts at the axes to the room that there is."""
        for axis, (text, options) in self._titles.items():
            item = self.plotItem.getAxis(axis)
            room = item.size().width() if axis == "bottom" else item.size().height()
            metrics = QFontMetrics(item.label.font())
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideMiddle, int(room) - _OVERHANG)
            shown = html.escape(shown if self.isVisible() else text, quote=False)  # it has its size once it is shown
            if shown != item.labelText or options:
                self.plotItem.setLabel(axis, shown, **options)
            item.label.setToolTip(text)
            item.resizeEvent()  # pyqtgraph puts the text into the middle only then

    def add_curve(
        self, x: Array, y: Array, *, color: str, name: str = "", width: float = 1.5, dashed: bool = False,
        dots: bool = False,
    ) -> Any:  # fmt: skip
        """Draw a curve with gaps where it is not finite, and return pyqtgraph's item.

        ``dots`` mark every value, so that one between two gaps is seen; ``name``: in the legend.
        """
        pen = pyqtgraph.mkPen(color, width=width, style=Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)
        markup = html.escape(name, quote=False).replace("\n", "<br>")
        marks = {"symbol": "o", "symbolSize": 4, "symbolBrush": color, "symbolPen": None} if dots else {}
        return self.plot(x, y, pen=pen, name=markup or None, connect="finite", **marks)

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
            for _, label in legend.items:
                label.setText(label.text)  # pyqtgraph gives a text its color only when it is set
        self.resetCachedContent()

    def _color_axes(self, color: str) -> None:
        for side in ("bottom", "left"):
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
