"""Whether a canvas is drawn on the screen or into a picture; vispy draws both in the same way."""

import weakref
from typing import Any

from qtpy.QtCore import QEvent, QObject, QTimer


class CanvasScreen(QObject):
    """Watches the widget of a vispy canvas.

    Parameters
    ----------
    canvas
        A vispy canvas on a Qt widget.

    Attributes
    ----------
    painting
        The draw that goes on now was asked for by the window, not by someone who wants a picture.
    """

    def __init__(self, canvas: Any) -> None:
        super().__init__(canvas.native)
        self.painting = False
        self._canvas = weakref.ref(canvas)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._on_timer)
        canvas.native.installEventFilter(self)
        canvas.events.draw.connect(self._on_drawn, position="last")

    def eventFilter(self, _widget: QObject, event: QEvent) -> bool:
        """Qt: a paint event comes before the draw that it causes."""
        if event.type() == QEvent.Type.Paint:
            self.painting = True
        return False

    def paint_again(self) -> None:
        """Ask for another frame, from within a draw (where Qt does not listen to the canvas's own `update`)."""
        self._timer.start(0)

    def stop(self) -> None:
        """Watch no longer."""
        self.painting = False
        self._timer.stop()
        canvas = self._canvas()
        if canvas is not None:
            canvas.events.draw.disconnect(self._on_drawn)
        self.deleteLater()  # which ends the filter, too

    def _on_drawn(self, _event: Any) -> None:
        self.painting = False

    def _on_timer(self) -> None:
        canvas = self._canvas()
        if canvas is not None:
            canvas.update()
