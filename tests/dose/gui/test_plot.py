"""The legend names every curve and covers none, on screen and in figures; axes, intervals and what is drawn."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from qtpy.QtCore import QPoint, QRectF, Qt
from qtpy.QtGui import QColor, QImage, QPainter
from qtpy.QtTest import QTest

from napari_gpubio.dose import Dvh
from napari_gpubio.dose.gui.curves import (
    DECADES,
    Axes,
    Curve,
    interval_edges,
    log_start,
    named_curves,
    thin_points,
)
from napari_gpubio.dose.gui.legend import LegendStrip, draw_legend, legend_width
from napari_gpubio.dose.gui.plot import DvhPlot
from napari_gpubio.gui.plots import DecadeAxis
from tests.dose.gui.panel_samples import (
    colors_in,
    drawn_items,
    drawn_points,
)
from tests.dose.samples import ramp

COUNTS = pytest.mark.parametrize("count", [3, 9, 30])


def shown(count, *, second=False):
    curves = []
    for n in range(count):
        dvh = replace(ramp(f"Left parotid gland {n} <PRV>", 10.0, 20.0 + n, 5.0), mean=15.0)
        curves.append(Curve(dvh=dvh, color=f"#{40 + 7 * n:02x}80{250 - 7 * n:02x}"))
    return [*curves, replace(curves[0], second=True)] if second else curves


def coarse(curve):
    """A curve of few points."""
    dvh = curve.dvh
    return replace(curve, dvh=replace(dvh, doses=dvh.doses[::400], volumes_cc=dvh.volumes_cc[::400]))


def strip_of(qtbot, count, width):
    strip = LegendStrip()
    qtbot.addWidget(strip)
    strip.resize(width, 60)
    strip.name_curves(shown(count, second=True))
    strip.show()
    qtbot.wait(20)
    return strip


@COUNTS
def test_the_strip_holds_all_names_and_scrolls_where_they_are_many(qtbot, count):
    strip = strip_of(qtbot, count, 330)
    assert strip.label.text().count("Left&nbsp;parotid") == count
    assert "&lt;PRV&gt;" in strip.label.text()
    assert "dashed" in strip.label.text()
    assert strip.height() < 110
    scrolls = strip.verticalScrollBar().maximum() > 0
    assert scrolls == (count > 3)
    assert strip.label.width() <= strip.viewport().width()


def test_a_name_is_pointed_at_and_clicked(qtbot):
    strip, chosen, pointed = strip_of(qtbot, 3, 600), [], []
    strip.name_clicked.connect(chosen.append)
    strip.name_hovered.connect(pointed.append)
    for x in range(5, strip.label.width(), 12):  # along the first row
        QTest.mouseMove(strip.label, QPoint(x, 12))
        qtbot.wait(2)
    assert {0, 1} <= set(pointed)
    QTest.mouseClick(strip.label, Qt.MouseButton.LeftButton, pos=QPoint(60, 12))
    assert chosen == [0]


def test_the_curve_of_a_name_is_drawn_thicker(filled_panel):
    def widths():
        return [item.opts["pen"].width() for item in drawn_items(filled_panel.plot)]

    before = widths()
    filled_panel.legend.name_hovered.emit(1)
    assert widths()[1] > before[1]
    assert widths()[0] == before[0]
    filled_panel.legend.name_hovered.emit(-1)
    assert widths() == before
    filled_panel.legend.name_clicked.emit(1)
    assert filled_panel.tools.inside.currentText() == "heart"


@COUNTS
def test_a_figure_s_legend_is_drawn_in_its_place(count):
    curves, height = shown(count, second=True), 400.0
    width = legend_width(curves, height)
    image = QImage(round(width) + 40, 440, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    draw_legend(painter, QRectF(20, 20, width, height), curves, "#222222")
    painter.end()
    pixels = np.array([[image.pixel(x, y) & 0xFFFFFF for x in range(image.width())] for y in range(image.height())])
    for one in curves:
        assert (pixels == int(one.color[1:], 16)).any()
    for border in (pixels[:20], pixels[-20:], pixels[:, :19], pixels[:, -20:]):
        assert (border == 0xFFFFFF).all()


@pytest.mark.parametrize("times", [1, 5])
def test_a_figure_keeps_its_plot_however_many_names_there_are(filled_panel, tmp_path, times):
    filled_panel.controller.curves = tuple(coarse(one) for one in shown(30) * times)
    wide = legend_width(filled_panel.controller.curves, 608)
    assert (wide > 1000) == (times > 1)
    filled_panel.export.write_png(tmp_path / "a.png")
    filled_panel.export.write_svg(tmp_path / "a.svg")
    image, root = QImage(str(tmp_path / "a.png")), ET.parse(tmp_path / "a.svg").getroot()
    assert root.tag.endswith("svg")
    assert sum(1 for element in root.iter() if element.tag.endswith(("path", "polyline"))) > 2
    assert [float(part) for part in root.attrib["viewBox"].split()][2:] == [image.width() / 2, image.height() / 2]
    assert image.width() / 2 == pytest.approx(800 + wide + 16, abs=1)
    for columns in (slice(0, 1600), slice(1600, None)):  # the plot, and the legend beside it
        colors = colors_in(tmp_path / "a.png", columns)
        assert {"#ffffff", *(one.color for one in filled_panel.controller.curves[:30:5])} <= colors


def test_a_structure_that_only_the_second_plan_reaches_is_named(qtbot):
    a, b = shown(2)
    nothing = Curve(dvh=replace(b.dvh, doses=np.empty(0), volumes_cc=np.empty(0)), color=b.color)
    assert nothing.dvh.is_empty
    seconds = [replace(one, second=True) for one in (a, b)]
    assert [number for number, _ in named_curves([a, nothing, *seconds])] == [0, 3]
    assert [number for number, _ in named_curves([a, b, *seconds])] == [0, 1]
    assert named_curves([nothing, replace(nothing, second=True)]) == []
    strip = LegendStrip()
    qtbot.addWidget(strip)
    strip.name_curves([a, nothing, *seconds])
    assert [f'href="{number}"' in strip.label.text() for number in range(4)] == [True, False, False, True]


def test_zooming_in_draws_more_points(qtbot):
    plot, (one,) = DvhPlot(), shown(1)
    qtbot.addWidget(plot)
    fine = replace(one.dvh, doses=np.linspace(10, 20, 3001), volumes_cc=np.linspace(5, 0, 3001))
    plot.draw_curves([replace(one, dvh=fine)], Axes(unit="Gy"), 0.0, np.empty(0))
    points = [len(drawn_points(plot)[0][0])]
    for left, right in ((0.0, 20.0), (14.0, 15.0), (0.0, 20.0)):
        plot.setXRange(left, right)
        points.append(len(drawn_points(plot)[0][0]))
    assert points[0] == points[1] == points[3] < 600
    assert points[2] > 3000 * 0.99


def test_titles_of_the_axes_are_drawn_as_a_whole(qtbot):
    plot = DvhPlot()
    qtbot.addWidget(plot)
    plot.resize(330, 270)
    plot.draw_curves(shown(3), Axes(unit="Gy"), 0.0, np.empty(0))
    plot.show()
    qtbot.wait(20)
    for side in ("bottom", "left"):
        label = plot.getAxis(side).label
        title = label.mapRectToScene(label.boundingRect())
        whole = QRectF(plot.viewport().rect())
        assert whole.top() <= title.top()
        assert title.bottom() <= whole.bottom()
        assert whole.left() <= title.left()


@pytest.mark.parametrize(("largest", "last_label"), [(100.0, 100), (58.7, 50), (20.0, 20)])
def test_the_dose_axis_is_labeled_up_to_its_end(qtbot, largest, last_label):
    plot, (one,) = DvhPlot(), shown(1)
    qtbot.addWidget(plot)
    plot.resize(330, 270)
    dvh = replace(one.dvh, doses=np.array([0.0, largest]), volumes_cc=np.array([5.0, 0.0]))
    plot.draw_curves([replace(one, dvh=dvh)], Axes(unit="Gy"), 0.0, np.empty(0))
    plot.show()
    qtbot.wait(20)
    axis = plot.getAxis("bottom")
    image = QImage(400, 60, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    labels = [float(text) for _, _, text in axis.generateDrawSpecs(painter)[2]]
    painter.end()
    assert max(labels) == last_label


def a_dvh(doses):
    """A histogram with these doses at even steps of volume; of none: an empty one."""
    doses = np.asarray(doses, float)
    volumes, mean = np.linspace(10.0, 0.0, len(doses)), float(doses.mean()) if len(doses) else float("nan")
    return Dvh(name="organ", unit="Gy", doses=doses, volumes_cc=volumes, mean=mean)


EMPTY = a_dvh([])


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("reference", [None, 40.0])
def test_a_dose_comes_back_from_its_place(logarithmic, reference):
    axes = Axes(unit="Gy", reference=reference, relative_dose=True, logarithmic=logarithmic)
    doses = np.array([0.02, 1.0, 37.5])
    np.testing.assert_allclose(axes.dose_at_position(axes.position_of_dose(doses)), doses)
    if reference and not logarithmic:
        assert axes.position_of_dose(20.0) == pytest.approx(50.0)


def test_a_logarithmic_curve_begins_at_the_least_positive_dose():
    dvhs = [a_dvh([0.0, 0.5, 20.0]), a_dvh([3.0, 9.0]), EMPTY]
    assert log_start(dvhs) == 0.5
    assert log_start([a_dvh([1e-20, 10.0])]) == pytest.approx(10.0 * 10**-DECADES)
    assert log_start([EMPTY]) == 1.0
    x, y = Axes(unit="Gy", logarithmic=True, relative_volume=False).points_of(dvhs[0], 0.5, np.empty(0))
    np.testing.assert_allclose(x, np.log10([0.5, 20.0]))
    np.testing.assert_allclose(y, [5.0, 0.0])


@pytest.mark.parametrize(("logarithmic", "least"), [(False, 0.5), (True, 0.5), (False, -4.0)])
def test_intervals_hold_every_dose(logarithmic, least):
    dvhs = [a_dvh([least, 20.0]), a_dvh([3.0, 90.0]), EMPTY]
    axes = Axes(unit="Gy", differential=True, logarithmic=logarithmic, relative_volume=False)
    edges = interval_edges(dvhs, axes)
    if least < 0:
        assert edges[0] == least
    for dvh in dvhs:
        assert axes.points_of(dvh, 0.5, edges)[1].sum() == pytest.approx(dvh.volume_cc)
    assert ("equal ratio" if logarithmic else "intervals of 0.9") in axes.interval_text(edges)


def test_ticks_of_a_logarithmic_axis_say_what_they_stand_for():
    axis = DecadeAxis("bottom", DvhPlot.bottom.plain)
    axis.setRange(-3.2, 4.5)
    assert axis.tickStrings([-3.0, -1.0, 0.0, 3.0, 4.0], 1.0, 1.0) == ["10⁻³", "0.1", "1", "1000", "10⁴"]
    axis.setRange(-1.0, 1.0)
    assert axis.tickStrings(list(np.log10([0.2, 0.3, 5.0])), 1.0, 0.1) == ["0.2", "", "5"]


@pytest.mark.parametrize("points", [3, 250, 4097])
def test_a_thinned_curve_looks_like_all_of_it(points):
    """Beside every point that is left out there is a drawn line within 1/125 of width and height."""
    x = np.sort(np.random.default_rng(points).random(points)) ** 2 * 60
    y = 100 / (1 + np.exp((x - 30) / 2))
    y[x > 40] = 0.0  # an edge, which stays one
    few_x, few_y = thin_points(x, y, 250)
    assert (few_x[0], few_y[0], few_x[-1], few_y[-1]) == (x[0], y[0], x[-1], y[-1])
    assert len(few_x) <= min(points, 550)
    assert np.isin(few_x, x).all()
    np.testing.assert_allclose(np.interp(x, few_x, few_y), y, atol=100 / 125)


def test_an_edge_stays_an_edge():
    x = np.linspace(0, 60, 4001)
    y = np.where(x < 40, 100 - x, 0.0)
    few_x, few_y = thin_points(x, y, 250)
    before = np.flatnonzero(few_y > 0)[-1]
    assert (few_x[before], few_x[before + 1]) == (x[x < 40][-1], x[x >= 40][0])


def test_steps_of_intervals_are_all_drawn():
    edges, volumes = np.linspace(0, 1, 1001), np.ones(1000)
    assert thin_points(edges, volumes, 250) == (edges, volumes)
