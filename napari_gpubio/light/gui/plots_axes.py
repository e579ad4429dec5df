"""A plot whose values span decades: curves with error bands, the tissues behind them, and choices and a hint above."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.forms import Label, muted_label, row_of
from napari_gpubio.gui.plots import Axis, ThemedPlot

Array = npt.NDArray[Any]
MAX_DECADES = 8.0
_MAX_TISSUES, _PIXELS_PER_LETTER = 60, 8
_FLOOR = 1e-3  # an error band that reaches 0 ends here, as a fraction of the value


class LogPlot(ThemedPlot):
    """Positive values on a logarithmic scale over a linear axis."""

    bottom, left = Axis(pixels=40), Axis(pixels=64, decades=True)
    legend_at = (-8, 8)
    button = True

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._top = -np.inf

    def name_axes(self, x_text: str, y_text: str) -> None:
        """Say what is on the axes."""
        self.setLabel("bottom", x_text)
        self.setLabel("left", y_text)

    def empty(self) -> None:
        """Take every curve away."""
        super().empty()
        self._top = -np.inf

    def add_curve(self, x: Array, y: Array, *, color: str, error: Array | None = None, **style: Any) -> Any:
        """Draw a curve with a band of plus and minus its error; values that are not positive leave gaps.

        ``style`` as of `ThemedPlot.add_curve`; dashed is what was not simulated, or is no more than noise.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithm = np.where(y > 0, np.log10(y), np.nan)
        if error is not None:
            high = np.where(y > 0, y + error, np.nan)
            low = np.where(y > 0, np.maximum(y - error, _FLOOR * y), np.nan)
            self.add_band(x, np.log10(low), np.log10(high), color, ignoreBounds=True)
        if np.isfinite(logarithm).any():
            self._top = max(self._top, float(np.nanmax(logarithm)))
        return super().add_curve(x, logarithm, color=color, **style)

    def frame(self, x: Array, lowest: float) -> None:
        """Show this range of x, and y from its highest value down to ``lowest``, but not too many decades.

        Without a lowest value (0, or infinite where no value is known) it is a decade.
        """
        if not np.isfinite(self._top):
            return
        low = np.log10(lowest) if 0 < lowest < np.inf else self._top - 1
        self.setYRange(max(low, self._top - MAX_DECADES), self._top, padding=0.06)
        self.setXRange(float(np.min(x)), float(np.max(x)), padding=0.01)

    def add_tissues(self, x: Array, labels: Array, names: dict[int, str]) -> None:
        """Mark where another label begins along a line, and name it where there is room."""
        begins = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
        if len(begins) > _MAX_TISSUES:
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


class Pane(QWidget):
    """A plot under a title, choices and a hint; a subclass declares title, axes and ``empty``, and draws a result."""

    title, empty = "", ""  # ``empty``: the hint without a result
    x_text, y_text = "", ""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._displayed: Any | None = None
        self.plot = LogPlot(self)
        self.plot.name_axes(self.x_text, self.y_text)
        self._hint = muted_label(self, self.empty)
        self._top = row_of(Label(self.title, self), self._hint, stretch=(0, 1))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 4, 4, 0)
        layout.addLayout(self._top)
        layout.addWidget(self.plot, 1)

    @property
    def hint(self) -> str:
        """The sentence above the plot."""
        return self._hint.text()

    def add_choice(self, widget: QWidget) -> None:
        """Put an input beside the title."""
        self._top.insertWidget(self._top.count() - 1, widget)

    def plot_result(self, displayed: Any | None) -> None:
        """Draw a displayed result, or none."""
        self._displayed = displayed
        self._draw_again()

    def draw(self, displayed: Any) -> str:
        """Draw a result and return a remark on it; `InvalidInput` where it cannot be drawn."""
        raise NotImplementedError

    def _draw_again(self, *_: Any) -> None:
        self.plot.empty()
        try:
            self._hint.setText(self.empty if self._displayed is None else self.draw(self._displayed))
        except InvalidInput as error:
            self._hint.setText(str(error))
