"""The wheel and keys in a panel stay there.

The wheel scrolls: over a control it changes something only after the control was clicked. No key reaches napari, where
a digit or a letter is a tool of the active layer.
"""

import atexit
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from qtpy.QtCore import QChildEvent, QCoreApplication, QEvent, QObject, Qt, Signal
from qtpy.QtWidgets import (
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QScrollArea,
    QScrollBar,
    QTabBar,
    QWidget,
)

_MODIFIERS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier
_UNDO = {Qt.Key.Key_Z, Qt.Key.Key_Y}  # napari's own would undo strokes of the active layer
_USES = (QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonRelease, QEvent.Type.KeyRelease)
_WHEEL, _KEY, _POLISHED = QEvent.Type.Wheel, QEvent.Type.KeyPress, QEvent.Type.ChildPolished
_LOOKED_AT = (*_USES, _WHEEL, _KEY, _POLISHED)  # of thousands, when a panel is laid out
_NO_ACTION = {
    Qt.Key.Key_Tab, Qt.Key.Key_Backtab, Qt.Key.Key_Shift, Qt.Key.Key_Control, Qt.Key.Key_Alt, Qt.Key.Key_Meta,
}  # fmt: skip
_CHOICES = (QComboBox, QAbstractSpinBox, QTabBar)


class WheelGuard(QObject):
    """Keeps the wheel from changing a control without the focus, in a widget and in all that is ever added to it.

    The event goes on to what the control lies in, which scrolls. Without the guard Qt would also give a list the focus
    because the wheel was turned over it. ``used`` is emitted when the mouse is pressed or a key is released anywhere in
    the widget; ``pressed``, ``released`` and ``typed`` carry where, before it acts.

    Parameters
    ----------
    part
        A panel, a form or a dialog; the guard lives as long as it does.
    """

    used = Signal()
    pressed, released, typed = Signal(object), Signal(object), Signal(object)

    def __init__(self, part: QWidget) -> None:
        super().__init__(part)
        self._tells = {
            QEvent.Type.MouseButtonPress: self.pressed,
            QEvent.Type.MouseButtonRelease: self.released,
            QEvent.Type.KeyPress: self.typed,
        }
        self._watched: weakref.WeakSet[QWidget] = weakref.WeakSet()
        self._watch(part)

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: an event of something in the widget."""
        kind = event.type()
        if kind not in _LOOKED_AT:
            return False
        if kind == _WHEEL:
            control = _control_at(watched)
            if control is not None and not _has_focus(control):
                event.ignore()
                return True
        elif kind != _POLISHED:
            if kind in self._tells and not (kind == _KEY and event.key() in _NO_ACTION):
                self._tells[kind].emit(watched)
            if kind in _USES:
                self.used.emit()
        else:
            # PyQt gives an event the class of an older one at its address whose wrapper somebody keeps
            new = event.child() if isinstance(event, QChildEvent) else watched
            if isinstance(new, QWidget) and new not in self._watched:  # else what came into it has told so itself
                self._watch(new)
        return False

    def _watch(self, part: QWidget) -> None:
        for widget in (part, *part.findChildren(QWidget)):
            if widget.windowType() == Qt.WindowType.Popup:
                continue  # an open list
            self._watched.add(widget)
            widget.installEventFilter(self)
            takes_focus = widget.focusPolicy() == Qt.FocusPolicy.WheelFocus or isinstance(widget, QAbstractSlider)
            if takes_focus and not isinstance(widget, QScrollBar):
                widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)


class KeyGuard(QObject):
    """Takes the keys that nothing in a widget has taken, but for napari's shortcuts with Ctrl, Alt or Meta.

    Parameters
    ----------
    part
        A panel or a window; the guard lives as long as it does.
    acts
        What keys do in it, by their numbers.
    """

    def __init__(self, part: QWidget, acts: Mapping[Qt.Key, Callable[[], object]] | None = None) -> None:
        super().__init__(part)
        self._acts = dict(acts or {})
        part.installEventFilter(self)

    def eventFilter(self, _watched: Any, event: Any) -> bool:
        """Qt: an event of the widget; a key comes here when no child has taken it."""
        if event.type() not in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
            return False
        if event.modifiers() & _MODIFIERS:
            return event.key() in _UNDO
        act = self._acts.get(Qt.Key(event.key()))
        if act is not None and event.type() == QEvent.Type.KeyPress and not event.isAutoRepeat():
            act()
        return event.key() not in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab)


def _control_at(widget: QWidget) -> QWidget | None:
    """Return what the wheel would change if it were turned over a widget, or None."""
    if isinstance(widget, _CHOICES):
        return widget
    if isinstance(widget, QAbstractSlider):
        return None if isinstance(widget, QScrollBar) else widget
    around = widget.parentWidget()
    is_view = isinstance(around, QAbstractScrollArea) and not isinstance(around, QScrollArea)
    if is_view and around.viewport() is widget and _lies_in_scroll_area(around):
        return around
    return None


def _lies_in_scroll_area(widget: QWidget) -> bool:
    """Whether something around a table or a plot scrolls instead of it."""
    around = widget.parentWidget()
    while around is not None and not isinstance(around, QScrollArea):
        around = around.parentWidget()
    return around is not None


def _has_focus(control: QWidget) -> bool:
    focused = QApplication.focusWidget()
    return focused is not None and (focused is control or control.isAncestorOf(focused))


@atexit.register
def _end_watching() -> None:
    """Delete the guards, and the windows that were closed without an event loop, at the end of a script.

    PyQt would delete what is left while it walks through its table of wrappers. A filter that it calls meanwhile may
    add a wrapper for each widget that goes; once the table is moved to grow, PyQt reads freed memory and crashes.
    Functions are called at exit in reverse order: this one before PyQt's, which was registered when it was imported.
    """
    if QCoreApplication.instance() is None:
        return
    for window in QApplication.topLevelWidgets():
        for guard in window.findChildren(WheelGuard):
            guard.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
