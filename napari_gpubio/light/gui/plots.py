"""The plots of the displayed result, in a dock of their own that is made when it is first opened."""

from typing import Any

from qtpy.QtCore import QObject, QSize
from qtpy.QtWidgets import QTabWidget, QWidget

from napari_gpubio.gui.docking import DockWindow
from napari_gpubio.gui.forms import fill_column, row_of
from napari_gpubio.light.gui.displayed import Displayed
from napari_gpubio.light.gui.plots_detectors import DetectorPlot
from napari_gpubio.light.gui.plots_layers import AnglePane, DepthPane, EscapePane, RadialPane
from napari_gpubio.light.gui.plots_profile import ProfilePlot

TITLE = "Light plots"
VOXELS, LAYERS = "voxels", "layers"  # the two modes of the panel


class PlotWindow(QWidget):
    """Tabs of plots for each mode; a plot is drawn only while it is on screen."""

    def __init__(self, viewer: Any, mode: str = VOXELS, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.profile, self.detectors = ProfilePlot(viewer, self), DetectorPlot(self)
        self.depth, self.radial = DepthPane(self), RadialPane(self)
        self.escape, self.angle = EscapePane(self), AnglePane(self)
        self.plots: dict[str, tuple[Any, ...]] = {
            VOXELS: (self.profile, self.detectors),
            LAYERS: (self.depth, self.radial, self.escape, self.angle),
        }
        self._displayed: dict[str, Displayed[Any] | None] = {VOXELS: None, LAYERS: None}
        self._drawn: dict[QWidget, Any] = {}
        self._chosen = {VOXELS: 0, LAYERS: 2}  # tab of each mode
        self._mode = mode
        self.tabs = QTabWidget(self)
        for title, parts in (
            ("Profile", (self.profile,)),
            ("Detectors", (self.detectors,)),
            ("Inside", (self.depth, self.radial)),
            ("Escaping", (self.escape, self.angle)),
        ):
            page = QWidget()
            row = row_of(*parts)
            for index in range(len(parts)):
                row.setStretch(index, 1)
            page.setLayout(row)
            self.tabs.addTab(page, title)
        fill_column(self, self.tabs)
        self.setMinimumSize(320, 220)
        self.set_mode(mode)
        self.tabs.currentChanged.connect(self._draw)

    def sizeHint(self) -> QSize:
        """Qt: the size to begin with."""
        return QSize(900, 330)

    def set_mode(self, mode: str) -> None:
        """Show the tabs of a mode, with the one that was on top before."""
        current = self.tabs.currentIndex()
        if (current < 2) == (self._mode == VOXELS):
            self._chosen[self._mode] = current
        self._mode = mode
        for index in range(self.tabs.count()):
            self.tabs.setTabVisible(index, (index < 2) == (mode == VOXELS))
        self.tabs.setCurrentIndex(self._chosen[mode])
        self._draw()

    def display(self, mode: str, displayed: Displayed[Any] | None) -> None:
        """Plot another result of a mode, now or when the window comes on screen."""
        self._displayed[mode] = displayed
        self._draw()

    def showEvent(self, event: Any) -> None:
        """Qt: the window comes on screen."""
        super().showEvent(event)
        self._draw()

    def finish(self) -> None:
        """End what runs and let the viewer go."""
        self.detectors.finish()
        self.profile.line.detach()

    def _draw(self, *_: Any) -> None:
        for mode, plots in self.plots.items():
            displayed = self._displayed[mode]
            for plot in plots:
                if plot.isVisible() and not (plot in self._drawn and self._drawn[plot] is displayed):
                    self._drawn[plot] = displayed
                    plot.plot_result(displayed)


class PlotController(DockWindow):
    """Opens the plots, and keeps them in step with the displayed results of both modes."""

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(viewer, TITLE, self._new_window, parent)
        self._mode = VOXELS
        self._displayed: dict[str, Displayed[Any] | None] = {}

    def set_mode(self, mode: str) -> None:
        """Show the plots of a mode."""
        self._mode = mode
        if self.window is not None:
            self.window.set_mode(mode)

    def display(self, mode: str, displayed: Displayed[Any] | None) -> None:
        """Plot another result of a mode, if and when the plots are open."""
        self._displayed[mode] = displayed
        if self.window is not None:
            self.window.display(mode, displayed)

    def attach(self) -> None:
        """Do nothing yet: the plots follow from when they are opened."""

    def detach(self) -> None:
        """End what runs, take the plots away and let the viewer go."""
        if self.window is not None:
            self.window.finish()
        super().detach()

    def _new_window(self) -> PlotWindow:
        window = PlotWindow(self._viewer, self._mode)
        window.profile.line.attach()
        for mode, displayed in self._displayed.items():
            window.display(mode, displayed)
        return window
