"""A person at the screen: real events of the X server at what is found in the window, and pictures of the screen.

The story runs in a thread of its own, so that menus and dialogs wait for the person and not the other way round; what
it asks of the window is answered in the GUI thread.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import napari
import numpy as np
from qtpy.QtCore import QObject, QPoint, QRect, Qt, Signal
from qtpy.QtWidgets import QAbstractButton, QApplication, QComboBox, QMenu, QScrollArea, QTabWidget, QWidget

from napari_gpubio.core.operations import STORE

_PAUSE_S = 0.08
_MAX_NOTCHES = 80
_EDGE = 4  # pixels from a panel's edge, where there is no control under the pointer


class Answers(QObject):
    """Calls functions in the GUI thread for another thread."""

    _asked = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self._asked.connect(self._answer, Qt.ConnectionType.QueuedConnection)

    def ask(self, function: Callable[[], Any]) -> Any:
        """Return what a function gives in the GUI thread; its errors are raised here."""
        future: Future[Any] = Future()
        self._asked.emit(function, future)
        return future.result(timeout=120)

    def _answer(self, function: Callable[[], Any], future: "Future[Any]") -> None:
        try:
            future.set_result(function())
        except Exception as error:  # noqa: BLE001 - it is raised where the function was asked for
            future.set_exception(error)


class Person:
    """Moves the pointer, clicks, types and looks.

    Parameters
    ----------
    viewer
        A napari viewer with a window.
    folder
        Where the pictures go.
    title
        Beginning of their names.
    """

    def __init__(self, viewer: Any, folder: Path, title: str) -> None:
        if shutil.which("xdotool") is None:
            raise SystemExit("this needs xdotool, which makes real events: apt-get install xdotool")
        self.viewer, self.folder, self.title = viewer, folder, title
        self.clicks = self.typed = self._pictures = 0
        self.waited_s = 0.0  # for what the window does
        self._answers = Answers()
        self.ask = self._answers.ask
        folder.mkdir(parents=True, exist_ok=True)

    # -- looking --------------------------------------------------------------------------------------------------

    def wait(self, until: Callable[[], Any], what: str, seconds: float = 90.0) -> Any:
        """Wait until something holds in the window; returns what it gives, or raises TimeoutError."""
        begun = time.monotonic()
        while time.monotonic() < begun + seconds:
            if found := self.ask(until):
                self.waited_s += time.monotonic() - begun
                return found
            time.sleep(0.1)
        self.picture("where it ended")
        raise TimeoutError(f"{self.title}: {what} did not come within {seconds:g} s")

    def picture(self, name: str, settle_s: float = 0.7) -> Path:
        """Save what is on the screen."""
        time.sleep(settle_s)
        self.ask(QApplication.processEvents)
        self._pictures += 1
        path = self.folder / f"{self.title}{self._pictures:02d} {name}.png"
        screen = QApplication.primaryScreen()
        self.ask(lambda: screen.grabWindow(0).save(str(path)))
        print(f"{path.name}: {self.clicks} clicks so far")
        return path

    def button(self, part: QWidget, text: str) -> Callable[[], QWidget | None]:
        """Return what finds a visible button by the beginning of its text."""
        return lambda: next(
            (b for b in part.findChildren(QAbstractButton) if b.text().startswith(text) and b.isVisible()), None
        )

    def seen(self, kind: type[QWidget]) -> QWidget | None:
        """Return the first visible widget of a kind, in the GUI thread."""
        return next((one for one in self.viewer.window._qt_window.findChildren(kind) if one.isVisible()), None)

    # -- the mouse ------------------------------------------------------------------------------------------------

    def move(self, at: tuple[int, int]) -> None:
        """Move the pointer."""
        _events("mousemove", *at)
        time.sleep(_PAUSE_S)

    def click_at(self, at: tuple[int, int], *, keys: Sequence[str] = ()) -> None:
        """Click a point of the screen, with keys held down."""
        self.move(at)
        for key in keys:
            _events("keydown", key)
        _events("click", 1)
        for key in keys:
            _events("keyup", key)
        self.clicks += 1
        time.sleep(_PAUSE_S)

    def drag(self, start: tuple[int, int], end: tuple[int, int], steps: int = 12) -> None:
        """Drag from one point of the screen to another."""
        self.move(start)
        _events("mousedown", 1)
        for step in range(1, steps + 1):
            x, y = (round(a + (b - a) * step / steps) for a, b in zip(start, end, strict=True))
            self.move((x, y))
        _events("mouseup", 1)
        self.clicks += 1

    def wheel(self, at: tuple[int, int], notches: int, *, keys: Sequence[str] = ()) -> None:
        """Turn the wheel, with keys held down; up is positive."""
        self.move(at)
        for key in keys:
            _events("keydown", key)
        for _ in range(abs(notches)):
            _events("click", 4 if notches > 0 else 5)
        for key in keys:
            _events("keyup", key)
        time.sleep(_PAUSE_S)

    def click(self, found: QWidget | Callable[[], QWidget | None], what: str = "a control") -> None:
        """Scroll a control into view with the wheel, and click it."""
        widget = found if isinstance(found, QWidget) else self.wait(found, what)
        self._scroll_to(widget)
        self.wait(widget.isEnabled, f"{what}, enabled,")
        self.click_at(self.ask(lambda: _center(widget)))

    def _scroll_to(self, widget: QWidget) -> None:
        area = self.ask(lambda: _scroll_area(widget))
        for _ in range(_MAX_NOTCHES if area is not None else 0):
            away = self.ask(lambda: _beyond(area, widget))
            if not away:
                return
            self.wheel(self.ask(lambda: _left_edge(area)), -1 if away > 0 else 1)

    # -- keys, menus, lists, dialogs ------------------------------------------------------------------------------

    def key(self, name: str) -> None:
        """Press a key or a combination, such as ``ctrl+o``."""
        self._focus()
        self.press(name)

    def press(self, name: str) -> None:
        """Press a key for whatever is open, such as a menu, which has the keyboard."""
        _events("key", name)
        time.sleep(_PAUSE_S)

    def type(self, text: str) -> None:
        """Type a text."""
        self._focus()
        self.typed += 1
        _events("type", "--delay", 8, "--", text)
        time.sleep(_PAUSE_S)

    def _focus(self) -> None:
        """Give the keyboard to the dialog that is open, or to napari's window, as a window manager would."""
        _events("windowfocus", self.ask(lambda: int((_dialog("QDialog") or self.viewer.window._qt_window).winId())))
        time.sleep(_PAUSE_S)

    def menu(self, *path: str) -> None:
        """Choose an entry of the menu bar by the beginnings of its texts."""
        bar = self.ask(lambda: self.viewer.window._qt_window.menuBar())
        for depth, text in enumerate(path):
            action = self.wait(lambda bar=bar, text=text: _action(bar, text), f"the menu entry {text!r}")
            self.move(self.ask(lambda bar=bar, action=action: inside(bar, bar.actionGeometry(action))))
            if depth in (0, len(path) - 1):  # menus in between open by themselves
                self.click_at(self.ask(lambda bar=bar, action=action: inside(bar, bar.actionGeometry(action))))
            if depth < len(path) - 1:
                bar = self.wait(lambda action=action: _open_menu(action), f"the menu {text!r}")

    def choose(self, box: QComboBox, text: str) -> None:
        """Choose an entry of a list by the beginning of its text."""
        self._scroll_to(box)
        self.click_at(self.ask(lambda: _center(box)))
        view = self.wait(lambda: box.view() if box.view().isVisible() else None, "the list")
        row = self.ask(lambda: next(i for i in range(box.count()) if box.itemText(i).startswith(text)))
        index = self.ask(lambda: box.model().index(row, box.modelColumn()))
        self.click_at(self.ask(lambda: inside(view.viewport(), view.visualRect(index))))
        self.wait(lambda: not view.isVisible(), "the end of the list")

    def layer(self, name: str) -> None:
        """Select a layer in napari's list."""
        view = self.viewer.window._qt_viewer.layers
        model = view.model()

        def place() -> tuple[int, int]:
            rows = (model.index(row, 0) for row in range(model.rowCount()))
            index = next(row for row in rows if row.data() == name)
            view.scrollTo(index)
            return inside(view.viewport(), view.visualRect(index))

        self.click_at(self.ask(place))

    def tab(self, tabs: QTabWidget, index: int) -> None:
        """Choose a tab."""
        self._scroll_to(tabs)
        bar = self.ask(tabs.tabBar)
        self.click_at(self.ask(lambda: inside(bar, bar.tabRect(index))))

    def name_file(self, path: Path) -> None:
        """Type the name of a file into the file dialog that opens."""
        self.wait(lambda: _dialog("QFileDialog"), "the file dialog")
        self.type(str(path))
        self.key("Return")
        self.wait(lambda: not _dialog("QFileDialog"), "the end of the file dialog")

    def start_anew(self) -> None:
        """Close napari's window, and open another one, as on the next day."""

        def begin() -> Any:
            before = self.viewer
            self.viewer = new_window(napari.Viewer(), before.theme)
            before.close()
            STORE.clear()
            return self.viewer

        self.ask(begin)
        time.sleep(2.0)

    def open(self, path: Path) -> None:
        """Open a file or a folder with napari's File > Open, and answer the question for a reader if it comes."""
        before = self.ask(lambda: len(self.viewer.layers))
        self.menu("File", "Open Folder" if path.is_dir() else "Open File")
        self.name_file(path)
        self.wait(lambda: len(self.viewer.layers) > before or _dialog("QtReaderDialog"), f"{path.name}")
        if (dialog := self.ask(lambda: _dialog("QtReaderDialog"))) is not None:
            self.picture("napari asks for a reader")
            self.click(lambda: next(b for b in dialog.findChildren(QAbstractButton) if b.text() == "napari-gpubio"))
            self.click(lambda: next(b for b in dialog.findChildren(QAbstractButton) if "OK" in b.text().upper()))
            self.wait(lambda: len(self.viewer.layers) > before, f"{path.name}")

    # -- the canvas -----------------------------------------------------------------------------------------------

    def go_to_slice(self, point_mm: Sequence[float]) -> None:
        """Turn the wheel with Ctrl over the canvas until the axial slice of a point (x, y, z) in mm is on screen."""
        dims = self.viewer.dims
        over = self.on_canvas(point_mm)
        for _ in range(_MAX_NOTCHES):
            away, step = self.ask(lambda: (point_mm[2] - dims.point[-3], dims.range[-3].step))
            if abs(away) <= step / 2:
                return
            self.wheel(over, -1 if away > 0 else 1, keys=("ctrl",))
        raise TimeoutError(f"{self.title}: the slice of {point_mm} was not reached")

    def on_canvas(self, point_mm: Sequence[float], canvas: Any = None) -> tuple[int, int]:
        """Return where a point (x, y, z) in mm is drawn on the screen, on napari's canvas or on that of a pane."""
        return self.ask(lambda: _drawn_at(self.viewer.window._qt_viewer if canvas is None else canvas, point_mm))


