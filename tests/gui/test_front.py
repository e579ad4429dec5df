"""Clicks, keys and live runs belong to the panel in front, and to no other one."""

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QMainWindow, QMessageBox

from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.operations import SphereRegion
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.picking import MouseTool
from tests.dock_widgets import Mouse
from tests.gui.counting_panel import SECONDS, CountingPanel, finished


class ClickTool(MouseTool):
    """Counts the presses that it may take."""

    hint = "Click: count"

    def __init__(self, viewer, panel):
        super().__init__(viewer, panel)
        self.presses = 0

    def pressed(self, event):
        self.presses += 1
        yield


class ClickedPanel(CountingPanel):
    """A panel with a tool."""

    def __init__(self, viewer):
        super().__init__(viewer)
        self.tool = self.own(ClickTool(viewer, self))


class Keys(QMainWindow):
    """Notes the keys that reach a window."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def keyPressEvent(self, event):  # noqa: N802 - Qt's name
        self.keys.append(Qt.Key(event.key()))

    keyReleaseEvent = keyPressEvent  # noqa: N815


@pytest.fixture
def viewer():
    return ViewerModel(ndisplay=2)


@pytest.fixture
def panels(qtbot, viewer):
    panels = [ClickedPanel(viewer) for _ in range(3)]
    for panel in panels:
        qtbot.addWidget(panel)
    yield panels
    for panel in panels:
        panel.teardown()


def clicks(viewer, panels):
    """How many presses each panel took of one click."""
    before = [panel.tool.presses for panel in panels]
    Mouse(viewer).click((0, 0, 0))
    return [panel.tool.presses - one for panel, one in zip(panels, before, strict=True)]


def test_the_panel_opened_last_has_the_clicks(viewer, panels):
    assert clicks(viewer, panels) == [0, 0, 1]


def test_a_panel_that_comes_to_the_front_takes_the_clicks_and_one_that_is_hidden_lets_go(viewer, panels):
    first, second, third = panels
    for panel in panels:
        panel.show()
    first.come_to_front()
    assert clicks(viewer, panels) == [1, 0, 0]
    first.hide()
    assert clicks(viewer, panels) == [0, 0, 1]
    third.hide()
    second.hide()
    assert clicks(viewer, panels) == [0, 0, 0]
    second.show()
    assert clicks(viewer, panels) == [0, 1, 0]


def test_a_press_in_a_panel_brings_it_to_the_front(qtbot, viewer, panels):
    for panel in panels:
        panel.show()
    qtbot.mouseClick(panels[0].bar, Qt.MouseButton.LeftButton)
    assert clicks(viewer, panels) == [1, 0, 0]


def test_a_closed_panel_gives_the_clicks_to_the_one_before(viewer, panels):
    panels[1].come_to_front()
    panels[1].teardown()
    assert clicks(viewer, panels) == [0, 0, 1]
    panels[1].revive()
    assert clicks(viewer, panels) == [0, 1, 0]


def test_a_closed_panel_is_not_known_when_it_is_hidden_after(viewer, panels):
    """Qt hides the dock after it was closed; the panel would else be among those that are open."""
    panels[1].show()
    panels[1].teardown()
    panels[1].hide()
    assert front_of(viewer).panels == [panels[2], panels[0]]


def test_no_panel_is_searched_when_another_one_comes_to_the_front(panels, monkeypatch):
    """A search of twelve panels with hundreds of controls each takes a third of a second."""
    searched = []
    monkeypatch.setattr(ClickedPanel, "findChildren", lambda panel, *_: searched.append(panel) or [], raising=False)
    panels[0].come_to_front()
    assert panels[0]._tool_line.text() == "Click: count"
    assert {*searched} <= {panels[0]}


def test_a_tool_of_no_panel_and_panels_of_another_viewer_are_left_alone(qtbot, viewer, panels):
    alone, other = ClickTool(viewer, None), ClickedPanel(ViewerModel())
    qtbot.addWidget(other)
    alone.attach()
    assert clicks(viewer, [*panels[:2]]) == [0, 0]
    assert alone.presses == 1
    assert other.is_in_front
    assert panels[2].is_in_front
    other.teardown()


def test_tools_of_napari_and_other_buttons_are_left_alone(viewer, panels):
    labels = viewer.add_labels(np.eye(2, dtype=np.uint8))
    labels.mode = "paint"
    assert clicks(viewer, panels) == [0, 0, 0]
    labels.mode = "pan_zoom"
    assert clicks(viewer, panels) == [0, 0, 1]


def test_the_header_says_whose_the_clicks_are_and_the_cursor_shows_it(qtbot, viewer, panels):
    first, _, third = panels
    assert third._tool_line.text() == "Click: count"
    assert first._tool_line.text() == "Clicks on the canvas go to ClickedPanel."
    assert str(viewer.cursor.style) == "crosshair"
    labels = viewer.add_labels(np.eye(2, dtype=np.uint8))
    qtbot.waitUntil(lambda: str(viewer.cursor.style) == "crosshair")
    labels.mode = "paint"
    qtbot.waitUntil(lambda: str(viewer.cursor.style) != "crosshair")
    labels.mode = "pan_zoom"
    qtbot.waitUntil(lambda: str(viewer.cursor.style) == "crosshair")
    third.tool.detach()
    assert third._tool_line.isHidden()
    assert str(viewer.cursor.style) == "standard"


def test_nothing_is_run_for_a_panel_behind_which_says_so_when_it_comes_to_the_front(qtbot, panels):
    behind, _, front = panels
    behind.run_again()
    assert not behind.running
    assert behind.message == ""
    behind.come_to_front()
    assert "press Count to follow" in behind.message
    assert not behind.running
    behind.go.set()
    with finished(qtbot, behind):
        behind.run()
    front.come_to_front()
    behind.clear_message()
    behind.come_to_front()
    assert behind.message == ""


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", [Qt.Key.Key_4, Qt.Key.Key_L, Qt.Key.Key_Period, Qt.Key.Key_BracketLeft, Qt.Key.Key_Space]
)
def test_keys_do_not_leave_a_panel(qtbot, panels, key):
    window = Keys()
    qtbot.addWidget(window)
    window.setCentralWidget(panels[0])
    window.show()
    for widget in (panels[0].run_button, panels[0].bar, panels[0]):
        qtbot.keyPress(widget, key)
        qtbot.keyRelease(widget, key)
    assert window.keys == []
    qtbot.keyPress(panels[0], key, Qt.KeyboardModifier.ControlModifier)
    assert window.keys[-1] == key
    panels[0].stop()
    window.takeCentralWidget()


def test_enter_runs_and_escape_stops(qtbot, panels):
    panel = panels[2]
    panel.show()
    qtbot.keyPress(panel, Qt.Key.Key_Return)
    assert panel.running
    assert panel.begun.wait(SECONDS)
    with finished(qtbot, panel):
        qtbot.keyPress(panel, Qt.Key.Key_Escape)
    assert panel.status.startswith("stopped after")


# -- closing while something runs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("closes", [True, False])
def test_closing_a_panel_while_it_runs_asks(panels, monkeypatch, closes):
    asked, buttons = [], QMessageBox.StandardButton
    answer = buttons.Yes if closes else buttons.No
    monkeypatch.setattr(QMessageBox, "question", lambda *texts: asked.append(texts[2]) or answer)
    panel = panels[2]
    assert panel.may_close()
    assert asked == []
    panel.run()
    assert panel.may_close() == closes
    assert len(asked) == 1
    panel.go.set()


def test_a_note_on_a_run_ends_with_it(qtbot, panels):
    panel = panels[2]
    panel.run()
    panel.run_other(lambda _: iter([Step(1, 1)]), print)
    assert "under way" in panel.message
    panel.go.set()
    with finished(qtbot, panel):
        pass
    assert panel.message == ""


def test_a_viewer_has_one_front(viewer):
    assert front_of(viewer) is front_of(viewer)
    assert front_of(viewer) is not front_of(ViewerModel())
    assert front_of(viewer).panel is None


# -- whether a result is what the inputs say --------------------------------------------------------------------------


class DraftingPanel(CountingPanel):
    """A panel whose inputs are its total."""

    def take_draft(self):
        total = self.total
        return lambda: SphereRegion(center_mm=(1.0, 2.0, 3.0), radius_mm=total)


def test_a_result_says_what_has_changed_since_until_it_is_run_again(qtbot, viewer):
    panel = DraftingPanel(viewer)
    qtbot.addWidget(panel)
    panel.go.set()

    def run_and_use():
        with finished(qtbot, panel):
            panel.run()
        panel._wheel.used.emit()
        qtbot.waitUntil(lambda: not panel.stale_line.is_busy)

    run_and_use()
    assert panel.stale_line.isHidden()
    panel.total = 7
    panel._wheel.used.emit()
    qtbot.waitUntil(lambda: not panel.stale_line.isHidden())
    assert panel.stale_line.text() == "Made with other inputs: Radius 4 instead of 7 mm"
    panel.show_status("anything else")
    assert not panel.stale_line.isHidden()
    run_and_use()
    assert panel.stale_line.isHidden()
    panel.teardown()


# -- in a window -------------------------------------------------------------------------------------------------------


@pytest.fixture
def docked(make_window, qtbot):
    """Three panels as tabs of one place, in a window that has the keyboard."""
    viewer = make_window(show=True)
    viewer.add_image(np.zeros((4, 5, 6)))
    panels = []
    for number in range(3):
        panels.append(ClickedPanel(viewer))
        viewer.window.add_dock_widget(panels[-1], name=f"panel {number}", area="right", tabify=number > 0)
        qtbot.wait(50)
    QApplication.setActiveWindow(viewer.window._qt_window)
    yield viewer, panels
    for panel in panels:
        panel.teardown()
        if panel.parent() is not None:
            viewer.window.remove_dock_widget(panel)


@pytest.mark.display
def test_the_tab_that_is_raised_is_in_front_and_has_the_keys(docked, qtbot):
    viewer, (first, second, third) = docked
    qtbot.waitUntil(lambda: third.is_in_front)
    third.run_button.setFocus()
    first.come_to_front()
    assert first.is_in_front
    assert QApplication.focusWidget() is None or not third.isAncestorOf(QApplication.focusWidget())
    second.parentWidget().raise_()
    qtbot.waitUntil(lambda: second.is_in_front)
    third._on_used()
    assert second.is_in_front, "a panel behind a tab is not used"
    second.teardown()
    viewer.window.remove_dock_widget(second)
    shown = [panel for panel in (first, third) if not panel.visibleRegion().isEmpty()]
    qtbot.waitUntil(lambda: [panel for panel in (first, third) if panel.is_in_front] == shown)


@pytest.mark.display
def test_keys_on_the_canvas_are_those_of_the_panel_in_front(docked, qtbot):
    viewer, (*_, third) = docked
    canvas = viewer.window._qt_viewer.canvas.native
    viewer.dims.set_current_step(0, 1)
    for key in (Qt.Key.Key_PageUp, Qt.Key.Key_Right, Qt.Key.Key_Shift, Qt.Key.Key_Control):
        qtbot.keyClick(canvas, key)
    assert viewer.dims.current_step[0] == 3
    qtbot.keyClick(canvas, Qt.Key.Key_Enter)
    assert third.begun.wait(SECONDS)
    with finished(qtbot, third):
        qtbot.keyClick(canvas, Qt.Key.Key_Escape)
    labels = viewer.add_labels(np.zeros((4, 5, 6), np.uint8))  # has uses of its own for these two keys
    third.begun.clear()
    labels.mode = "polygon"
    qtbot.keyClick(canvas, Qt.Key.Key_Enter)
    assert not third.running
    labels.mode = "pan_zoom"
    qtbot.keyClick(canvas, Qt.Key.Key_Enter)
    assert third.begun.wait(SECONDS)
    with finished(qtbot, third):
        qtbot.keyClick(canvas, Qt.Key.Key_Escape)
