"""Names that look like markup, in labels, tips, and plots."""

import numpy as np
from qtpy.QtCore import Qt

from napari_gpubio.gui.forms import Label, RichLabel, tip_of
from napari_gpubio.gui.plots import ThemedPlot
from napari_gpubio.light.gui.plots_axes import LogPlot

NAME = "<img src='file:///etc/motd'> & <b>left</b>"


def test_a_label_shows_a_name_as_it_is(qtbot):
    for label, kept in ((Label(NAME), Qt.TextFormat.PlainText), (RichLabel(NAME), Qt.TextFormat.RichText)):
        qtbot.addWidget(label)
        assert label.textFormat() == kept
    assert Qt.mightBeRichText(NAME)  # which a label of Qt's would follow


def test_a_tip_shows_a_name_as_it_is():
    assert "<b>" not in tip_of(NAME)
    assert "&lt;b&gt;left" in tip_of(NAME)
    assert tip_of("a & b < c\nd") == "a & b < c\nd"  # plain already


def test_plots_show_a_name_as_it_is(qtbot):
    plot = ThemedPlot()
    qtbot.addWidget(plot)
    plot.setLabel("left", NAME)
    assert NAME in plot.getAxis("left").label.toPlainText()


def test_a_legend_shows_a_name_as_it_is(qtbot):
    plot = LogPlot()
    qtbot.addWidget(plot)
    plot.add_curve(np.arange(3.0), np.arange(1.0, 4.0), color="#ff0000", name=f"{NAME}\ntheory")
    ((_, label),) = plot.legend.items
    assert label.item.toPlainText() == f"{NAME}\ntheory"