def new_window(viewer: Any, theme: str) -> Any:
    """Let the window of a viewer fill the screen, and return the viewer."""
    viewer.theme = theme
    window = viewer.window._qt_window
    screen = window.screen().geometry()
    window.setGeometry(0, 0, screen.width(), screen.height())
    return viewer


def _events(*words: object) -> None:
    subprocess.run(["xdotool", *map(str, words)], check=True)


def _center(widget: QWidget) -> tuple[int, int]:
    return inside(widget, widget.rect())


def inside(widget: QWidget, place: QRect) -> tuple[int, int]:
    """Return where the middle of a part of a widget is on the screen."""
    at = widget.mapToGlobal(place.center())
    return at.x(), at.y()


def _scroll_area(widget: QWidget) -> QScrollArea | None:
    parent = widget.parentWidget()
    while parent is not None and not isinstance(parent, QScrollArea):
        parent = parent.parentWidget()
    return parent


def _beyond(area: QScrollArea, widget: QWidget) -> int:
    """1 if a widget lies below what is seen of an area, -1 above, 0 if it is seen."""
    place = QRect(widget.mapTo(area.viewport(), QPoint(0, 0)), widget.size())
    height = min(place.height(), area.viewport().height())
    return int(place.top() + height > area.viewport().height()) - int(place.top() < 0)


def _left_edge(area: QScrollArea) -> tuple[int, int]:
    at = area.viewport().mapToGlobal(QPoint(_EDGE, area.viewport().height() // 2))
    return at.x(), at.y()


def _action(menu: Any, text: str) -> Any:
    return next((a for a in menu.actions() if a.text().replace("&", "").startswith(text)), None)


def _open_menu(action: Any) -> QMenu | None:
    menu = action.menu()
    return menu if menu is not None and menu.isVisible() else None


def _dialog(kind: str) -> QWidget | None:
    return next(
        (w for w in QApplication.topLevelWidgets() if w.isVisible() and kind in [c.__name__ for c in type(w).__mro__]),
        None,
    )


def _drawn_at(qt_viewer: Any, point_mm: Sequence[float]) -> tuple[int, int]:
    canvas, dims = qt_viewer.canvas, qt_viewer.viewer.dims
    world = np.zeros(dims.ndim)
    world[-3:] = point_mm[::-1]
    shown = world[list(dims.displayed)][::-1]
    x, y, _, w = (canvas.view.transform * canvas.view.scene.transform).map(shown)[:4]
    at = canvas.native.mapToGlobal(QPoint(round(x / w), round(y / w)))
    return at.x(), at.y()
