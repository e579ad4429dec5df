"""napari's windows in tests: one is kept for the tests of a file, and emptied after each of them.

A new window takes .3 s, an emptied one almost nothing. After a test its panels and layers are taken out of the window,
its view is set back, and a test that left anything else behind fails: see `KeptWindow.problems`.
"""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

MODELS = ("dims", "scene.camera", "canvas.grid", "cursor", "tooltip")
EMITTERS = ("layers", "layers.selection", "canvas")
FIELDS = ("theme", "title", "status", "help", "mouse_over_canvas")
MOUSE = ("mouse_move_callbacks", "mouse_drag_callbacks", "mouse_wheel_callbacks", "mouse_double_click_callbacks")
OURS, THREADS = ("napari_gpubio", "tests"), "napari-gpubio"  # begin the names of modules and threads of ours


@pytest.fixture(scope="session")
def napari_in_tests(qapp: Any) -> Iterator[None]:
    """Make windows start quickly: no manifest is read twice, no thread is started, no console, no tips."""
    from npe2 import PluginManifest
    from qtpy.QtWidgets import QWidget

    manifests = list(PluginManifest.discover())

    def no_console(*_: Any) -> Any:
        widget: Any = QWidget()
        widget._update_theme = lambda *_: None
        return widget

    with pytest.MonkeyPatch.context() as changes:
        changes.setattr("npe2.PluginManifest.discover", lambda paths=(): iter(manifests))
        changes.setattr("napari._qt.widgets.qt_welcome.QtWelcomeWidget.refresh", lambda *_: None)
        changes.setattr("napari._qt.threads.status_checker.StatusChecker.start", lambda *_: None)
        changes.setattr("napari._qt.qt_viewer.QtViewer._get_console", no_console)
        changes.setattr("napari._qt.qt_main_window.SHOW_QT_WARNING", False)
        yield


class KeptWindow:
    """A window for one test after another.

    Parameters
    ----------
    viewer
        A new one.
    """

    def __init__(self, viewer: Any) -> None:
        self.viewer = viewer
        self._models = {name: _part(self.viewer, name).model_dump() for name in self._model_names()}
        self._fields = {name: getattr(self.viewer, name) for name in FIELDS}
        self._size = self.viewer.window._qt_window.size()
        self._others = _top_level_windows()  # of other windows of the file
        self._fresh = self._state()

    def _model_names(self) -> list[str]:
        parts = ("canvas", "scene")
        return [*MODELS, *(f"{part}.overlays.{name}" for part in parts for name in _part(self.viewer, part).overlays)]

    def empty(self) -> None:
        """Take out what a test has put in, and set the view back."""
        from napari.settings import get_settings

        from napari_gpubio.gui import scans

        viewer, window = self.viewer, self.viewer.window._qt_window
        viewer.window.remove_dock_widget("all")
        viewer.layers.clear()
        scans.unfollow_scans(viewer)
        for part in (viewer.canvas, viewer.scene):
            for name in set(part.overlays) - {name.rpartition(".")[2] for name in self._models}:
                part.overlays.pop(name)
        viewer.keymap.clear()
        get_settings().reset()
        for name, value in self._fields.items():
            setattr(viewer, name, value)
        for name, values in self._models.items():
            _part(viewer, name).update(values)
        if window.size() != self._size:
            window.resize(self._size)
        _close_dialogs(window)
        _let_go()

    def problems(self) -> list[str]:
        """What is still in it that was not there when it was new."""
        return list(_differences(self._state(), self._fresh))

    def _state(self) -> dict[str, Any]:
        others = [one for one in _top_level_windows() if one not in self._others]
        return state_of(self.viewer) | {"windows": [type(one).__name__ for one in others]}


def state_of(viewer: Any) -> dict[str, object]:
    """What a window holds, to be compared with what it held when it was new."""
    emitters = {"viewer": viewer} | {name: _part(viewer, name) for name in (*EMITTERS, *MODELS)}
    callbacks = {
        f"{owner}.{name}": ours
        for owner, part in emitters.items()
        for name, emitter in part.events.emitters.items()
        if (ours := [one for one in map(_name_of, emitter.callbacks) if one.startswith(OURS)])
    }
    return {
        "layers": [layer.name for layer in viewer.layers],
        "docks": sorted(viewer.window.dock_widgets),
        "overlays": sorted(viewer.canvas.overlays) + sorted(viewer.scene.overlays),
        "callbacks": callbacks,
        "mouse callbacks": {name: len(getattr(viewer, name)) for name in MOUSE},
        "keys": sorted(map(str, viewer.keymap)),
        "drawn": len(viewer.window._qt_viewer.canvas.view.scene.children),
        "models": {name: repr(_part(viewer, name)) for name in MODELS if name != "cursor"},
        "threads": sorted(one.name for one in threading.enumerate() if one.name.startswith(THREADS)),
    }


