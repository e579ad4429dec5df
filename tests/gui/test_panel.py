"""What every dock widget has: Run and Stop, progress, messages, teardown; in a window, closed while it runs."""

import gc
import logging
import threading
import time
import weakref

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QLabel, QProgressBar, QPushButton

from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from napari_gpubio.core.steps import Step
from tests.gui.counting_panel import SECONDS, CountingPanel, finished


@pytest.fixture
def panel(qtbot):
    panel = CountingPanel()
    qtbot.addWidget(panel)
    yield panel
    panel.teardown()


def bar_of(panel):
    return panel.findChild(QProgressBar)


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


def test_it_can_be_run_again(qtbot, panel):
    panel.go.set()
    for total in (3, 2):
        panel.total = total
        with finished(qtbot, panel):
            panel.run()
    assert [result for result, _ in panel.results] == [3, 2]


def test_run_while_it_runs_does_nothing(qtbot, panel):
    panel.run()
    panel.run()
    panel.go.set()
    with finished(qtbot, panel):
        pass
    qtbot.wait(30)
    assert len(panel.results) == 1


def test_stop_shows_what_was_done(qtbot, panel):
    panel.run_button.click()
    assert panel.begun.wait(SECONDS)
    with finished(qtbot, panel):
        panel.run_button.click()
    assert [result for result, _ in panel.results] == [0]
    assert panel.run_button.text() == "Count"


def test_stop_without_a_run_does_nothing(panel):
    panel.stop()
    assert not panel.running


def test_progress_and_the_estimate(qtbot, panel, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    bar = bar_of(panel)
    panel.run()
    assert (bar.minimum(), bar.maximum()) == (0, 0)  # busy: nothing is known yet
    clock[0] = 110.0
    panel._on_step(Step(1, 4, "counting"))
    assert (bar.value(), bar.maximum()) == (250, 1000)
    shown = [label.text() for label in panel.findChildren(QLabel)]
    assert "counting 1 of 4, 30 s left" in shown
    panel._on_step(Step(2_000_000, 2_000_000, "counting"))
    assert "counting 2,000,000 of 2,000,000" in [label.text() for label in panel.findChildren(QLabel)]
    panel.go.set()
    with finished(qtbot, panel):
        clock[0] = 112.5
    assert (bar.value(), bar.maximum()) == (0, 1000)
    assert "done in 12.50 s" in [label.text() for label in panel.findChildren(QLabel)]


def test_until_the_first_step_it_says_that_it_has_begun(qtbot, panel):
    """The first run of all compiles for many seconds before there is a step."""
    panel.go.set()
    with finished(qtbot, panel):
        panel.run()
    panel.go.clear()
    panel.run()
    assert panel.begun.wait(SECONDS)
    shown = [label.text() for label in panel.findChildren(QLabel)]
    assert not any(text.startswith("done in") for text in shown)
    assert any("starting" in text.lower() or "preparing" in text.lower() for text in shown)


def test_invalid_input_is_a_sentence_and_nothing_is_lost(qtbot, panel):
    panel.go.set()
    with finished(qtbot, panel):
        panel.run()
    panel.refusal = InvalidInput("there is no seed; click in the brain")
    panel.run()
    assert panel.message == "there is no seed; click in the brain"
    assert not panel.running
    assert panel.run_button.text() == "Count"
    assert len(panel.results) == 1
    panel.refusal = None
    with finished(qtbot, panel):
        panel.run()
        assert panel.message == ""
    assert len(panel.results) == 2


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (GpuUnavailable("there is no GPU; choose cpu"), "there is no GPU; choose cpu"),
        (ZeroDivisionError("by zero"), "unexpected"),
    ],
)
def test_an_error_in_the_run_is_a_sentence_and_the_panel_is_ready_again(qtbot, panel, caplog, failure, sentence):
    caplog.set_level(logging.CRITICAL)
    panel.go.set()
    panel.failure = failure
    with finished(qtbot, panel):
        panel.run()
    assert sentence in panel.message
    assert panel.results == []
    assert panel.run_button.text() == "Count"
    assert bar_of(panel).maximum() == 1000
    panel.failure = None
    with finished(qtbot, panel):
        panel.run()
    assert panel.message == ""


