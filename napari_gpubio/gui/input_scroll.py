"""The inputs of a panel, which scroll: what was pressed stays where it is, whatever comes or goes around it."""

from typing import Any

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QPoint, Qt
from qtpy.QtWidgets import QApplication, QScrollArea, QWidget

from napari_gpubio.gui.connections import single_shot
from napari_gpubio.gui.forms import InputColumn


class InputScroll(QScrollArea):
    """Scrolls a column of inputs; a control that is held stays at its place on the screen.

    Labels, tables and rows above it may appear, vanish or wrap: the column is moved by as much. Where it cannot be
    scrolled so far, it has room above or below until the mouse leaves the control.

    Parameters
    ----------
    column
        Its layout is the one that gets the room.
    """

    def __init__(self, column: InputColumn, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWidget(column)
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._held: QWidget | None = None
        self._place = 0  # pixels from the top of the panel, where what is held stays
        self._room = (0, 0)  # pixels that were made above and below the inputs
        self._is_moving = False
        self._later = single_shot(0, self._stay, self)  # a part of the column may be laid out by itself
        column.laid_out.connect(self._stay)

    def hold(self, control: QWidget) -> None:
        """Keep something in the column where it is, until the mouse leaves it or presses something else."""
        self.let_go()
        if self.widget().isAncestorOf(control):
            self._held, self._place = control, self._place_of(control)
            self._watch(control, is_on=True)

    def let_go(self) -> None:
        """Hold nothing, and take away the room that was made for it."""
        held, self._held = self._held, None
        if held is not None:
            if isalive(held):
                self._watch(held, is_on=False)
            self._make_room(0, 0)

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: an event of what is held, or of what it lies in."""
        if event.type() == QEvent.Type.Move:
            self._later.start()
        elif event.type() == QEvent.Type.Leave and watched is self._held:
            self.let_go()
        return bool(super().eventFilter(watched, event))

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size; the top may have moved, too."""
        super().resizeEvent(event)
        self._stay()

    def _watch(self, control: QWidget, *, is_on: bool) -> None:
        part: Any = control
        while part is not None and part is not self.widget():
            (part.installEventFilter if is_on else part.removeEventFilter)(self)
            part = part.parentWidget()

    def _place_of(self, control: QWidget) -> int:
        return int(control.mapTo(self.parentWidget(), QPoint(0, 0)).y())

    def _stay(self) -> None:
        if self._held is None or self._is_moving or not isalive(self._held) or not self._held.isVisible():
            return
        by = self._place_of(self._held) - self._place
        if by == 0:
            return
        self._is_moving = True
        bar = self.verticalScrollBar()
        wanted = bar.value() + by
        above, below = self._room
        self._make_room(above + max(0, -wanted), below + max(0, wanted - bar.maximum()))
        bar.setValue(bar.value() + self._place_of(self._held) - self._place)
        self._is_moving = False

    def _make_room(self, above: int, below: int) -> None:
        if (above, below) == self._room:
            return
        layout, (was_above, was_below) = self.widget().layout(), self._room
        margins = layout.contentsMargins()
        top, bottom = margins.top() - was_above + above, margins.bottom() - was_below + below
        self._room = above, below
        layout.setContentsMargins(margins.left(), top, margins.right(), bottom)
        QApplication.sendEvent(self.widget(), QEvent(QEvent.Type.LayoutRequest))
