"""The plots of a light result: axes, profile, detectors, and the dock they open in."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pyqtgraph
import pytest
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QComboBox, QDockWidget

from napari_gpubio.core.numbers import number_text
from napari_gpubio.core.space import apply_affine
from napari_gpubio.gui.plots import DecadeAxis
from napari_gpubio.gui.theme import CURVES
from napari_gpubio.light.gui.displayed import DisplayOptions, display_voxels
from napari_gpubio.light.gui.plots import TITLE, PlotController, PlotWindow
from napari_gpubio.light.gui.plots_axes import LogPlot
from napari_gpubio.light.gui.plots_detectors import NONE, NOTHING, few_text
from napari_gpubio.light.gui.plots_profile import DRAW, DRAWN, EMPTY
from napari_gpubio.light.napari_io import fluence_layer
from napari_gpubio.light.profile import depth_profile, detector_profile, line_profile, theory_curve
from napari_gpubio.light.statistics import detector_numbers, time_spread
from napari_gpubio.optics.estimates import PER_PHOTON, fluence_units
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.sources import Line, Pencil
from tests.dock_widgets import MILLISECONDS
from tests.light.plot_samples import axis_texts, close, draw, drawn_curves
from tests.light.result_samples import sample_result

POWER = fluence_units(power_mw=5.0)[1]


@pytest.fixture
def window(qtbot, viewer):
    """The plots by themselves; they draw only while they are on screen."""
    window = PlotWindow(PublicOnlyProxy(viewer))
    qtbot.addWidget(window)
    window.profile.line.attach()
    window.resize(800, 400)
    window.show()
    yield window
    window.finish()


def plot(window, result, unit):
    window.display("voxels", display_voxels(result, DisplayOptions(unit=unit)))


def curves(plot):
    """Curves by the first word of their legend."""
    return {name.split(" ")[0]: drawn for name, drawn in drawn_curves(plot).items()}


def test_without_a_result_it_says_what_to_do(window):
    assert window.profile.hint == EMPTY
    window.tabs.setCurrentIndex(1)
    assert window.detectors.hint == EMPTY
    assert window.profile.profile is None
    assert not curves(window.profile.plot)


def test_depth_comes_first_with_theory_beside_it_and_where_tissues_begin(window, result):
    plot(window, result, POWER)
    profile = depth_profile(result)
    theory = theory_curve(result, profile.points_mm)
    drawn = curves(window.profile.plot)
    assert close(drawn["simulation"][1], 5.0 * profile.fluence)
    assert np.allclose(drawn["simulation"][0], profile.distance_mm)
    assert close(drawn["diffusion"][1], np.where(theory.valid, 5.0 * theory.fluence, 0.0))
    assert axis_texts(window.profile.plot) == ["Depth along the source's direction (mm)", "Fluence (mW/mm²)"]
    assert window.profile.hint == ""
    legend = " ".join(label.text for _, label in window.profile.plot.legend.items)
    assert "diffusion theory for scalp alone" in legend
    assert "flat surface at the source" in legend
    assert f"valid from {theory_curve(result, [[0, 0, -5]]).valid_from_mm:.2g} mm on" in legend
    lines = [x for x in window.profile.plot.getPlotItem().items if isinstance(x, pyqtgraph.InfiniteLine)]
    assert sorted(line.value() for line in lines) == pytest.approx([0, 4, 9, 11, 15], abs=0.3)
    assert {"scalp", "skull", "white matter"} <= {line.label.format for line in lines}


def test_from_the_source_to_a_detector_also_of_the_next_result_if_it_can(window, result):
    plot(window, result, PER_PHOTON)
    along = window.profile.findChild(QComboBox)
    offered = [along.itemText(i) for i in range(along.count())]
    assert offered[2:] == ["source → D1", "source → D2"]
    window.profile.choose(1)
    assert close(curves(window.profile.plot)["simulation"][1], detector_profile(result, 1).fluence)
    assert axis_texts(window.profile.plot)[0] == "Distance from the source (mm)"
    other = sample_result((40, 40, 24), detectors=(8.0, 12.0), seed=2)
    plot(window, other, PER_PHOTON)
    assert close(curves(window.profile.plot)["simulation"][1], detector_profile(other, 1).fluence)
    plot(window, dataclasses.replace(other, detectors=()), PER_PHOTON)
    assert along.count() == 2
    assert axis_texts(window.profile.plot)[0].startswith("Depth")


def test_why_there_is_no_theory_is_said_and_the_profile_is_there(window, result):
    lined = dataclasses.replace(result, source=Line(position_mm=(0, 0, -5.0), direction=(0, 0, -1)))
    plot(window, lined, PER_PHOTON)
    assert "'line'" in window.profile.hint
    assert set(curves(window.profile.plot)) == {"simulation"}
    plot(window, dataclasses.replace(result, source=Pencil(direction=(0, 0, 1.0))), PER_PHOTON)
    assert "hits no tissue" in window.profile.hint
    assert not curves(window.profile.plot)
    plot(window, result, PER_PHOTON)
    assert window.profile.hint == ""


def test_a_line_is_drawn_with_naparis_own_tool_and_followed(window, viewer, result):
    plot(window, result, PER_PHOTON)
    window.profile.choose(DRAWN)
    assert window.profile.hint == DRAW
    layer = viewer.layers["profile line"]
    assert str(layer.mode) == "add_line"
    assert viewer.layers.selection.active is layer
    start, end = (-6.5, 0.5, -2.5), (8.5, 0.5, -20.5)
    draw(viewer, result, start, end)
    drawn = curves(window.profile.plot)["simulation"]
    assert drawn[0][-1] == pytest.approx(np.linalg.norm(np.subtract(end, start)), rel=1e-5)
    assert np.allclose(drawn[1], line_profile(result, start, end).fluence, rtol=1e-3)
    assert window.profile.hint == ""
    moved = [np.array(layer.data[0])]
    moved[0][1] += (2.0, 0.0, -3.0)
    layer.data = moved
    start, end = window.profile.line.ends_mm()
    assert end == pytest.approx((5.5, 0.5, -18.5))
    assert np.allclose(window.profile.profile.fluence, line_profile(result, start, end).fluence)
    draw(viewer, result, (0.5, 0.5, -1.5), (0.5, 9.5, -1.5))  # the newest line counts
    assert window.profile.profile.distance_mm[-1] == pytest.approx(9.0, rel=1e-5)
    viewer.layers.remove("profile line")
    assert window.profile.hint == DRAW
    assert window.profile.profile is None


def test_another_slice_draws_nothing_anew(window, viewer, result):
    data, keywords, _ = fluence_layer(result, "head")
    viewer.add_image(data, **keywords)
    plot(window, result, PER_PHOTON)
    window.profile.choose(DRAWN)
    draw(viewer, result, (-6.5, 0.5, -2.5), (8.5, 0.5, -2.5))
    changes = []
    window.profile.line.changed.connect(lambda: changes.append(1))
    for z in (-3.5, -4.5, -2.5):
        viewer.dims.set_point(0, z)
    viewer.layers["profile line"].edge_color = "red"
    assert changes == []
    was = window.profile.profile
    window.profile.choose("depth")
    draw(viewer, result, (0.5, 0.5, -1.5), (0.5, 9.5, -1.5))
    assert changes == [1]
    assert window.profile.profile.distance_mm[-1] != was.distance_mm[-1]
    assert axis_texts(window.profile.plot)[0].startswith("Depth")


def test_a_line_over_an_oblique_volume_is_where_it_was_drawn(window, viewer, result):
    """Straightened by the viewer, sagittal in the file: the same voxels are met."""
    c, s = np.cos(0.1), np.sin(0.1)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    affine = np.eye(4)
    affine[:3, :3] = turn @ np.array([[0, 0, 1.0], [-0.5, 0, 0], [0, 2.0, 0]])
    affine[:3, 3] = (4.0, -3.0, 9.0)
    domain = Domain(labels=result.domain.labels, affine=affine, media=result.domain.media)
    oblique = dataclasses.replace(result, domain=domain)
    plot(window, oblique, PER_PHOTON)
    window.profile.choose(DRAWN)
    start, end = apply_affine(affine, [[3, 4, 5], [30, 31, 20]])
    draw(viewer, oblique, start, end)
    assert np.allclose(window.profile.line.ends_mm(), [start, end], atol=1e-4)
    first, last = window.profile.profile.fluence[[0, -1]]
    assert (first, last) == pytest.approx((result.fluence[3, 4, 5], result.fluence[30, 31, 20]), rel=1e-3)


def test_a_line_that_is_in_a_slice_lies_on_a_whole_number(window, viewer, result):
    plot(window, result, PER_PHOTON)
    window.profile.choose(DRAWN)
    layer = draw(viewer, result, *apply_affine(result.domain.affine, [(3, 7, 5), (9, 7, 8)]))
    assert np.array(layer.data[0])[:, 1] == pytest.approx([7, 7], abs=1e-5)


def test_detectors_have_a_curve_and_a_row_each_which_can_be_copied(qtbot, window, result):
    plot(window, result, PER_PHOTON)
    window.tabs.setCurrentIndex(1)
    found, table = window.detectors, window.detectors.table
    qtbot.waitUntil(lambda: table.rowCount() > 0, timeout=MILLISECONDS)
    drawn = curves(found.plot)
    for index, name in enumerate(("D1", "D2")):
        spread = time_spread(result.detected.of(index))
        assert np.allclose(drawn[name][0], spread.time_ns)
        assert close(drawn[name][1], spread.weight)
    assert axis_texts(found.plot) == ["Time of flight (ns)", "Detected weight (1/ns)"]
    titles = [table.horizontalHeaderItem(i).text() for i in range(table.columnCount())]
    assert titles[:4] == ["Detector", "Photons", "Detected weight", "Separation (mm)"]
    for row, numbers in enumerate(detector_numbers(result)):
        texts = dict(zip(titles, (table.item(row, i).text() for i in range(len(titles))), strict=True))
        assert texts["DPF"] == number_text(*numbers.dpf)
        assert texts["Photons"] == f"{numbers.photons:,}"
        assert texts["Path in skull (mm)"] == number_text(*numbers.path_mm[2])
    assert found.hint == ""
    table.selectRow(1)
    qtbot.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = [line.split("\t") for line in QApplication.clipboard().text().split("\n")]
    assert [line[0] for line in lines] == ["Detector", "D2"]
    table.clearSelection()
    assert len(table.copied_text().split("\n")) == 3


def test_no_detectors_and_nothing_detected(qtbot, window, result):
    window.tabs.setCurrentIndex(1)
    plot(window, dataclasses.replace(result, detectors=()), PER_PHOTON)
    assert window.detectors.hint == NONE
    far = sample_result((10, 10, 10), detectors=(80.0,))
    plot(window, far, PER_PHOTON)
    qtbot.waitUntil(lambda: window.detectors.hint == NOTHING, timeout=MILLISECONDS)
    assert window.detectors.table.item(0, 2).text() == "0"
    assert window.detectors.table.item(0, 4).text() == "–"
    window.display("voxels", None)
    assert window.detectors.hint == EMPTY


@pytest.mark.daily
@pytest.mark.display
def test_curves_are_seen(qtbot, window, result):
    plot(window, result, PER_PHOTON)
    qtbot.waitExposed(window)
    pixels = window.profile.plot.grab().toImage()
    seen = {
        pixels.pixelColor(x, y).name() for x in range(70, pixels.width() - 200) for y in range(pixels.height() - 50)
    }
    assert {CURVES[0], CURVES[1]} <= seen


def test_detectors_with_few_photons_are_named():
    caught = (SimpleNamespace(name="D1", photons=30), SimpleNamespace(name="D2", photons=3))
    assert few_text(caught).startswith("D2: fewer than 30 photons")
    assert few_text(caught[:1]) == ""


def test_ticks_are_powers_of_ten_and_between_few_of_them_twos_and_fives(qtbot):
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
    # within two decades, twos and fives are written, too
    axis.setRange(-3.5, -2.0)
    _, (fine, between) = axis.tickValues(-3.5, -2.0, 200)
    assert [text for text in axis.tickStrings(between, 1.0, fine) if text] == ["5·10⁻⁴", "2·10⁻³", "5·10⁻³"]


def test_what_is_not_positive_leaves_a_gap(qtbot):
    plot = LogPlot()
    qtbot.addWidget(plot)
    x, y = np.arange(6.0), np.array([1.0, 0.1, 0.0, -1.0, 0.01, 0.02])
    plot.add_curve(x, y, error=np.array([0.5, 0.2, 0.1, 0.1, np.nan, 0.01]), color=CURVES[0], name="a")
    assert np.isnan(drawn_curves(plot)["a"][1]).tolist() == [False, False, True, True, False, False]
    bands = [item for item in plot.getPlotItem().items if isinstance(item, pyqtgraph.FillBetweenItem)]
    (band,) = bands  # a single sample has no band
    low, high = (10.0 ** band.curves[i].yData for i in (0, 1))
    assert high == pytest.approx([1.5, 0.3])
    assert low == pytest.approx([0.5, 1e-4])  # down to 0, which has no logarithm
    plot.frame(x, 0.01)
    assert plot.viewRange()[1] == pytest.approx([-2.12, 0.12], abs=0.01)
    plot.frame(x, 1e-30)
    assert plot.viewRange()[1][0] > -9
    plot.empty()
    assert not plot.getPlotItem().items
    assert not plot.legend.items


def test_a_curve_whose_values_are_all_doubtful_is_framed(qtbot):
    plot = LogPlot()
    qtbot.addWidget(plot)
    x = np.arange(3.0)
    plot.add_curve(x, np.array([1.0, 0.1, 0.5]), color=CURVES[0], name="a", dashed=True)
    plot.frame(x, np.inf)  # no value is known
    low, high = plot.viewRange()[1]
    assert low < 0.0 < high < 1.0


def test_the_window_is_made_when_it_is_opened_and_drawn_while_it_is_on_screen(qtbot, viewer, result):
    controller, displayed = PlotController(viewer), display_voxels(result, DisplayOptions())
    controller.display("voxels", displayed)
    assert controller.window is None
    controller.open()
    window = controller.window
    qtbot.waitExposed(window)
    assert window.profile.profile is not None
    window.hide()
    controller.display("voxels", None)
    assert window.profile.profile is not None
    controller.open()
    assert controller.window is window
    assert window.profile.profile is None
    controller.detach()
    assert controller.window is None
    assert not window.isVisible()
    controller.detach()  # nothing is left to do


@pytest.mark.display
def test_they_are_docked_below_and_come_back(make_window, qtbot, result):
    viewer = make_window(proxied=True)
    controller = PlotController(viewer)
    controller.display("voxels", display_voxels(result, DisplayOptions()))
    controller.open()
    dock = controller.window.parentWidget()
    assert isinstance(dock, QDockWidget)
    assert dock.windowTitle() == TITLE or dock.name == TITLE
    main = dock.parent()
    assert main.dockWidgetArea(dock) == Qt.DockWidgetArea.BottomDockWidgetArea
    dock.hide()
    controller.open()
    assert not dock.isHidden()
    dock.destroyOnClose()  # the cross in its title bar
    assert controller.window.parentWidget() is None
    controller.open()
    assert isinstance(controller.window.parentWidget(), QDockWidget)
    controller.detach()
    qtbot.wait(20)
    assert TITLE not in [one.name for one in main.findChildren(QDockWidget)]
