"""Undo and redo in a window: steps are what was done between two states of it, whichever part did it.

A step begins with something that the user does, a click, a key or the wheel, and has all that follows from it: a run
belongs to the click that began it. So nothing in a panel has to know how it is undone.
"""

import atexit
import weakref
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from qtpy.QtCore import QEvent, QObject, Qt, Signal
from qtpy.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QToolButton,
    QWidget,
)

from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.gui.connections import hold_up, let_go, single_shot
from napari_gpubio.gui.forms import row_of, tip_of
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.switcher import icon_of
from napari_gpubio.gui.turns import Turns
from napari_gpubio.gui.window_state import WindowState, bring_back, changes, take_state

_MOST_STEPS, _LISTED = 300, 20
_WIDTH = 40  # pixels of a button
_QUIET_MS = 400  # after the last click or key, until what was done is a step
_RELEASE, _DOUBLE = QEvent.Type.MouseButtonRelease, QEvent.Type.MouseButtonDblClick
_ACTS = (QEvent.Type.MouseButtonPress, _DOUBLE, _RELEASE, QEvent.Type.Wheel, QEvent.Type.KeyPress)
_CTRL = Qt.KeyboardModifier.ControlModifier
_SHIFT = Qt.KeyboardModifier.ShiftModifier
_KEYS = {(Qt.Key.Key_Z, _CTRL): -1, (Qt.Key.Key_Z, _CTRL | _SHIFT): 1, (Qt.Key.Key_Y, _CTRL): 1}


class _Step(NamedTuple):
    """A state, and what was done to get there."""

    state: WindowState
    text: str


class History(QObject):
    """The steps of one viewer; ``changed`` is emitted when there are others, or another one is shown.

    While something runs, no step ends, and nothing is undone. Behind an undo nothing runs by itself until the user does
    something: results come back with what they were made of. An undo of much takes several turns of the event loop;
    meanwhile the user's clicks and keys do nothing, but that more undo is done afterwards.
    """

    changed = Signal()

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self._viewer, self._front = weakref.proxy(viewer), front_of(viewer)
        self._steps: list[_Step] = []
        self._at = 0
        self._has_acted = False
        self.is_quiet = False  # nothing runs by itself
        self._turns = Turns(self)
        self._text, self._asked = "", 0  # what is said after an undo, and steps that were asked for meanwhile
        self._windows: weakref.WeakSet[Any] = weakref.WeakSet()
        self._later = single_shot(_QUIET_MS, self._end_step, self)
        self._front.changed.connect(self._on_panels)

    # -- steps ----------------------------------------------------------------------------------------------------

    def watch(self, window: Any) -> None:
        """Follow what the user does in a window (a `QWindow`)."""
        if window is not None and window not in self._windows:
            self._windows.add(window)
            window.installEventFilter(self)

    def stop_watching(self) -> None:
        """Follow nothing more."""
        for window in list(self._windows):
            window.removeEventFilter(self)
        self._windows.clear()

    def eventFilter(self, _window: Any, event: Any) -> bool:
        """Qt: an event of a window, before anything in it has it."""
        kind = event.type()
        if kind not in _ACTS or not self._front.panels:
            return False
        if kind == QEvent.Type.KeyPress and (by := _KEYS.get((event.key(), event.modifiers()))) and not _has_own_undo():
            self.go(by)
            return True
        if self.is_undoing:
            return kind != _RELEASE
        is_one = kind == QEvent.Type.MouseButtonPress or (kind == QEvent.Type.KeyPress and not _is_typed_in())
        if kind not in (_RELEASE, _DOUBLE):
            self.note_act(is_new=is_one)
        self._later.start()
        return False

    def note_act(self, *, is_new: bool = True) -> None:
        """Take down that the user does something: a step begins, or (``is_new`` is false) one goes on."""
        if self.is_undoing:
            return
        if is_new:
            self._take()
        self._has_acted, self.is_quiet = True, False
        self._later.start()

    def _end_step(self) -> None:
        if not self._front.panels:
            return
        if QApplication.mouseButtons() != Qt.MouseButton.NoButton or self._waits:
            self._later.start()
        else:
            self._take()

    def _take(self) -> None:
        """Make a step of what was done; without an act of the user it belongs to the step before."""
        if self._waits:
            return
        state = take_state(self._viewer, self._front.panels)
        if not self._steps:
            self._steps, self._at = [_Step(state, "")], 0
            return
        done = changes(self._steps[self._at].state, state)
        if not done or not self._has_acted:
            self._steps[self._at] = self._steps[self._at]._replace(state=state)
            return
        self._has_acted = False
        self._steps[self._at + 1 :] = [_Step(state, _text_of(done))]
        self._at += 1
        self._drop_oldest()
        self.changed.emit()

    def _drop_oldest(self) -> None:
        """Forget steps beyond the most, and those whose layers take more memory than is kept of results."""
        sizes = dict[int, int]()
        for number in range(self._at, -1, -1):
            for _, values in self._steps[number].state.layers:
                data = values.get("data")
                sizes |= {id(data): data.nbytes} if isinstance(data, np.ndarray) else {}
            if self._at - number >= _MOST_STEPS or (sum(sizes.values()) > STORE.budget and number < self._at - 1):
                del self._steps[: number + 1]
                self._at -= number + 1
                return

    @property
    def _waits(self) -> bool:
        """Whether what is done goes on; what there was before anything was done is taken at once."""
        return bool(self._steps) and self._is_busy()

    def _is_busy(self) -> bool:
        return self.is_undoing or any(panel.is_busy for panel in self._front.panels)

    def _on_panels(self) -> None:
        if not self._front.panels:
            self._turns.end()  # the window is closed in the middle of an undo
            self._later.stop()
            self._steps, self._at, self._has_acted = [], 0, False
        elif not self._steps:
            self._later.start()

    # -- undo and redo --------------------------------------------------------------------------------------------

    @property
    def done(self) -> list[str]:
        """What can be undone, the newest first."""
        return [step.text for step in self._steps[self._at : 0 : -1]]

    @property
    def undone(self) -> list[str]:
        """What can be done again, what comes next first."""
        return [step.text for step in self._steps[self._at + 1 :]]

    @property
    def is_undoing(self) -> bool:
        """Whether an undo or redo is under way."""
        return self._turns.is_under_way

    @property
    def can_undo(self) -> bool:
        """Whether something was done."""
        self._take()
        return self._at > 0

    def undo(self) -> None:
        """Go back by one step, if there is one."""
        self.go(-1)

    def redo(self) -> None:
        """Go forward by one step, if there is one."""
        self.go(1)

    def go(self, by: int, *_: Any) -> None:
        """Go back (a negative number) or forward by some steps."""
        if self.is_undoing:
            self._asked += by
            return
        panel = self._front.panel
        if self._is_busy():
            if panel is not None:
                panel.note_while_running("A run is under way. Wait for it to finish, or press Stop, and undo then.")
            return
        self._take()
        place = min(max(self._at + by, 0), len(self._steps) - 1)
        if place == self._at:
            return
        self._text = f"{'undone' if by < 0 else 'done again'}: {self._steps[max(self._at, place)].text}"
        now = self._steps[self._at].state
        self._at, self._asked, self._has_acted, self.is_quiet = place, 0, False, True
        hold_up(self)
        self._turns.begin(self._bring_back(now, self._steps[place].state), self._on_undone)

    def _bring_back(self, now: WindowState, wanted: WindowState) -> Generator[None, None, None]:
        try:
            yield from bring_back(self._viewer, self._front.panels, now, wanted)
        finally:
            let_go(self)

    def _on_undone(self) -> None:
        if (panel := self._front.panel) is not None:
            panel.clear_message()
            panel.show_status(self._text)
        self.changed.emit()
        by, self._asked = self._asked, 0
        if by:
            self.go(by)


