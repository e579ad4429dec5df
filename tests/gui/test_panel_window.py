"""A dock widget in a real window: closed, hidden and floating while it runs."""

import gc
import threading
import weakref

import pytest
from qtpy.QtWidgets import QApplication

from tests.gui.counting_panel import SECONDS, CountingPanel, finished


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
