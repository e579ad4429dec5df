"""Docked panels: extra windows such as plots, and detection of when a panel is closed."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QEvent, QObject, Qt, Signal
from qtpy.QtWidgets import QDockWidget, QMainWindow, QSizePolicy, QTabWidget, QWidget

from napari_gpubio.gui.connections import single_shot
from napari_gpubio.gui.guards import KeyGuard, WheelGuard

_MIN_SPLIT = 1500  # pixels of a window in which two docks stand side by side
_LEFT = Qt.DockWidgetArea.LeftDockWidgetArea
_CORNERS = (
    (Qt.Corner.BottomLeftCorner, _LEFT),
    (Qt.Corner.BottomRightCorner, Qt.DockWidgetArea.RightDockWidgetArea),
)
_TOO_WIDE = 1.05  # times the screen, of what a window needs
_BELOW = 0.35  # of the height of a narrower one, for what stands below the canvas instead


class CloseGuard(QObject):
    """Watches a panel and everything it sits in.

    ``closing`` comes when the panel is taken out of its dock or a window around it closes, in time to end what runs;
    where the user closes that, others may ask whether it is meant, and it comes when they have. ``stayed`` comes after
    it if the panel is on screen again.
    ``shares_place``: whether panels that are opened later become tabs beside it in every window; see `share_place`.
    ``may_close`` is asked when the user closes the panel or a window around it, not when a script does.

    Attributes
    ----------
    is_window_closing
        Whether the panel goes with a window around it, in which nothing can be shown any more.
    """

    closing = Signal()
    stayed = Signal()

    def __init__(
        self, panel: QWidget, *, shares_place: bool = False, may_close: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(panel)
        self._panel, self.shares_place, self._may_close = panel, shares_place, may_close
        self._gone = self.is_window_closing = False
        self._to_close: Any = None  # the window that the user wants to close
        self._watched: set[int] = set()
        self._later = single_shot(0, self._look_again, self)
        self._watch_upwards()

    @property
    def panel(self) -> QWidget:
        """The panel."""
        return self._panel

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: an event of the panel or of something around it."""
        kind = event.type()
        if kind == QEvent.Type.ParentChange:
            if self._panel.parent() is None:
                self._go()
            self._watch_upwards()
        elif kind == QEvent.Type.Close and watched.isWindow():
            if event.spontaneous():
                return self._ask_for(watched, event)
            self._go(with_window=True)
            self._later.start()
        elif kind == QEvent.Type.Hide and watched is self._to_close and not event.spontaneous():
            self._to_close = None
            self._go(with_window=True)
        elif kind == QEvent.Type.Show and watched is self._panel:
            self._look_again()
        return False

    def _watch_upwards(self) -> None:
        widget: Any = self._panel
        while widget is not None:
            if id(widget) not in self._watched:
                self._watched.add(id(widget))
                widget.installEventFilter(self)
                if hasattr(widget, "destroyOnClose"):
                    self._ask_before(widget)
                    _raise_when_chosen(widget)
            widget = widget.parentWidget()

    def _ask_before(self, dock: Any) -> None:
        """Let the button that closes a dock of napari's ask first; Qt has no event for it."""
        close = dock.destroyOnClose
        dock.destroyOnClose = lambda: close() if self._may_close() else None

    def _ask_for(self, window: Any, event: Any) -> bool:
        """Ask before a window is closed, which it then hides, unless it keeps open; returns whether the event ends."""
        if self._may_close():
            self._to_close = window
            return False
        event.ignore()
        return True

    def _go(self, *, with_window: bool = False) -> None:
        self._gone, self.is_window_closing = True, with_window
        self.closing.emit()

    def _look_again(self) -> None:
        if self._gone and self._panel.isVisible():
            self._gone = self.is_window_closing = False
            self.stayed.emit()


def _raise_when_chosen(dock: Any) -> None:
    """Let napari's menu bring up a dock that lies behind another tab; it would hide it, taking it for visible."""
    set_visible = dock.setVisible

    def raise_or_set(is_visible: bool) -> None:  # noqa: FBT001 - as Qt has it
        window = dock.parentWidget()
        is_tab = isinstance(window, QMainWindow) and bool(window.tabifiedDockWidgets(dock))
        if not is_visible and is_tab and dock.isVisible() and dock.visibleRegion().isEmpty():
            dock.raise_()
        else:
            set_visible(is_visible)

    dock.setVisible = raise_or_set


