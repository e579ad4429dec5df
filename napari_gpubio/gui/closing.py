"""When a docked panel goes away: Qt tells it neither that its dock was removed nor that the window closes."""

from typing import Any

from qtpy.QtCore import QEvent, QObject, QTimer, Signal
from qtpy.QtWidgets import QWidget


class CloseGuard(QObject):
    """Watches a panel and everything it sits in.

    ``closing`` comes when the panel is taken out of its dock or a window around it is about to close, in time to end
    what runs; ``stayed`` comes after it if the panel is on screen again, because the user did not close after all.
    """

    closing = Signal()
    stayed = Signal()

    def __init__(self, panel: QWidget) -> None:
        super().__init__(panel)
        self._panel = panel
        self._gone = False
        self._watched: set[int] = set()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self._look_again)
        self._watch_upwards()

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: an event of the panel or of something around it."""
        kind = event.type()
        if kind == QEvent.Type.ParentChange:
            if self._panel.parent() is None:
                self._go()
            self._watch_upwards()
        elif kind == QEvent.Type.Close and watched.isWindow():
            self._go()
            self._later.start(0)
        elif kind == QEvent.Type.Show and watched is self._panel:
            self._look_again()
        return False

    def _watch_upwards(self) -> None:
        widget: Any = self._panel
        while widget is not None:
            if id(widget) not in self._watched:
                self._watched.add(id(widget))
                widget.installEventFilter(self)
            widget = widget.parentWidget()

    def _go(self) -> None:
        self._gone = True
        self.closing.emit()

    def _look_again(self) -> None:
        if self._gone and self._panel.isVisible():
            self._gone = False
            self.stayed.emit()
