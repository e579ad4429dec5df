"""What a user does with any dock widget, runs that are held back, and what is left when a widget is closed."""

import gc
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace
from unittest import mock

import napari
import numpy as np
import pyqtgraph
import pytest
from napari.components import ViewerModel
from napari.utils._proxies import ReadOnlyWrapper
from napari.utils.interactions import mouse_move_callbacks, mouse_press_callbacks, mouse_release_callbacks
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QLabel, QMessageBox, QPushButton

from napari_gpubio.core.operations import STORE
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.layers import LayerBox

MILLISECONDS = 60_000
WAYS_TO_CLOSE = pytest.mark.parametrize("how", ["the viewer", "the dock"])


# -- the mouse --------------------------------------------------------------------------------------------------------


class Mouse:
    """Presses, moves and releases the left button at viewer positions, as napari's canvas reports them.

    ``view`` is the direction in which a 3-D view is looked into.
    """

    def __init__(self, viewer, *modifiers, zoom=4.0, button=1, view=(1.0, 0.0, 0.0)):
        self.viewer, self.modifiers, self.zoom, self.button, self.view = viewer, modifiers, zoom, button, view

    def press(self, position):
        mouse_press_callbacks(self.viewer, self._event("mouse_press", position))

    def move(self, position):
        mouse_move_callbacks(self.viewer, self._event("mouse_move", position))

    def release(self, position):
        mouse_release_callbacks(self.viewer, self._event("mouse_release", position))

    def click(self, position):
        self.press(position)
        self.release(position)

    def drag(self, *positions):
        self.press(positions[0])
        for position in positions[1:]:
            self.move(position)
        self.release(positions[-1])

    def _event(self, kind, position):
        viewer = self.viewer
        more = (0.0,) * (viewer.dims.ndim - 3)
        flat = viewer.dims.ndisplay == 2
        event = SimpleNamespace(
            type=kind, position=more + tuple(float(p) for p in position), button=self.button,
            modifiers=list(self.modifiers), handled=False, is_dragging=kind == "mouse_move",
            dims_displayed=list(viewer.dims.displayed), camera_zoom=self.zoom,
            view_direction=None if flat else more + self.view,
        )  # fmt: skip
        return ReadOnlyWrapper(event, exceptions=("handled",))


def turn_wheel(widget, angle):
    """Turn the wheel over a widget; returns whether the widget took it."""
    at = QPointF(widget.rect().center())
    event = QWheelEvent(
        at, widget.mapToGlobal(at), QPoint(), QPoint(0, angle), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(widget, event)
    return event.isAccepted()


def moved(position, *by):
    return np.asarray(position) + by


def show_slices_at(viewer, position):
    """Move the slices on screen to a viewer position."""
    viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), position)


# -- the panel --------------------------------------------------------------------------------------------------------


def docked(viewer, panel, name):
    """The panel, in the viewer's window if it has one."""
    if hasattr(viewer, "window"):
        viewer.window.add_dock_widget(panel, name=name)
    return panel


def until_the_end(qtbot, viewer, panel):
    """What a fixture of a panel yields from: the panel is torn down after the test."""
    if not hasattr(viewer, "window"):
        qtbot.addWidget(panel)
    yield panel
    panel.teardown()


def forget_choices(panel):
    """Let the lists of layers be as those of a panel that is opened now."""
    for box in panel.findChildren(LayerBox):
        box.detach()
        box.attach()


def button(part, text):
    return next(b for b in part.findChildren(QPushButton) if b.text() == text)


def texts(part):
    """The labels that are shown."""
    return [label.text() for label in part.findChildren(QLabel) if not label.isHidden()]


def bands(plot):
    """Lowest and highest value of each band that a plot shows."""
    items = [item for item in plot.getPlotItem().items if isinstance(item, pyqtgraph.FillBetweenItem)]
    boxes = [item.path().boundingRect() for item in items]
    return [(box.top(), box.bottom()) for box in boxes if box.height() > 0]


def wait_until(qtbot, still):
    """Wait until this holds, with nothing on its way through the event queue."""
    for _ in range(3):
        qtbot.waitUntil(still, timeout=MILLISECONDS)
        qtbot.wait(5)


def undo(viewer, by=-1):
    """Undo (a negative number) or redo some steps to their end."""
    history = history_of(viewer)
    history.go(by)
    while history.is_undoing:
        QApplication.processEvents()


def open_and_wait(qtbot, read, path):
    """Let a panel read a file by its method, and wait for the end."""
    read(path)
    wait_until(qtbot, lambda: not read.__self__.files.is_busy)


def press_and_wait(qtbot, panel, pressed):
    """Press a button, and wait for the end of the run that it begins."""
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        pressed.click()


def error_after_run(qtbot, panel):
    """The panel's message after Run."""
    panel.run_button.click()
    wait_until(qtbot, lambda: not panel.running)
    return panel.message


# -- Copy as Python ---------------------------------------------------------------------------------------------------

NOTHING_COPIED = "nothing was copied"