def share_place(part: QWidget, *, as_tab: bool = True) -> None:
    """Put a part that was just docked beside another one in the same area, and bring it up.

    napari would put it below, where neither has room. Panels become tabs; what is to be seen beside a panel
    (``as_tab`` is false) stands beside it in a window that is wide enough, and below the canvas in a narrow one. On a
    screen that is too narrow for panels beside the canvas and napari's own docks, they are tabs of one of these; where
    napari puts a panel that was there before, it would make the window higher.
    """
    dock = dock_of(part)
    window = dock.parentWidget() if dock is not None else None
    if part.sizePolicy().verticalPolicy() == QSizePolicy.Policy.Maximum:  # of napari 0.9.0, which lets none grow
        part.setSizePolicy(part.sizePolicy().horizontalPolicy(), QSizePolicy.Policy.Preferred)
    if not isinstance(window, QMainWindow) or dock.isFloating():
        return
    area = window.dockWidgetArea(dock)
    if as_tab and area == _LEFT and _is_too_large(window, dock):
        _put_among_naparis(window, dock)
    if window.tabifiedDockWidgets(dock):
        return
    if area == Qt.DockWidgetArea.BottomDockWidgetArea:  # where it was when it was closed, which napari remembers
        _put_below(window, dock)
        return
    others = sorted(window.findChildren(CloseGuard), key=lambda guard: guard.shares_place != as_tab)
    for other in others:
        place = dock_of(other.panel)
        if place is None or place is dock or place.isFloating() or window.dockWidgetArea(place) != area:
            continue
        if as_tab and (other.shares_place or window.width() < _MIN_SPLIT):
            window.tabifyDockWidget(place, dock)
            dock.raise_()
        elif window.width() < _MIN_SPLIT:
            _put_below(window, dock)
        else:
            window.splitDockWidget(place, dock, Qt.Orientation.Horizontal)
        return
    if as_tab and _is_too_large(window):
        _put_among_naparis(window, dock)


def _is_too_large(window: QMainWindow, beside: QWidget | None = None) -> bool:
    """Whether a window needs more than the screen is wide; with a part that it has, if that stood beside the others.

    With such a part, also whether it needs more than the screen is high.
    """
    needed, screen = window.minimumSizeHint(), window.screen().availableGeometry()
    width = needed.width() + (0 if beside is None else beside.minimumSizeHint().width())
    is_low = beside is not None and needed.height() > screen.height()
    return is_low or bool(width > _TOO_WIDE * screen.width())


def _put_among_naparis(window: QMainWindow, dock: QDockWidget) -> None:
    """Make a dock a tab of that of napari's at the left which is highest, and the window no larger than the screen.

    The tabs stand beside them: such a screen is low, too, and below them they would make the window higher than it is.
    """
    docks = [one for one in window.findChildren(QDockWidget) if one.isVisible() and one.findChild(CloseGuard) is None]
    left = [one for one in docks if window.dockWidgetArea(one) == _LEFT]
    if left:
        window.setTabPosition(_LEFT, QTabWidget.TabPosition.West)
        window.tabifyDockWidget(max(left, key=lambda one: one.minimumSizeHint().height()), dock)
        dock.raise_()
        window.layout().activate()
        screen = window.screen().availableGeometry()
        window.resize(screen.width(), min(window.height(), screen.height()))


def _put_below(window: QMainWindow, dock: QDockWidget) -> None:
    """Put a dock below the canvas, between those at the sides, which would leave little height below them."""
    for corner, side in _CORNERS:
        window.setCorner(corner, side)
    window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
    window.resizeDocks([dock], [round(_BELOW * window.height())], Qt.Orientation.Vertical)


def raise_dock(part: QWidget) -> None:
    """Bring the dock that a part lies in on screen, in front of those that share its place."""
    dock = dock_of(part)
    if dock is not None:
        dock.show()
        dock.raise_()


def dock_of(widget: QWidget) -> Any:
    """Return the dock that a widget lies in, or None."""
    around: Any = widget
    while around is not None and not isinstance(around, QDockWidget):
        around = around.parentWidget()
    return around


class DockWindow(QObject):
    """Opens a window that ``make`` returns, docked in the viewer's or alone if that has none, and closes it again."""

    def __init__(self, viewer: Any, title: str, make: Callable[[], QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.window: Any = None
        self._viewer, self._title, self._make = viewer, title, make

    def open(self) -> None:
        """Show the window."""
        if self.window is None:
            self.window = self._make()
            WheelGuard(self.window)
            KeyGuard(self.window)
        around = self.window.parentWidget()
        if around is not None:
            around.show()
            around.raise_()
        elif hasattr(self._viewer, "window"):
            dock = {"name": self._title, "area": "bottom", "add_vertical_stretch": False}
            self._viewer.window.add_dock_widget(self.window, **dock)
        else:
            self.window.setWindowTitle(self._title)
            self.window.setAttribute(Qt.WidgetAttribute.WA_QuitOnClose, False)
            self.window.show()

    def detach(self) -> None:
        """Close the window."""
        window, self.window = self.window, None
        if window is None:
            return
        if window.parentWidget() is not None:
            self._viewer.window.remove_dock_widget(window)
        window.close()
        window.deleteLater()
