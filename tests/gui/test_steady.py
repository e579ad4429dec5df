"""A panel under the mouse and the keys: what is pressed and the header stay, Tab goes down, the focus is seen."""

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtCore import QEvent, QPoint, Qt
from qtpy.QtGui import QColor
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QAbstractSlider, QAbstractSpinBox, QApplication, QScrollBar, QSlider, QSpinBox

from napari_gpubio.gui import theme
from napari_gpubio.gui.accessible import controls_of
from napari_gpubio.gui.forms import Label, WrappedLabel
from napari_gpubio.gui.switcher import Switcher
from tests import panel_walk
from tests.gui.counting_panel import CountingPanel

LONG = "why this is so, and what to do about it, " * 6
HEIGHT = 500


@pytest.fixture
def panel(qtbot):
    panel = CountingPanel(ViewerModel())
    panel.above, panel.slider, panel.box = WrappedLabel("", panel), QSlider(Qt.Orientation.Horizontal), QSpinBox(panel)
    panel.header.addRow("Count in", QSpinBox(panel))
    for part in (panel.above, panel.slider, panel.box):
        panel.inputs.addWidget(part)
    qtbot.addWidget(panel)
    panel.resize(340, HEIGHT)
    with qtbot.waitExposed(panel):
        panel.show()
    yield panel
    panel.teardown()


def make_longer(panel):
    for number in range(40):
        panel.inputs.addWidget(Label(f"row {number}", panel))


def place(panel, control):
    return control.mapTo(panel, QPoint(0, 0)).y()