def _text_of(done: list[str]) -> str:
    return done[0] if len(done) == 1 else f"{done[0]}, and {len(done) - 1} more"


def _edited() -> Any:
    """What the keys go to; of a field for numbers, whose line has them, that line."""
    focused = QApplication.focusWidget()
    return focused.lineEdit() if isinstance(focused, QAbstractSpinBox) else focused


def _is_typed_in() -> bool:
    """Whether keys go to a text."""
    return isinstance(_edited(), QLineEdit | QPlainTextEdit | QTextEdit)


def _has_own_undo() -> bool:
    """Whether a text is edited that takes its own letters back."""
    focused = _edited()
    if isinstance(focused, QLineEdit):
        return bool(focused.isUndoAvailable() or focused.isRedoAvailable())
    return _is_typed_in()


_histories: dict[int, History] = {}  # by the viewer's id; viewers compare all they hold


def history_of(viewer: Any) -> History:
    """Return the steps of a viewer."""
    viewer = getattr(viewer, "__wrapped__", viewer)  # napari's proxy
    if id(viewer) not in _histories:
        _histories[id(viewer)] = History(viewer)
        weakref.finalize(viewer, _histories.pop, id(viewer), None)
    return _histories[id(viewer)]


@atexit.register
def _stop_watching() -> None:
    """Take the filters away at the end of a script, before PyQt deletes what is left; see `guards`."""
    for history in _histories.values():
        history.stop_watching()


class HistoryButtons(QWidget):
    """Undo and Redo, each with a list of what was done."""

    def __init__(self, viewer: Any, parent: QWidget) -> None:
        super().__init__(parent)
        self._history = history_of(viewer)
        self.undo_button = self._button("Undo", self._history.undo)
        self.redo_button = self._button("Redo", self._history.redo)
        self.setLayout(row_of(self.undo_button, self.redo_button, stretch=(0, 0)))
        self.undo_button.menu().aboutToShow.connect(self._list_done)
        self.redo_button.menu().aboutToShow.connect(self._list_undone)
        self._history.changed.connect(self._show)
        self._show()

    def _button(self, name: str, act: Callable[[], None]) -> QToolButton:
        button = QToolButton(self, accessibleName=name)
        button.setIcon(icon_of(name))
        button.setFixedWidth(_WIDTH)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        button.setMenu(QMenu(button))
        button.clicked.connect(act)
        return button

    def _show(self) -> None:
        history = self._history
        undo, redo = (self.undo_button, history.done), (self.redo_button, history.undone)
        for (button, steps), name, keys in zip((undo, redo), ("Undo", "Redo"), ("Ctrl+Z", "Ctrl+Shift+Z"), strict=True):
            button.setEnabled(bool(steps))
            button.setToolTip(tip_of(f"{name}: {steps[0]} ({keys})" if steps else f"{name} ({keys})"))

    def recolor(self, _swap: Any) -> None:
        """Draw the icons in the color of another theme."""
        for button in (self.undo_button, self.redo_button):
            button.setIcon(icon_of(button.accessibleName()))

    def _list_done(self) -> None:
        self._list(self.undo_button.menu(), self._history.done, -1)

    def _list_undone(self) -> None:
        self._list(self.redo_button.menu(), self._history.undone, 1)

    def _list(self, menu: QMenu, steps: list[str], sign: int) -> None:
        menu.clear()
        for number, text in enumerate(steps[:_LISTED], 1):
            menu.addAction(text).triggered.connect(partial(self._history.go, sign * number))
