"""Keys in a panel stay there: none of them reaches napari, where a digit or a letter is a tool of the active layer."""

from collections.abc import Callable, Mapping
from typing import Any

from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import QWidget

_MODIFIERS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier
_UNDO = {Qt.Key.Key_Z, Qt.Key.Key_Y}  # napari's own would undo strokes of the active layer


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