def press(control):
    QTest.mousePress(control, Qt.MouseButton.LeftButton, pos=QPoint(4, control.height() // 2))


def release(control):
    QTest.mouseRelease(control, Qt.MouseButton.LeftButton)


@pytest.mark.parametrize("is_long", [False, True])
@pytest.mark.parametrize("scrolled", [0, 30, 10_000])
def test_what_is_pressed_stays_while_texts_above_come_and_go(panel, qtbot, is_long, scrolled):
    panel.above.setText(LONG)
    if is_long:
        make_longer(panel)
    qtbot.wait(20)
    panel._scroll.verticalScrollBar().setValue(scrolled)
    before = place(panel, panel.slider)
    press(panel.slider)
    for text in ("", LONG * 2, "short", LONG):
        panel.above.setText(text)
        panel.above.setVisible(bool(text))
        qtbot.waitUntil(lambda: not panel._scroll._later.isActive())
        qtbot.wait(5)
        assert place(panel, panel.slider) == before, text
    release(panel.slider)
    panel.above.hide()
    qtbot.wait(5)
    assert place(panel, panel.slider) == before, "clicked again, it is still there"
    QApplication.sendEvent(panel.slider, QEvent(QEvent.Type.Leave))
    qtbot.wait(5)
    assert panel.inputs.contentsMargins().top() == panel.inputs.contentsMargins().bottom()


def test_what_is_pressed_may_be_deleted_before_it_is_let_go(panel, qtbot):
    press(panel.slider)
    with qtbot.waitSignal(panel.slider.destroyed):
        panel.slider.deleteLater()
    panel.above.setText(LONG)
    qtbot.wait(20)
    press(panel.box)
    release(panel.box)


def test_messages_do_not_cover_what_is_pressed_nor_move_the_buttons(panel, qtbot):
    make_longer(panel)
    bottom, button = panel._scroll.height(), place(panel, panel.run_button)
    press(panel.box)
    panel.show_note(LONG)
    panel.show_status(LONG)
    qtbot.wait(5)
    assert panel._scroll.height() == bottom
    release(panel.box)
    qtbot.waitUntil(lambda: panel._scroll.height() < bottom)
    assert place(panel, panel.run_button) == button
    panel.clear_message()
    panel.show_status("")
    qtbot.waitUntil(lambda: panel._scroll.height() == bottom)
    panel.show_status("done in 1 s")
    qtbot.wait(5)
    assert panel._scroll.height() == bottom, "there is room for a line"


@pytest.mark.display
def test_dragging_a_filter_of_fibers_leaves_it_under_the_mouse(window_with_layers, qtbot):
    with panel_walk.shown_panel(window_with_layers, "Fiber tracking") as panel:
        results = panel.results
        results.describe_layer(window_with_layers.layers["fibers 1"])
        slider = results._range
        qtbot.waitUntil(slider.isVisible)
        panel._scroll.ensureWidgetVisible(slider)
        qtbot.wait(200)
        inner = slider._slider
        before, rows, numbers = place(panel, inner), len(results.table.rows), set()
        QTest.mousePress(inner, Qt.MouseButton.LeftButton, pos=QPoint(inner.height() // 2, inner.height() // 2))
        for x in np.linspace(10, inner.width() - 10, 9).astype(int):
            QTest.mouseMove(inner, QPoint(int(x), inner.height() // 2))
            qtbot.wait(60)
            numbers.add(len(results.table.rows))
            assert place(panel, inner) == before
        QTest.mouseRelease(inner, Qt.MouseButton.LeftButton)
        assert numbers - {rows}, "other rows came above it"


@pytest.mark.display
@pytest.mark.parametrize("name", panel_walk.PANELS)
def test_in_every_panel_what_is_pressed_stays_and_the_header_does(window_with_layers, qtbot, name):
    with panel_walk.shown_panel(window_with_layers, name) as panel:
        first = Label(LONG, panel, wordWrap=True)
        controls = [
            one
            for one in panel._content.findChildren((QAbstractSlider, QAbstractSpinBox))
            if one.isVisible() and one.isEnabled() and not isinstance(one, QScrollBar)
        ]
        heads = [panel.header.itemAt(index).geometry().top() for index in range(panel.header.count())]
        assert heads, "the main input is above what scrolls"
        for control in controls[:1]:
            panel._scroll.ensureWidgetVisible(control)
            qtbot.wait(20)
            before = place(panel, control)
            press(control)
            panel.inputs.insertWidget(0, first)
            panel.show_note(LONG)
            qtbot.wait(20)
            qtbot.waitUntil(lambda control=control, before=before: place(panel, control) == before)
            release(control)
            first.hide()
            qtbot.wait(20)
            qtbot.waitUntil(lambda control=control, before=before: place(panel, control) == before)
        panel._scroll.verticalScrollBar().setValue(10_000)
        assert [panel.header.itemAt(index).geometry().top() for index in range(panel.header.count())] == heads


@pytest.mark.display
@pytest.mark.parametrize("name", panel_walk.PANELS)
def test_tab_goes_from_the_top_to_the_bottom_and_the_focus_is_seen(window_with_layers, qtbot, name):
    with panel_walk.shown_panel(window_with_layers, name) as panel:
        qtbot.waitUntil(lambda: not panel._naming.isActive())
        panel.window().activateWindow()
        qtbot.waitUntil(panel.isActiveWindow)
        panel.findChild(Switcher).setFocus()
        seen, before, ordered = [], -1, controls_of(panel)
        for _ in range(400):
            control = QApplication.focusWidget()
            if control is None or not panel.isAncestorOf(control) or (control in seen and control is not seen[-1]):
                break
            assert panel._ring.isVisible()
            assert panel._ring.widget() is control
            if panel._content.isAncestorOf(control) and control in ordered:
                top = control.mapTo(panel._content, QPoint(0, 0)).y()
                assert top + control.height() > before, (control, seen[-1])
                before = top
            if not seen or control is not seen[-1]:  # Tab goes through the cells of a table
                seen.append(control)
            QTest.keyClick(control, Qt.Key.Key_Tab)
        assert len(seen) > 4
        zones = [0 if place(panel, one) < panel._scroll.y() else 2 for one in seen]
        zones = [1 if panel._content.isAncestorOf(one) else zone for one, zone in zip(seen, zones, strict=True)]
        assert zones == sorted(zones)
        assert panel.run_button in seen or not panel.run_button.isEnabled()


@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_frame_of_the_focus_has_a_color_that_one_sees(panel, qtbot, name):
    theme.use(name)
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow)
    panel.box.setFocus()
    qtbot.waitUntil(panel._ring.isVisible)
    around = panel.grab().toImage()
    place_of = panel._ring.mapTo(panel, QPoint(panel._ring.width() // 2, 0))
    shown = around.pixelColor(place_of)
    assert theme.contrast(shown.name(), QColor(theme.ACCENT).name()) < 1.3


# -- one status line --------------------------------------------------------------------------------------------------


def test_an_error_takes_the_place_of_what_was_done_and_a_success_that_of_an_error(panel):
    panel.show_status("saved a.trk")
    panel.show_error("a.trk could not be written; choose another folder")
    assert panel.status == ""
    panel.show_status("saved b.trk")
    assert panel.message == ""
    panel.show_note("one fiber had no points")
    assert (panel.status, panel.message) == ("saved b.trk", "one fiber had no points")


def test_an_error_stays_while_a_run_goes_on(panel):
    panel.show_progress("photons 3 of 20")
    panel.show_error("the table could not be written")
    panel.show_progress("photons 4 of 20")
    assert (panel.status, panel.message) == ("photons 4 of 20", "the table could not be written")


@pytest.mark.parametrize("act", ["press", "key"])
def test_what_was_said_ends_with_the_next_thing_that_the_user_does(panel, act):
    panel.show_status("done in 1 s")
    panel.show_error("choose two regions")
    QTest.mouseClick(panel._message, Qt.MouseButton.LeftButton)  # to copy it
    QTest.keyClick(panel.box, Qt.Key.Key_Tab)
    assert panel.message == "choose two regions"
    if act == "press":
        press(panel.box)
        release(panel.box)
    else:
        QTest.keyClick(panel.box, Qt.Key.Key_5)
    assert (panel.status, panel.message) == ("", "")
