"""A window of a dock widget's own, such as its plots: docked below the picture, and made when it is first asked for."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject, Qt
from qtpy.QtWidgets import QWidget


class DockWindow(QObject):
    """Opens a window and takes it away again.

    Parameters
    ----------
    viewer
        The napari viewer; if it has no window itself, ours stands alone.
    title
        What is written above the window.
    make
        Returns the window, with what it is to show.
    """

    def __init__(self, viewer: Any, title: str, make: Callable[[], QWidget], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.window: Any = None
        self._viewer, self._title, self._make = viewer, title, make

    def open(self) -> None:
        """Bring the window on screen."""
        if self.window is None:
            self.window = self._make()
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
        """Take the window away and let the viewer go."""
        window, self.window = self.window, None
        if window is None:
            return
        if window.parentWidget() is not None:
            self._viewer.window.remove_dock_widget(window)
        window.close()
        window.deleteLater()
