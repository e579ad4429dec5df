"""How much noise was found, and the plot of residual / noise: its histogram, and normal curves of two deviations."""

from dataclasses import dataclass

import numpy as np
import pyqtgraph
from qtpy.QtCore import QSize
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.numbers import short_number
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.noise.model import DenoisedScan, ResidualRatios
from napari_gpubio.gui import theme
from napari_gpubio.gui.plots import Array, Axis, ThemedPlot

_BAR_ALPHA = 0x80  # of 255
_CURVE_POINTS = 401


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseSummary:
    """How much noise was found, and how far what was taken away looks like it.

    ``sigma``: median of the noise level, in units of the signal; ``components``: median number of signal components;
    ``expected``: standard deviation that the ratios of residual and noise should have.
    """

    study: str
    sigma: float
    components: float
    ratios: ResidualRatios
    expected: float

    @property
    def text(self) -> str:
        """The numbers in a line."""
        return (
            f"σ median {short_number(self.sigma, 3)}, signal components median {short_number(self.components)}, "
            f"SD of residual / σ {self.ratios.standard_deviation:.2f}"
        )


def summary_of(result: DenoisedScan, scan: DiffusionScan, study: str) -> NoiseSummary:
    """Return what was found in a scan that was denoised; ``scan``: with its noise, ``study``: name of its layer."""
    return NoiseSummary(
        study=study,
        sigma=float(np.median(result.noise[result.mask])),
        components=float(np.median(result.rank[result.mask])),
        ratios=result.residual_ratio_histogram(scan),
        expected=expected_deviation(result),
    )


def expected_deviation(result: DenoisedScan) -> float:
    """Return the standard deviation that residual / noise should have, over the voxels in which noise was found.

    It is sqrt(1 - k / r) for k signal components and r, the smaller one of the numbers of volumes and of voxels of a
    window: the share of the noise that lies in the other components; NaN if no noise was found.
    """
    found = result.noise > 0
    if not found.any():
        return float("nan")
    smaller = min(result.denoised.data.shape[3], int(np.prod(result.parameters["window"])))
    return float(np.sqrt(1 - result.rank[found].mean(dtype=np.float64) / smaller))


class ResidualPlot(ThemedPlot):
    """Draws how residuals are distributed, in standard deviations of the noise."""

    bottom, left = Axis(pixels=40), Axis(title="probability density")
    legend_at = (-8, 8)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMinimumSize(320, 200)

    def sizeHint(self) -> QSize:
        """Qt: the size to begin with."""
        return QSize(700, 280)

    def draw(self, summary: NoiseSummary) -> None:
        """Draw the ratios of a scan that was denoised."""
        self.empty()
        self.setLabel("bottom", f"residual / σ of {summary.study}")
        ratios = summary.ratios
        edges, total = ratios.edges, max(int(ratios.counts.sum()), 1)
        heights = ratios.counts / total / np.diff(edges)
        brush = theme.translucent(theme.ACCENT, _BAR_ALPHA)
        self.addItem(pyqtgraph.BarGraphItem(x0=edges[:-1], x1=edges[1:], height=heights, brush=brush, pen=None))
        x = np.linspace(edges[0], edges[-1], _CURVE_POINTS)
        found, expected = ratios.standard_deviation, summary.expected
        self._add_normal(x, ratios.mean, found, f"normal, SD {found:.3f} as found", dashed=False)
        self._add_normal(x, 0.0, expected, f"normal, SD {expected:.3f} as expected", dashed=True)
        self.setXRange(edges[0], edges[-1], padding=0.01)

    def _add_normal(self, x: Array, mean: float, deviation: float, name: str, *, dashed: bool) -> None:
        if not deviation > 0:  # no noise was found
            return
        y = np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
        self.add_curve(x, y, color=theme.CURVES[1] if dashed else theme.TEXT, name=name, dashed=dashed)
