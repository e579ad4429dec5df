"""A matrix of colored cells."""

import numpy as np
import pytest
from qtpy.QtCore import QPoint, QPointF, Qt

from napari_gpubio.gui.matrix_plot import MatrixPlot

pytestmark = pytest.mark.display
VALUES = np.array([[0.0, 120.0, np.nan], [120.0, 4.0, 1.5], [np.nan, 1.5, 0.0]])
NAMES = ["thalamus", "caudate", "putamen"]


@pytest.fixture
def plot(qtbot):
    plot = MatrixPlot()
    qtbot.addWidget(plot)
    plot.resize(400, 400)
    plot.show()
    plot.show_matrix(VALUES, NAMES, "fibers")
    qtbot.waitExposed(plot)
    return plot


def position_of(plot, row, column):
    return plot.mapFromScene(plot.plotItem.vb.mapViewToScene(QPointF(column, row)))


def test_each_cell_has_the_color_of_its_value_row_0_on_top(plot, qtbot):
    qtbot.wait(50)
    picture = plot.grab().toImage()
    colors = {}
    for row in range(3):
        for column in range(3):
            at = position_of(plot, row, column)
            colors.setdefault(picture.pixelColor(QPoint(round(at.x()), round(at.y()))).name(), []).append((row, column))
    groups = sorted(map(sorted, colors.values()))
    assert groups == [[(0, 0), (0, 2), (2, 0), (2, 2)], [(0, 1), (1, 0)], [(1, 1)], [(1, 2), (2, 1)]]
    assert position_of(plot, 0, 0).y() < position_of(plot, 2, 0).y()


def test_a_click_picks_a_cell(plot, qtbot):
    with qtbot.waitSignal(plot.cell_picked) as signal:
        qtbot.mouseClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=position_of(plot, 2, 1))
    assert signal.args == [2, 1]


@pytest.mark.parametrize(
    ("cell", "text"), [((0, 1), "thalamus – caudate: 120 fibers"), ((2, 0), "putamen – thalamus: – fibers")]
)
def test_the_cell_under_the_mouse_is_reported(plot, qtbot, cell, text):
    assert plot.text_of(*cell) == text
    with qtbot.waitSignal(plot.cell_hovered, check_params_cb=lambda line: line == text):
        plot.scene().sigMouseMoved.emit(plot.mapToScene(position_of(plot, *cell)))
    with qtbot.waitSignal(plot.cell_hovered, check_params_cb=lambda line: line == ""):
        plot.scene().sigMouseMoved.emit(QPointF(-50, -50))


@pytest.mark.parametrize("count", [3, 21, 84])
def test_as_many_rows_and_columns_are_named_as_have_room(plot, qtbot, count):
    plot.resize(340, 340)
    names = [f"region {n}" for n in range(count)]
    plot.show_matrix(np.ones((count, count)), names, "fibers")
    qtbot.wait(50)
    ticks = plot.getAxis("left")._tickLevels[0]
    assert plot.getAxis("bottom")._tickLevels[0] == ticks
    assert dict(ticks)[0] == "region 0"
    places = [plot.plotItem.vb.mapViewToScene(QPointF(0, n)).y() for n, _ in ticks]
    assert min(np.diff(places)) >= 0.9 * plot.fontMetrics().height()
    assert len(ticks) >= min(count, 8)


def test_values_over_decades_are_colored_by_their_logarithm(plot):
    plot.show_matrix([[0, 1], [100, 10]], ["a", "b"], "", logarithmic=True)
    np.testing.assert_array_equal(plot._image.image, [[np.nan, 0], [2, 1]])
    plot.show_matrix(np.zeros((2, 2)), ["a", "b"], "")  # nothing at all
    assert np.isnan(plot._image.image).all()