def _name_of(callback: Any) -> str:
    """Where a callback of napari's emitters comes from; it is a function, or a weak reference and a method's name."""
    owner = callback[0]() if isinstance(callback, tuple) else getattr(callback, "func", callback)
    kind = owner if hasattr(owner, "__qualname__") else type(owner)
    return f"{kind.__module__}.{kind.__qualname__}"


def _differences(now: dict[str, Any], fresh: dict[str, Any]) -> Iterator[str]:
    for name, was in fresh.items():
        if isinstance(was, dict):
            parts = sorted(key for key in {*was, *now[name]} if was.get(key) != now[name].get(key))
            yield from (f"{name}, {key}: {now[name].get(key)}, not {was.get(key)}" for key in parts)
        elif now[name] != was:
            yield f"{name}: {now[name]}, not {was}"


def open_window(*, shown: bool = False) -> Any:
    """Open napari's window, hidden or on screen, since pictures of a hidden one are black; `close_window` closes it."""
    import napari

    viewer = napari.Viewer(show=shown, show_welcome_screen=False)
    if shown:
        from qtpy.QtTest import QTest

        assert QTest.qWaitForWindowExposed(viewer.window._qt_window, 5000)
    return viewer


def close_window(viewer: Any) -> None:
    """Close a window as its user does, but for the settings, which are not saved."""
    window = getattr(viewer.window, "_qt_window", None)
    if window is None:  # the test has closed it
        return
    with patch.object(window, "_save_current_window_settings"):
        viewer.close()


@pytest.fixture(scope="module")
def windows_of_file(napari_in_tests: None) -> Iterator[dict[bool, KeptWindow]]:
    """The windows of a file's tests, hidden or shown; they are closed after the last test."""
    windows: dict[bool, KeptWindow] = {}
    yield windows
    gone = [weakref.ref(kept.viewer.window._qt_viewer) for kept in windows.values()]
    while windows:
        close_window(windows.popitem()[1].viewer)
    _let_go()
    gc.collect()
    assert [one for one in gone if one() is not None] == [], "a window is still there after it was closed"


@pytest.fixture
def window_is_shown() -> bool:
    """Whether the window of a test is on screen; overridden where pictures of it are taken."""
    return False


@pytest.fixture
def kept_window(
    request: pytest.FixtureRequest, qtbot: Any, windows_of_file: dict[bool, KeptWindow], window_is_shown: bool
) -> Iterator[Any]:
    """An empty window of napari's; the test fails if it leaves something there that closing does not remove."""
    if window_is_shown not in windows_of_file:
        windows_of_file[window_is_shown] = KeptWindow(open_window(shown=window_is_shown))
    kept = windows_of_file[window_is_shown]
    yield kept.viewer
    if getattr(kept.viewer.window, "_qt_window", None) is None:  # the test has closed it
        del windows_of_file[window_is_shown]
        return
    kept.empty()
    if problems := kept.problems():
        close_window(windows_of_file.pop(window_is_shown).viewer)
        pytest.fail("the test has left something in its window: " + "; ".join(problems), pytrace=False)


@pytest.fixture
def make_window(qtbot: Any, napari_in_tests: None) -> Iterator[Callable[..., Any]]:
    """A function that opens a window for this test alone, which nothing may keep when it is closed.

    ``proxied`` gives the viewer as plugins see it.
    """
    from napari.settings import get_settings
    from napari.utils._proxies import PublicOnlyProxy

    viewers: list[Any] = []
    before = set(_top_level_windows())

    def make(*, show: bool = False, proxied: bool = False) -> Any:
        viewers.append(open_window(shown=show))
        return PublicOnlyProxy(viewers[-1]) if proxied else viewers[-1]

    yield make
    get_settings().reset()
    gone = [weakref.ref(viewer.window._qt_viewer) for viewer in viewers if hasattr(viewer.window, "_qt_window")]
    while viewers:
        close_window(viewers.pop())
    _let_go()
    gc.collect()
    assert [one for one in gone if one() is not None] == [], "a window is still there after it was closed"
    assert set(_top_level_windows()) <= before, "the test has left a window open"


def _part(viewer: Any, name: str) -> Any:
    """A part of a viewer by its dotted name."""
    part = viewer
    for word in name.split("."):
        part = part[word] if word not in dir(part) and hasattr(part, "keys") else getattr(part, word)
    return part


def _top_level_windows() -> list[Any]:
    from qtpy.QtWidgets import QApplication

    return [one for one in QApplication.topLevelWidgets() if one.isVisible()]


def _close_dialogs(window: Any) -> None:
    from qtpy.QtWidgets import QDialog

    for dialog in window.findChildren(QDialog):
        dialog.close()


def _let_go() -> None:
    """Let Qt delete what is to be deleted later."""
    from qtpy.QtCore import QEvent
    from qtpy.QtWidgets import QApplication

    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()
