"""Typing into the table of optical properties, its keys, the clipboard, and what fits on the screen."""

import pytest
from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QKeyEvent, QWheelEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.gui.optical_model import LABEL_COLUMNS
from napari_gpubio.light.gui.optical_rows import TYPED
from napari_gpubio.light.model import Medium
from tests.light.gui.property_samples import (
    COLORS,
    CONTROL,
    MUA,
    MUS,
    NAME,
    NO_KEY,
    SOURCE,
    G,
    N,
    choose,
    medium,
    open_editor,
)


def enter(editor):
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QApplication.processEvents()  # Qt hands a typed text over from the event loop


def test_typing_is_judged_at_every_key(table):
    table.set_media([medium(3)])
    editor = open_editor(table, 0, MUA)
    QTest.keyClicks(editor, "-0.5")
    assert table.message.text == "label 1 (scalp): µa is -0.5 1/mm; it must be at least 0 1/mm"
    assert not table.heard[1:]
    QTest.keyClick(editor, Qt.Key.Key_Home)
    QTest.keyClick(editor, Qt.Key.Key_Delete)
    assert table.message.text == ""
    enter(editor)
    assert table.media()[0].mua_per_mm == 0.5
    assert table.media()[0].source == TYPED


def test_what_is_wrong_stays_in_the_cell_and_below(table):
    table.set_media([medium(3)])
    editor = open_editor(table, 1, N)
    QTest.keyClicks(editor, "0.9")
    enter(editor)
    assert table.message.text == "label 2 (skull): n is 0.9; it must be at least 1"
    table.view.go_to(0, MUA)
    assert "n is 0.9" in table.message.text
    with pytest.raises(InvalidInput, match=r"label 2 \(skull\): n is 0.9"):
        table.media()
    QTest.mouseClick(table.message._problem, Qt.MouseButton.LeftButton)
    assert (table.view.currentIndex().row(), table.view.currentIndex().column()) == (1, N)


def test_painting_labels_does_not_close_the_editor(table):
    editor = open_editor(table, 2, MUA)
    QTest.keyClicks(editor, "0.0")
    table.set_labels([1, 2, 3], COLORS)
    QTest.keyClicks(editor, "7")
    enter(editor)
    assert table.model.rows[2].mua_per_mm == 0.07


def test_tab_goes_through_the_cells_that_can_be_edited(table):
    table.view.go_to(0, N)
    places = []
    for _ in range(3):
        QTest.keyClick(table.view, Qt.Key.Key_Tab)
        places.append((table.view.currentIndex().row(), table.view.currentIndex().column()))
    shown = [(0, SOURCE)] if not table.view.isColumnHidden(SOURCE) else []
    assert places == [*shown, (1, NAME), (1, MUA), (1, MUS)][:3]
    table.view.go_to(0, NAME)
    QTest.keyClick(table.view, Qt.Key.Key_Backtab)
    assert table.view.currentIndex().row() == 2


def test_copy_and_paste_by_keys(table):
    choose(table, (0, MUA), (0, MUS), (0, G), (0, N))
    QTest.keyClick(table.view, Qt.Key.Key_C, CONTROL)
    assert QApplication.clipboard().text() == "0.0101\t12.5\t0.92\t1.37\n"
    choose(table, (2, MUA))
    QTest.keyClick(table.view, Qt.Key.Key_V, CONTROL)
    assert table.media()[2] == Medium(label=3, mua_per_mm=0.0101, mus_per_mm=12.5, g=0.92, n=1.37, source=TYPED)
    QTest.keyClick(table.view, Qt.Key.Key_Z, CONTROL)
    assert table.model.rows[2].is_empty
    choose(table, (0, MUA), (1, MUA))
    QTest.keyClick(table.view, Qt.Key.Key_Delete)
    assert [row.mua_per_mm for row in table.model.rows] == [None] * 3
    QApplication.clipboard().setText("1\n2\n3\n4\n")
    choose(table, (1, MUA))
    table.view.paste()
    assert [row.mua_per_mm for row in table.model.rows] == [None, 1.0, 2.0]
    assert table.message.text == "2 pasted values lie beyond the table and were left out"


def test_a_shortcut_of_the_window_does_not_take_our_keys(table):
    for key, ours in ((Qt.Key.Key_C, True), (Qt.Key.Key_Z, True), (Qt.Key.Key_O, False)):
        event = QKeyEvent(QEvent.Type.ShortcutOverride, key, CONTROL)
        event.ignore()
        QApplication.sendEvent(table.view, event)
        assert event.isAccepted() is ours


def test_a_narrow_dock_shows_all_numbers_and_a_wide_one_the_sources(table):
    for width, source_shown in ((360, False), (520, True), (360, False)):
        table.resize(width, 400)
        QApplication.processEvents()
        assert table.view.isColumnHidden(SOURCE) is not source_shown
        header = table.view.horizontalHeader()
        assert header.length() <= table.view.viewport().width()
        assert all(header.sectionSize(c) >= 30 for c in range(len(LABEL_COLUMNS) - 1))


def test_numbers_are_never_cut(table):
    table.set_media([medium(1, mua=0.0007143), medium(2, mua=0.01185), medium(3, mua=12345.678)])
    for unit in ("1/mm", "1/cm"):
        table.set_unit(unit)
        for row in range(3):
            for column in range(MUA, SOURCE):
                text = table.model.data(table.model.index(row, column))
                needed = table.view.fontMetrics().horizontalAdvance(text) + 6
                assert table.view.columnWidth(column) >= needed, text


def test_the_wheel_scrolls_past_the_inputs(table):
    table.view.setFocus()
    for box in (table._wavelength, table.unit_box):
        middle = QPointF(box.rect().center())
        turn = QWheelEvent(
            middle, QPointF(box.mapToGlobal(middle.toPoint())), QPoint(0, 0), QPoint(0, -120),
            Qt.MouseButton.NoButton, NO_KEY, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(box, turn)
    assert (table.wavelength_nm, table.unit) == (690.0, "1/mm")


def test_many_labels_scroll(table):
    table.set_labels(range(1, 201), {})
    rows = table.view.verticalHeader()
    assert table.view.height() < 14 * rows.defaultSectionSize()
    assert table.view.verticalScrollBar().maximum() > 0
    table.select_label(200)
    assert table.view.rowAt(table.view.viewport().height() - rows.defaultSectionSize() // 2) == 199


def test_it_fits_a_dock_of_the_width_of_a_panel(empty_table):
    assert empty_table.minimumSizeHint().width() <= 300
