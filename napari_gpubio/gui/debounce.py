"""Debouncing: many requests, one action, at once or after a pause."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject, Qt, QTimer, Signal


class Debouncer(QObject):
    """Calls an action once for any number of requests: when control is back in the event loop, before the window draws.

    A timer of 0 ms would call it after the window has drawn.
    """

    _requested = Signal()

    def __init__(self, act: Callable[[], Any], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_due = False
        self._act = act
        self._requested.connect(self._act_if_due, Qt.ConnectionType.QueuedConnection)

    def request(self) -> None:
        """Request the action."""
        if not self.is_due:
            self.is_due = True
            self._requested.emit()

    def cancel(self) -> None:
        """Cancel a request that has not been acted on."""
        self.is_due = False

    def _act_if_due(self) -> None:
        if self.is_due:
            self.is_due = False
            self._act()


def single_shot(milliseconds: int, act: Callable[[], Any], parent: QObject) -> QTimer:
    """Return a timer that calls a function once, so long after it was last started."""
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(act)
    return timer