def script_of(panel):
    """What the button copies, or `NOTHING_COPIED`."""
    QApplication.clipboard().setText(NOTHING_COPIED)
    button(panel, "Copy as Python").click()
    for _ in range(MILLISECONDS // 5):
        if not panel.is_copying:
            break
        QTest.qWait(5)
    return QApplication.clipboard().text()


def save_scripts_as(monkeypatch, path):
    """Answer the question where a script is to be saved; None: nowhere."""
    name = "napari_gpubio.gui.file_dialogs.QFileDialog.getSaveFileName"
    monkeypatch.setattr(name, lambda *_, **__: (str(path or ""), ""))


def shown_by_script(text, folder, monkeypatch):
    """Run a script in a folder and in this process; returns the viewer model that it shows things in."""
    viewer = ViewerModel()
    monkeypatch.setattr(napari, "current_viewer", lambda: viewer)
    monkeypatch.setattr(napari, "run", lambda: None)
    monkeypatch.chdir(folder)
    STORE.clear()  # so that the script makes its results itself
    exec(compile(text, "copied.py", "exec"), {"__name__": "__main__"})
    return viewer


def run_script(text, folder):
    """Run a script in a folder; returns what it prints."""
    path = folder / "copied.py"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- runs -------------------------------------------------------------------------------------------------------------


class Held:
    """Holds every run back after its first items until ``go`` is set; Stop lets it end with what it has.

    Parameters
    ----------
    module, name
        Where a panel finds the generator function of its engine.
    """

    def __init__(self, monkeypatch, module, name):
        self.go, self.waiting, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.runs = 0
        self._engine = getattr(module, name)
        monkeypatch.setattr(module, name, self._steps)

    def again(self):
        """Hold the next run back, after others were let go."""
        self.go.clear()
        self.waiting.clear()

    def until_the_end(self):
        """What a fixture yields from: nothing is held back after the test."""
        yield self
        self.go.set()

    def wait(self, qtbot):
        """Wait until a run is held."""
        qtbot.waitUntil(self.waiting.is_set, timeout=MILLISECONDS)

    def _steps(self, *inputs, stop, **keywords):
        self.runs += 1
        inner = self._engine(*inputs, stop=stop, **keywords)
        try:
            return (yield from self.held_steps(inner, stop))
        finally:
            inner.close()
            self.ended.set()

    def held_steps(self, inner, stop):
        step = next(inner)
        yield step
        yield from self._until_go(step, stop)
        return (yield from inner)

    def _until_go(self, step, stop):
        self.waiting.set()
        while not (self.go.wait(0.005) or stop.is_set()):
            yield Step(step.done, step.total, "held")


class HeldAtItsEnd(Held):
    """Holds every run back when it is done."""

    def held_steps(self, inner, stop):
        result = yield from inner
        yield from self._until_go(Step(1, 1), stop)
        return result


# -- closing ----------------------------------------------------------------------------------------------------------


def close(viewer, panel, how):
    """Close the viewer or a panel's dock, one of `WAYS_TO_CLOSE`; the question whether to end a run is answered."""
    if how == "the viewer":
        viewer.close()
        return
    with mock.patch.object(QMessageBox, "question", return_value=QMessageBox.StandardButton.Yes):
        panel.parent().destroyOnClose()


def check_closing_ends_a_run(qtbot, viewer, add_panel, held, how):
    """Closing in the middle of a run ends it, and leaves nothing of the panel that ``add_panel(viewer)`` makes."""
    panel = add_panel(viewer)
    panel.run_button.click()
    held.wait(qtbot)
    gone = weakref.ref(panel)
    close(viewer, panel, how)
    del panel
    stopped = held.ended.wait(5)
    held.go.set()
    assert stopped
    assert ended(qtbot, gone)


def check_nothing_is_left(qtbot, viewer, use_panel, how):
    """Closing frees the panel and the results that ``use_panel(viewer)`` returns, and ends their threads."""
    panel, *results = use_panel(viewer)
    gone = [weakref.ref(panel), *map(weakref.ref, results)]
    threads = [thread for thread in threading.enumerate() if "napari-gpubio" in thread.name]
    close(viewer, panel, how)
    if how == "the dock":
        viewer.layers.clear()
    del panel, results
    assert ended(qtbot, *gone)
    assert not any(thread.is_alive() for thread in threads)
    assert not hears_the_mouse(viewer)


def hide_and_show(qtbot, panel):
    """What the eye in the title of a floating dock does, and then the Window menu."""
    dock = panel.parent()
    dock.setFloating(True)
    for act in (dock.close, dock.show):
        qtbot.wait(10)
        act()
    qtbot.wait(10)


def ended(qtbot, *gone):
    """Whether nothing is left of these weak references, once the event loop had its turns."""
    for _ in range(20):
        qtbot.wait(50)
        gc.collect()
        if all(reference() is None for reference in gone):
            return True
    return False


def hears_the_mouse(viewer):
    """Whether a panel still listens to the viewer's mouse."""
    return any("_on_press" in repr(callback) for callback in viewer.mouse_drag_callbacks)


def visible_windows():
    """All windows that are on screen."""
    return {one for one in QApplication.topLevelWidgets() if one.isVisible()}