def test_sentences_wrap_and_can_be_selected(panel):
    panel.show_error("x")
    label = next(label for label in panel.findChildren(QLabel) if label.text() == "x")
    assert label.wordWrap()
    assert label.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
    panel.show_note("y")
    assert panel.message == "y"
    panel.clear_message()
    assert panel.message == ""


def test_a_sentence_is_shown_as_it_is(panel):
    """A path or a name may hold < and &, which a label would take for HTML."""
    panel.show_error("cannot read <b>a&b</b>.nii")
    label = next(label for label in panel.findChildren(QLabel) if "a&b" in label.text())
    assert label.textFormat() == Qt.TextFormat.PlainText


def test_copy_as_python(panel):
    button = next(b for b in panel.findChildren(QPushButton) if b.text() == "Copy as Python")
    button.click()
    assert QApplication.clipboard().text() == "print(4)\n"
    panel.refusal = InvalidInput("save the labels first")
    button.click()
    assert "save the labels first" in panel.message
    assert QApplication.clipboard().text() == "print(4)\n"


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
    panel.choose_device("cpu")
    assert panel.device == "cpu"
    panel.choose_device("cuda:7")
    assert panel.device == "cuda:7"
    panel.choose_device("cuda:7")
    panel.choose_device("auto")
    assert panel.device == "auto"


def running_panel(viewer):
    panel = CountingPanel(viewer)
    dock = viewer.window.add_dock_widget(panel, name="counting")
    panel.run()
    assert panel.begun.wait(SECONDS)
    return panel, dock


@pytest.fixture
def thread_errors(monkeypatch):
    """What worker threads died of."""
    errors = []
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(args.exc_value))
    return errors


@pytest.mark.display
def test_closing_the_viewer_during_a_run_frees_everything(make_napari_viewer_proxy, qtbot, thread_errors):
    viewer = make_napari_viewer_proxy(strict_qt="raise")
    panel, dock = running_panel(viewer)
    ended, go, buffer, gone = panel.ended, panel.go, panel.buffer, weakref.ref(panel)
    viewer.close()
    del panel, dock
    was_stopped = ended.wait(2)
    go.set()  # so that the thread ends in any case
    assert ended.wait(SECONDS)
    qtbot.wait(20)
    gc.collect()
    assert was_stopped
    assert buffer() is None
    assert gone() is None
    assert not thread_errors


@pytest.mark.display
def test_closing_the_dock_during_a_run_frees_everything(make_napari_viewer_proxy, qtbot, thread_errors):
    """The cross of a dock widget takes the panel out of the window without closing it."""
    viewer = make_napari_viewer_proxy(strict_qt="raise")
    panel, dock = running_panel(viewer)
    ended, go, gone = panel.ended, panel.go, weakref.ref(panel)
    dock.destroyOnClose()
    del panel, dock
    was_stopped = ended.wait(2)
    go.set()
    assert ended.wait(SECONDS)
    qtbot.wait(20)
    gc.collect()
    assert was_stopped
    assert gone() is None
    assert not thread_errors


@pytest.mark.display
def test_hiding_the_dock_does_not_end_the_run(make_napari_viewer_proxy, qtbot):
    viewer = make_napari_viewer_proxy()
    panel, dock = running_panel(viewer)
    dock.setVisible(False)
    QApplication.processEvents()
    assert panel.running
    panel.go.set()
    with finished(qtbot, panel):
        dock.setVisible(True)
    assert [result for result, _ in panel.results] == [4]


@pytest.mark.display
def test_floating_the_dock_does_not_end_the_run(make_napari_viewer_proxy, qtbot):
    viewer = make_napari_viewer_proxy()
    panel, dock = running_panel(viewer)
    dock.setFloating(True)
    QApplication.processEvents()
    dock.setFloating(False)
    QApplication.processEvents()
    assert panel.running
    panel.go.set()
    with finished(qtbot, panel):
        pass
    assert [result for result, _ in panel.results] == [4]
