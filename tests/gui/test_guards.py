"""The wheel over every control of every dock widget."""

import subprocess
import sys

import pytest
from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import QApplication, QComboBox, QLineEdit, QScrollArea, QSlider, QTableWidget, QVBoxLayout, QWidget

from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.guards import WheelGuard
from tests import panel_walk

pytestmark = pytest.mark.display


@pytest.mark.daily
@pytest.mark.parametrize("name", panel_walk.PANELS)
def test_the_wheel_changes_nothing_in_a_panel(window_with_layers, qtbot, name):
    with panel_walk.shown_panel(window_with_layers, name) as panel:
        window_with_layers.window._qt_window.setFocus()
        check_controls(panel, least=1 if name in ("Session", "BIDS dataset") else 4)


def check_controls(panel, least):
    seen = set()
    for page in panel_walk.pages(panel):
        area = panel_walk.scroll_area(panel)
        for control in panel_walk.controls(panel):
            if control in seen:
                continue
            seen.add(control)
            assert control.focusPolicy() != Qt.FocusPolicy.WheelFocus, (page, control, control.toolTip())
            if area is not None:
                area.ensureWidgetVisible(control)
                panel_walk.let_live()  # the column may have become shorter since
            if control.visibleRegion().isEmpty():
                continue
            before = panel_walk.state(panel)
            for notches in (-1, 1):
                check_scrolls(area, control, notches)
                assert panel_walk.state(panel) == before, (page, control, control.toolTip())
    assert len(seen) >= least


def check_scrolls(area, control, notches):
    bar = area.verticalScrollBar() if area is not None else None
    lies_inside = area is not None and area.isAncestorOf(control)
    start = bar.value() if lies_inside else 0
    panel_walk.turn_wheel_at(control, notches)
    if lies_inside:
        could = start < bar.maximum() if notches < 0 else start > bar.minimum()
        is_shorter = bar.maximum() < start  # since a row has gone that this one makes needless
        assert (bar.value() != start) == could or is_shorter, control.toolTip()
        bar.setValue(start)


@pytest.fixture
def scrolled(qtbot):
    """A list, a number and a table in what scrolls, below a line that has the focus."""
    area, inside, line = QScrollArea(), QWidget(), QLineEdit()
    qtbot.addWidget(area)
    column = QVBoxLayout(inside)
    column.addWidget(line)
    area.setWidget(inside)
    area.setWidgetResizable(True)
    area.resize(200, 200)
    WheelGuard(area)
    yield area, column
    area.close()


def shown(qtbot, area):
    area.show()
    qtbot.waitExposed(area)
    area.activateWindow()
    line = area.findChild(QLineEdit)
    line.setFocus()
    qtbot.waitUntil(line.hasFocus)


def test_what_was_clicked_follows_the_wheel(qtbot, scrolled):
    area, column = scrolled
    number = NumberBox(0.0, 10.0, 1.0, 2)
    choice, slider = QComboBox(), QSlider()
    choice.addItems(["a", "b", "c"])
    table = QTableWidget(100, 1)
    for widget in (number, choice, slider, table):
        column.addWidget(widget)
    shown(qtbot, area)
    values = (number.value, choice.currentIndex, slider.value, table.verticalScrollBar().value)
    for widget, value in zip((number, choice, slider, table), values, strict=True):
        before = value()
        area.ensureWidgetVisible(widget)
        panel_walk.turn_wheel_at(widget, -1)
        panel_walk.turn_wheel_at(widget, 1)
        assert value() == before
        widget.setFocus()
        qtbot.waitUntil(widget.hasFocus)
        panel_walk.turn_wheel_at(widget, 1 if widget in (number, slider) else -1)
        assert value() != before
        assert QApplication.focusWidget() is not None


def test_a_control_that_is_added_later_is_guarded(qtbot, scrolled):
    area, column = scrolled
    shown(qtbot, area)
    late, choice = QWidget(), QComboBox()
    choice.addItems(["a", "b"])
    QVBoxLayout(late).addWidget(choice)
    column.addWidget(late)
    qtbot.waitUntil(choice.isVisible)
    panel_walk.turn_wheel_at(choice, -1)
    assert choice.currentIndex() == 0
    assert choice.focusPolicy() == Qt.FocusPolicy.StrongFocus


def test_an_event_that_does_not_name_the_control_that_was_added_guards_it_all_the_same(qtbot):
    """As where PyQt takes the event for another one that was at its address."""
    part = QWidget()
    qtbot.addWidget(part)
    guard = WheelGuard(part)
    late = QSlider(part)
    guard.eventFilter(part, QEvent(QEvent.Type.ChildPolished))
    assert late.focusPolicy() == Qt.FocusPolicy.StrongFocus


WINDOWS_LEFT_OPEN = """
from qtpy.QtWidgets import QApplication, QSpinBox, QWidget
from napari_gpubio.gui.guards import WheelGuard

app = QApplication([])
windows = [QWidget() for _ in range(100)]
boxes = [QSpinBox(window) for window in windows for _ in range(40)]
guards = [WheelGuard(window) for window in windows]
for window in windows:
    window.show()
app.processEvents()
"""


def test_a_script_that_leaves_guarded_windows_open_ends_well():
    done = subprocess.run([sys.executable, "-c", WINDOWS_LEFT_OPEN], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
