"""The plots of a layered result, in a dock of their own that is made when it is first asked for."""

from typing import Any

from qtpy.QtCore import QObject, QSize
from qtpy.QtWidgets import QHBoxLayout, QTabWidget, QVBoxLayout, QWidget

from napari_gpubio.gui.docking import DockWindow
from napari_gpubio.light.gui.layers.plot_panes import AnglePane, DepthPane, EscapePane, Pane, RadialPane
from napari_gpubio.light.gui.layers.request import Picture

TITLE = "Light in layers: plots"


class PlotWindow(QWidget):
    """What is inside and what escapes, on two tabs; drawn only while it is on screen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.depth, self.radial = DepthPane(self), RadialPane(self)
        self.escape, self.angle = EscapePane(self), AnglePane(self)
        self._shown: Picture | None = None
        self._drawn: dict[Pane, Picture | None] = {}
        self.tabs = QTabWidget(self)
        self.tabs.addTab(_side_by_side(self.depth, self.radial), "Inside")
        self.tabs.addTab(_side_by_side(self.escape, self.angle), "Escaping")
        self.tabs.currentChanged.connect(lambda _: self._draw())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)
        self.setMinimumSize(320, 220)

    @property
    def panes(self) -> tuple[Pane, ...]:
        """All plots."""
        return self.depth, self.radial, self.escape, self.angle

    def sizeHint(self) -> QSize:
        """Qt: the size to begin with."""
        return QSize(900, 330)

    def show_picture(self, picture: Picture | None) -> None:
        """Show another result, now or when the window comes on screen."""
        self._shown = picture
        if self.isVisible():
            self._draw()

    def showEvent(self, event: Any) -> None:
        """Qt: the window comes on screen."""
        super().showEvent(event)
        self._draw()

    def _draw(self) -> None:
        for pane in self.panes:
            if pane.isVisible() and (pane not in self._drawn or self._drawn[pane] is not self._shown):
                self._drawn[pane] = self._shown
                pane.show_picture(self._shown)


class PlotController(DockWindow):
    """Opens the plots, and keeps them in step with the picture.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(viewer, TITLE, self._new_window, parent)
        self._shown: Picture | None = None

    def show_picture(self, picture: Picture | None) -> None:
        """Show another result, if and when the plots are open."""
        self._shown = picture
        if self.window is not None:
            self.window.show_picture(picture)

    def _new_window(self) -> PlotWindow:
        """The plots of the picture."""
        window = PlotWindow()
        window.show_picture(self._shown)
        return window


def _side_by_side(*parts: QWidget) -> QWidget:
    whole = QWidget()
    row = QHBoxLayout(whole)
    row.setContentsMargins(0, 0, 0, 0)
    for part in parts:
        row.addWidget(part, 1)
    return whole
