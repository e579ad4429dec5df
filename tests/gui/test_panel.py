"""What every dock widget has: Run and Stop, progress, messages, teardown; in a window, closed while it runs."""

import gc
import logging
import threading
import time
import weakref

import pytest
from napari._qt.dialogs.confirm_close_dialog import ConfirmCloseDialog
from napari.settings import get_settings
from qtpy.QtCore import Qt
from qtpy.QtGui import QCloseEvent
from qtpy.QtWidgets import QApplication, QDialog, QLabel, QMessageBox, QProgressBar

from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.file_dialogs import with_path
from tests.dock_widgets import NOTHING_COPIED, WAYS_TO_CLOSE, close, script_of
from tests.gui.counting_panel import SECONDS, CountingPanel, finished


@pytest.fixture
def panel(qtbot):
    panel = CountingPanel()
    qtbot.addWidget(panel)
    yield panel
    panel.teardown()


def test_run_turns_to_stop_and_back_and_the_result_is_shown(qtbot, panel):
    panel.go.set()
    assert panel.run_button.text() == "Count"
    with finished(qtbot, panel):
        panel.run_button.click()
        assert panel.running
        assert panel.run_button.text() == "Stop"
    assert not panel.running
    assert panel.run_button.text() == "Count"
    assert panel.results == [(4, threading.current_thread())]
    assert panel.previews == [1, 3]
    assert panel.message == ""


def test_it_can_be_run_again_but_not_while_it_runs(qtbot, panel):
    for total in (3, 2):
        panel.go.clear()
        panel.total = total
        panel.run()
        panel.run()
        panel.go.set()
        with finished(qtbot, panel):
            pass
        qtbot.wait(30)
    assert [result for result, _ in panel.results] == [3, 2]


def test_a_result_in_pieces_is_shown_before_the_next_run_and_to_its_end_when_the_panel_closes(
    qtbot, panel, monkeypatch
):  # fmt: skip
    shown, held = [], threading.Event()

    def pieces(result):
        for number in range(3):
            shown.append((result, number))
            yield
            while held.is_set():
                yield

    monkeypatch.setattr(panel, "show_result", pieces)
    held.set()
    panel.go.set()
    panel.run()
    qtbot.waitUntil(lambda: len(shown) == 1)
    assert panel.is_busy
    panel.total = 2
    panel.run_again()
    held.clear()
    with finished(qtbot, panel):
        pass
    assert shown == [(4, 0), (4, 1), (4, 2)]
    held.set()
    qtbot.waitUntil(lambda: len(shown) == 4)
    held.clear()
    panel.teardown()
    assert shown[3:] == [(2, 0), (2, 1), (2, 2)]
    assert not panel.is_busy


def test_an_edit_does_not_end_what_else_runs_and_is_followed_after_it(qtbot, panel):
    shown = []
    panel.run_other(panel.make_steps, shown.append)
    qtbot.waitUntil(panel.begun.is_set)
    panel.run_again()
    panel.go.set()
    qtbot.waitUntil(lambda: len(panel.results) == 1)
    assert shown == [panel.total]
    assert panel.results[0][0] == panel.total


def test_stop_shows_what_was_done(qtbot, panel):
    panel.stop()
    assert not panel.running
    panel.run_button.click()
    assert panel.begun.wait(SECONDS)
    with finished(qtbot, panel):
        panel.run_button.click()
    assert [result for result, _ in panel.results] == [0]
    assert panel.run_button.text() == "Count"


def test_progress_and_the_estimate(qtbot, panel, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    bar = panel.findChild(QProgressBar)
    for _ in range(2):
        panel.go.clear()
        panel.run()
        assert panel.status == "starting …"  # the first run of all compiles for many seconds before there is a step
        assert (bar.minimum(), bar.maximum()) == (0, 0)  # busy: nothing is known yet
        clock[0] = 110.0
        panel.show_step(Step(1, 4, "counting"))
        assert (bar.value(), bar.maximum()) == (250, 1000)
        assert panel.status == "counting 1 of 4, 30 s left"
        panel.show_step(Step(2_000_000, 2_000_000, "counting"))
        assert panel.status == "counting 2,000,000 of 2,000,000"
        panel.go.set()
        with finished(qtbot, panel):
            clock[0] = 112.5
        assert (bar.value(), bar.maximum()) == (0, 1000)
        assert panel.status == "done in 12 s"
        clock[0] = 100.0


def test_invalid_input_is_a_sentence_and_nothing_is_lost(qtbot, panel):
    panel.go.set()
    with finished(qtbot, panel):
        panel.run()
    panel.refusal = InvalidInput("there is no seed; click in the brain")
    panel.run()
    assert panel.message == "there is no seed; click in the brain"
    assert not panel.running
    assert panel.run_button.text() == "Count"
    panel.refusal = None
    with finished(qtbot, panel):
        panel.run()
        assert panel.message == ""
    assert len(panel.results) == 2


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (GpuUnavailable("there is no GPU; choose cpu"), "there is no GPU; choose cpu"),
        (ZeroDivisionError(), "unexpected"),
    ],
)
def test_an_error_in_the_run_is_a_sentence_and_the_panel_is_ready_again(qtbot, panel, caplog, failure, words):
    caplog.set_level(logging.CRITICAL)
    panel.go.set()
    panel.failure = failure
    with finished(qtbot, panel):
        panel.run()
    assert words in panel.message
    assert panel.results == []
    assert panel.run_button.text() == "Count"
    assert panel.findChild(QProgressBar).maximum() == 1000
    panel.failure = None
    with finished(qtbot, panel):
        panel.run()
    assert panel.message == ""


