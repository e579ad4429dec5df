"""Logarithmic axes and curves of the plots."""

import numpy as np
import pyqtgraph
import pytest

from napari_gpubio.gui.theme import CURVES
from napari_gpubio.light.gui.plots_axes import DecadeAxis, LogPlot
from tests.light.plot_samples import drawn_curves


def test_decades_are_written_as_powers_of_ten(qtbot):
    axis = DecadeAxis("left")
    axis.setRange(-5.2, 1.3)
    (spacing, decades), (fine, between) = axis.tickValues(-5.2, 1.3, 200)
    assert decades == [-5, -4, -3, -2, -1, 0, 1]
    assert axis.tickStrings(decades, 1.0, spacing) == ["10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹"]
    assert np.isclose(between, np.log10(0.003)).any()
    assert set(axis.tickStrings(between, 1.0, fine)) == {""}
    (_, decades), (_, between) = axis.tickValues(-12.0, 0.0, 60)
    assert (np.diff(decades) * 60 / 12).min() >= 18  # pixels, so that texts do not overlap
    assert between == []


def test_within_two_decades_twos_and_fives_are_written_too(qtbot):
    axis = DecadeAxis("left")
    axis.setRange(-3.5, -2.0)
    _, (fine, between) = axis.tickValues(-3.5, -2.0, 200)
    assert [text for text in axis.tickStrings(between, 1.0, fine) if text] == ["5·10⁻⁴", "2·10⁻³", "5·10⁻³"]


def test_what_is_not_positive_leaves_a_gap(qtbot):
    plot = LogPlot("x (mm)", "y")
    qtbot.addWidget(plot)
    x, y = np.arange(6.0), np.array([1.0, 0.1, 0.0, -1.0, 0.01, 0.02])
    plot.add_curve(x, y, error=np.array([0.5, 0.2, 0.1, 0.1, np.nan, 0.01]), color=CURVES[0], name="a")
    assert np.isnan(drawn_curves(plot)["a"][1]).tolist() == [False, False, True, True, False, False]
    bands = [item for item in plot.getPlotItem().items if isinstance(item, pyqtgraph.FillBetweenItem)]
    (band,) = bands  # a single sample has no band
    high, low = (10.0 ** band.curves[i].yData for i in (0, 1))
    assert high == pytest.approx([1.5, 0.3])
    assert low == pytest.approx([0.5, 1e-4])  # down to 0, which has no logarithm
    plot.frame(x, 0.01)
    assert plot.viewRange()[1] == pytest.approx([-2.12, 0.12], abs=0.01)
    plot.frame(x, 1e-30)
    assert plot.viewRange()[1][0] > -9
    plot.empty()
    assert not plot.getPlotItem().items
    assert not plot.legend.items
