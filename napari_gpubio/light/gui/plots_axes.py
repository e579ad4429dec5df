"""A plot whose values span decades: curves with error bands, and the tissues behind them."""

import html
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.quantity import power_of_ten
from napari_gpubio.gui import theme
from napari_gpubio.gui.plots import ThemedPlot

Array = npt.NDArray[Any]
MOST_DECADES = 8.0
_MOST_TISSUES, _PIXELS_PER_LETTER = 60, 8
_PIXELS_PER_LABEL = 18.0
_FLOOR = 1e-3  # an error band that reaches 0 ends here, as a fraction of the value


class DecadeAxis(pyqtgraph.AxisItem):
    """A vertical axis of decimal logarithms that is labeled with what they stand for."""

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        """pyqtgraph: where the ticks are, at each level."""
        every = max(1, math.ceil((high - low) * _PIXELS_PER_LABEL / max(size, 1.0)))
        decades = [float(d) for d in range(math.ceil(low), math.floor(high) + 1) if d % every == 0]
        between = [d + math.log10(m) for d in range(math.floor(low), math.ceil(high)) for m in range(2, 10)]
        return [(1.0, decades), (0.1, [at for at in between if every == 1 and low <= at <= high])]

    def tickStrings(self, values: list[float], _scale: float, spacing: float) -> list[str]:
        """pyqtgraph: what is written at the ticks of one level; between decades only where few are in sight."""
        if spacing >= 1:
            return [power_of_ten(round(at)) for at in values]
        low, high = self.range
        labeled = (2, 5) if high - low < 2 else ()
        return [_between(at) if round(10 ** (at % 1)) in labeled else "" for at in values]


class LogPlot(ThemedPlot):
    """Positive values on a logarithmic scale over a linear axis."""

    def __init__(self, x_text: str, y_text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent, axes={"left": DecadeAxis("left")})
        self.getAxis("left").setWidth(64)
        self.getAxis("bottom").setHeight(40)
        style = {"labelTextColor": theme.TEXT, "brush": theme.PLOT_BACKGROUND, "verSpacing": -4}
        self.legend = self.addLegend(offset=(-8, 8), **style)
        self._top = -np.inf
        self.name_axes(x_text, y_text)

    def name_axes(self, x_text: str, y_text: str) -> None:
        """Say what is on the axes."""
        self.setLabel("bottom", x_text)
        self.setLabel("left", y_text)

    def empty(self) -> None:
        """Take every curve away."""
        self.clear()
        self.legend.clear()
        self._top = -np.inf

    def add_curve(
        self,
        x: Array,
        y: Array,
        *,
        color: str,
        name: str,
        error: Array | None = None,
        dashed: bool = False,
        dots: bool = False,
    ) -> None:
        """Draw a curve with a band of plus and minus its error; values that are not positive leave gaps.

        ``dashed``: it was not simulated, or is no more than noise. ``dots`` mark every value, so that one between two
        gaps is seen.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithm = np.where(y > 0, np.log10(y), np.nan)
        if error is not None:
            self._add_band(x, y, error, color)
        style = Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine
        marks = {"symbol": "o", "symbolSize": 4, "symbolBrush": color, "symbolPen": None} if dots else {}
        pen = pyqtgraph.mkPen(color, width=1.5, style=style)
        markup = name and html.escape(name, quote=False).replace("\n", "<br>")
        self.plot(x, logarithm, pen=pen, name=markup, connect="finite", **marks)
        if np.isfinite(logarithm).any():
            self._top = max(self._top, float(np.nanmax(logarithm)))

    def frame(self, x: Array, lowest: float) -> None:
        """Show this range of x, and y from its highest value down to ``lowest``, but not too many decades.

        Without a lowest value (0, or infinite where no value is known) it is a decade.
        """
        if not np.isfinite(self._top):
            return
        low = np.log10(lowest) if 0 < lowest < np.inf else self._top - 1
        self.setYRange(max(low, self._top - MOST_DECADES), self._top, padding=0.06)
        self.setXRange(float(np.min(x)), float(np.max(x)), padding=0.01)

    def add_tissues(self, x: Array, labels: Array, names: dict[int, str]) -> None:
        """Mark where another label begins along a line, and name it where there is room."""
        begins = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
        if len(begins) > _MOST_TISSUES:
            return
        ends = np.append(begins[1:], len(x) - 1)
        for first, last in zip(begins.tolist(), ends.tolist(), strict=True):
            name = names.get(int(labels[first]), "outside")
            room = self.width() * (x[last] - x[first]) / (x[-1] - x[0])
            named = room > _PIXELS_PER_LETTER * len(name)
            self._add_border(float(x[max(first - 1, 0)] + x[first]) / 2, name if named else "")

    def _add_border(self, at: float, name: str) -> None:
        pen = pyqtgraph.mkPen(theme.TEXT, width=1, style=Qt.PenStyle.DotLine)
        options = {"position": 0.03, "color": theme.TEXT, "anchors": [(0, 1), (0, 1)]}
        self.addItem(pyqtgraph.InfiniteLine(at, pen=pen, label=name, labelOpts=options), ignoreBounds=True)

    def _add_band(self, x: Array, y: Array, error: Array, color: str) -> None:
        high = np.where(y > 0, y + error, np.nan)
        low = np.where(y > 0, np.maximum(y - error, _FLOOR * y), np.nan)
        self.add_band(x, np.log10(low), np.log10(high), color, ignoreBounds=True)


def _between(at: float) -> str:
    """A value between two decades, given as its logarithm."""
    return f"{round(10 ** (at % 1))}·{power_of_ten(math.floor(at))}"
