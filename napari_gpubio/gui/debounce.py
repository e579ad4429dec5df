"""Debouncing: many requests, one action."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject, Qt, Signal


class Debouncer(QObject):
    """Acts once after what runs now has ended, and before the window draws; a timer of 0 ms acts after it has drawn.

    Parameters
    ----------
    act
        What is done.
    """

    _asked = Signal()

    def __init__(self, act: Callable[[], Any], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_due = False
        self._act = act
        self._asked.connect(self._act_if_due, Qt.ConnectionType.QueuedConnection)

    def ask(self) -> None:
        """Let it act."""
        if not self.is_due:
            self.is_due = True
            self._asked.emit()

    def forget(self) -> None:
        """Let it not act, if it has not yet."""
        self.is_due = False

    def _act_if_due(self) -> None:
        if self.is_due:
            self.is_due = False
            self._act()
