"""The plot of residual / noise: its histogram, and normal curves of its own deviation and of the expected one."""

from collections.abc import Mapping

import numpy as np
import pyqtgraph
from qtpy.QtCore import QSize, Qt
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.plots import Array, ThemedPlot
from napari_gpubio.tracts.gui.noise.request import NoiseSummary

_BAR_ALPHA = 0x80  # of 255
_POINTS = 401  # of a curve


class ResidualPlot(ThemedPlot):
    """Draws how residuals are distributed, in standard deviations of the noise."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._summary: NoiseSummary | None = None
        self.hideButtons()
        self.setMinimumSize(320, 200)
        style = {"labelTextColor": theme.TEXT, "brush": theme.PLOT_BACKGROUND, "verSpacing": -4}
        self.legend = self.addLegend(offset=(-8, 8), **style)
        self.getAxis("bottom").setHeight(40)
        self.setLabel("left", "probability density")

    def sizeHint(self) -> QSize:
        """Qt: the size to begin with."""
        return QSize(700, 280)

    def draw(self, summary: NoiseSummary) -> None:
        """Draw the ratios of a scan that was denoised."""
        self._summary = summary
        self.clear()
        self.legend.clear()
        self.setLabel("bottom", f"residual / σ of {summary.study}")
        ratios = summary.ratios
        edges, total = ratios.edges, max(int(ratios.counts.sum()), 1)
        heights = ratios.counts / total / np.diff(edges)
        brush = theme.translucent(theme.ACCENT, _BAR_ALPHA)
        self.addItem(pyqtgraph.BarGraphItem(x0=edges[:-1], x1=edges[1:], height=heights, brush=brush, pen=None))
        x = np.linspace(edges[0], edges[-1], _POINTS)
        found, expected = ratios.standard_deviation, summary.expected
        self._add_normal(x, ratios.mean, found, f"normal, SD {found:.3f} as found", Qt.PenStyle.SolidLine)
        self._add_normal(x, 0.0, expected, f"normal, SD {expected:.3f} as expected", Qt.PenStyle.DashLine)
        self.setXRange(edges[0], edges[-1], padding=0.01)

    def recolor(self, swap: Mapping[str, str]) -> None:
        """Exchange colors; pyqtgraph gives the legend's texts theirs only when they are made."""
        super().recolor(swap)
        self.resetCachedContent()
        if self._summary is not None:
            self.draw(self._summary)

    def _add_normal(self, x: Array, mean: float, deviation: float, name: str, line: Qt.PenStyle) -> None:
        if not deviation > 0:  # no noise was found
            return
        y = np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
        color = theme.TEXT if line == Qt.PenStyle.SolidLine else theme.CURVES[1]
        self.plot(x, y, pen=pyqtgraph.mkPen(color, width=1.5, style=line), name=name)
