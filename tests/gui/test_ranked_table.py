"""A table of results that is sorted by any column."""

import math

import pytest
from qtpy.QtCore import Qt

from napari_gpubio.gui.ranked_table import RankedTable
from napari_gpubio.gui.typed_rows import Column

pytestmark = pytest.mark.display
ROWS = [
    {"name": "b", "count": 12, "score": 0.5},
    {"name": "a", "count": 1200, "score": math.nan},
    {"name": "c", "count": 3, "score": 0.0625},
]


class Routes(RankedTable):
    columns = (Column("name", "Route"), Column("count", "Fibers"), Column("score", "Score", "The best."))


@pytest.fixture
def table(qtbot):
    table = Routes()
    qtbot.addWidget(table)
    table.show_rows(ROWS, ["red", "green", "blue"])
    return table


def order(table):
    return "".join(table.item(row, 0).text() for row in range(table.rowCount()))


@pytest.mark.parametrize(("column", "rising"), [(0, "abc"), (1, "cba"), (2, "acb")])
def test_rows_are_sorted_by_value(table, column, rising):
    table.sortByColumn(column, Qt.SortOrder.AscendingOrder)
    assert order(table) == rising
    table.sortByColumn(column, Qt.SortOrder.DescendingOrder)
    assert order(table) == rising[::-1]
    table.show_rows(ROWS[::-1])  # other rows keep the order that was chosen
    assert order(table) == rising[::-1]


def test_a_picked_row_is_reported_by_its_index_whatever_the_order(table, qtbot):
    table.sortByColumn(1, Qt.SortOrder.AscendingOrder)
    with qtbot.waitSignal(table.row_picked) as signal:
        table.selectRow(0)
    assert signal.args == [2] == [table.picked]
    with qtbot.assertNotEmitted(table.row_picked):
        table.pick(1)
    assert table.picked == 1
    assert table.item(table.currentRow(), 0).text() == "a"
    table.pick(-1)
    assert table.picked == -1


def test_the_table_is_copied_as_it_is_sorted(table):
    table.sortByColumn(1, Qt.SortOrder.DescendingOrder)
    lines = table.copied_text().split("\n")
    assert lines == ["Route\tFibers\tScore", "a\t1200\t–", "b\t12\t0.5", "c\t3\t0.0625"]