def test_messages_wrap_can_be_selected_and_are_plain_text(panel):
    """A path or a name may hold < and &, which a label would take for HTML."""
    panel.show_error("cannot read <b>a&b</b>.nii")
    label = next(label for label in panel.findChildren(QLabel) if "a&b" in label.text())
    assert label.textFormat() == Qt.TextFormat.PlainText
    assert label.wordWrap()
    assert label.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
    panel.show_note("y")
    assert panel.message == "y"
    panel.clear_message()
    assert panel.message == ""


def test_copy_as_python(panel):
    found = {}
    exec(script_of(panel), found)
    assert found["result"].radius_mm == 4
    panel.refusal = InvalidInput("save the labels first")
    assert script_of(panel) == NOTHING_COPIED
    assert "save the labels first" in panel.message


def test_a_copied_script_ends_the_error_of_an_earlier_try(panel):
    panel.refusal = InvalidInput("save the labels first")
    panel.copy_script()
    assert panel.message
    panel.refusal = None
    panel.copy_script()
    assert (panel.message, panel.status) == ("", "script copied to the clipboard")


def test_a_file_that_is_written_ends_the_error_of_an_earlier_try(panel, tmp_path):
    def refuse(_):
        raise InvalidInput("the disk is full")

    with_path(tmp_path, refuse, panel.show_error)
    assert "the disk is full" in panel.message.lower()
    with_path(tmp_path, lambda _: panel.show_status("written"), panel.show_error)
    assert (panel.message, panel.status) == ("", "written")


def test_teardown_during_a_run_frees_what_the_generator_holds(panel):
    panel.run()
    assert panel.begun.wait(SECONDS)
    assert panel.buffer() is not None
    panel.teardown()
    assert panel.ended.is_set()
    gc.collect()
    assert panel.buffer() is None
    assert not panel.running
    QApplication.processEvents()
    assert panel.results == []
    panel.teardown()


def test_closing_the_panel_tears_it_down(qtbot, panel):
    panel.show()
    panel.run()
    assert panel.begun.wait(SECONDS)
    panel.close()
    assert panel.ended.wait(SECONDS)
    QApplication.processEvents()
    assert panel.results == []


def test_choosing_a_device(panel):
    assert panel.device == "auto"
    for device in ("cpu", "cuda:7", "cuda:7", "auto"):
        panel.choose_device(device)
        assert panel.device == device


def running_panel(viewer):
    panel = CountingPanel(viewer)
    dock = viewer.window.add_dock_widget(panel, name="counting")
    panel.run()
    assert panel.begun.wait(SECONDS)
    return panel, dock


@pytest.mark.display
@WAYS_TO_CLOSE
def test_closing_during_a_run_frees_everything(make_window, qtbot, errors, how):
    """The cross of a dock widget takes the panel out of the window without closing it."""
    viewer = make_window(proxied=True)
    panel, dock = running_panel(viewer)
    end, go, buffer, gone = panel.ended, panel.go, panel.buffer, weakref.ref(panel)
    close(viewer, panel, how)
    del panel, dock
    was_stopped = end.wait(2)
    go.set()  # so that the thread ends in any case
    assert end.wait(SECONDS)
    qtbot.wait(20)
    gc.collect()
    assert was_stopped
    assert buffer() is None
    assert gone() is None
    assert not errors()


@pytest.mark.display
@pytest.mark.parametrize("change", ["setFloating", "setHidden"])
def test_floating_or_hiding_the_dock_does_not_end_the_run(make_window, qtbot, change):
    panel, dock = running_panel(make_window(proxied=True))
    for state in (True, False):
        getattr(dock, change)(state)
        QApplication.processEvents()
        assert panel.running
    panel.go.set()
    with finished(qtbot, panel):
        pass
    assert [result for result, _ in panel.results] == [4]


def test_a_preview_is_not_left_behind_as_if_it_were_the_result(panel):
    panel.run()
    assert panel.begun.wait(SECONDS)
    panel.show_step(Step(1, 4, "counting").showing("a part"))
    panel.teardown()
    assert panel.previews == ["a part"]
    assert [result for result, _ in panel.results] == [0], "what Stop shows"


@pytest.fixture
def answers(monkeypatch):
    """Our question, which is answered with yes, and napari's dialog, whose answer is to be added."""
    given = []
    monkeypatch.setattr(QMessageBox, "question", lambda *_: QMessageBox.StandardButton.Yes)
    monkeypatch.setattr(ConfirmCloseDialog, "exec_", lambda _: given.pop())
    return given


class UserCloses(QCloseEvent):
    """What the cross of a window's title bar sends."""

    def spontaneous(self):
        return True


def press_the_cross(window):
    """Close a window as Qt does for its user."""
    event = UserCloses()
    QApplication.sendEvent(window, event)
    if event.isAccepted():
        window.hide()


@pytest.mark.display
def test_a_run_ends_with_the_window_and_not_before_napari_has_asked(make_window, qtbot, answers):
    viewer = make_window(show=True)
    viewer.add_points([(1, 2)])  # without layers napari does not ask
    get_settings().application.confirm_close_window = True
    panel, _ = running_panel(viewer)
    window, end = viewer.window._qt_window, panel.ended
    answers.append(QDialog.DialogCode.Rejected)
    press_the_cross(window)
    qtbot.wait(20)
    assert answers == []
    assert window.isVisible()
    assert panel.running
    assert not end.is_set()
    answers.append(QDialog.DialogCode.Accepted)
    press_the_cross(window)
    assert end.wait(SECONDS)
    assert not panel.running
    assert panel.results == []
