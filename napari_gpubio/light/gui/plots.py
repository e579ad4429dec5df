"""The plots of the displayed result, in a dock of their own that is made when it is first opened."""

from typing import Any

from qtpy.QtCore import QObject, QSize
from qtpy.QtWidgets import QHBoxLayout, QTabWidget, QVBoxLayout, QWidget

from napari_gpubio.gui.docking import DockWindow
from napari_gpubio.light.gui.plots_detectors import DetectorPlot
from napari_gpubio.light.gui.plots_layers import AnglePane, DepthPane, EscapePane, Pane, RadialPane
from napari_gpubio.light.gui.plots_profile import ProfilePlot
from napari_gpubio.light.gui.request import Displayed
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import PER_PHOTON

TITLE = "Light plots"
VOXELS, LAYERS = "voxels", "layers"  # the two modes of the panel


class PlotWindow(QWidget):
    """Tabs of plots for each mode; a plot is drawn only while it is on screen."""

    def __init__(self, viewer: Any, mode: str = VOXELS, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.profile, self.detectors = ProfilePlot(viewer, self), DetectorPlot(self)
        self.depth, self.radial = DepthPane(self), RadialPane(self)
        self.escape, self.angle = EscapePane(self), AnglePane(self)
        self._voxels: Displayed[LightResult] | None = None
        self._layers: Displayed[LayeredResult] | None = None
        self._drawn: dict[QWidget, Any] = {}
        self._chosen = {VOXELS: 0, LAYERS: 2}  # tab of each mode
        self._mode = mode
        self.tabs = QTabWidget(self)
        for title, page in (
            ("Profile", self.profile),
            ("Detectors", self.detectors),
            ("Inside", _side_by_side(self.depth, self.radial)),
            ("Escaping", _side_by_side(self.escape, self.angle)),
        ):
            self.tabs.addTab(page, title)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs)
        self.setMinimumSize(320, 220)
        self.set_mode(mode)
        self.tabs.currentChanged.connect(self._on_tab)

    @property
    def panes(self) -> tuple[Pane, ...]:
        """The plots of layers."""
        return self.depth, self.radial, self.escape, self.angle

    def sizeHint(self) -> QSize:
        """Qt: the size to begin with."""
        return QSize(900, 330)

    def set_mode(self, mode: str) -> None:
        """Show the tabs of a mode, the one that was on top before first."""
        self._chosen[self._mode] = self.tabs.currentIndex() if self._is_of(self._mode) else self._chosen[self._mode]
        self._mode = mode
        for index in range(self.tabs.count()):
            self.tabs.setTabVisible(index, (index < 2) == (mode == VOXELS))
        self.tabs.setCurrentIndex(self._chosen[mode])
        self._draw()

    def display_voxels(self, displayed: Displayed[LightResult] | None) -> None:
        """Plot another result, now or when the window comes on screen."""
        self._voxels = displayed
        self._draw()

    def display_layers(self, displayed: Displayed[LayeredResult] | None) -> None:
        """Plot another result, now or when the window comes on screen."""
        self._layers = displayed
        self._draw()

    def showEvent(self, event: Any) -> None:
        """Qt: the window comes on screen."""
        super().showEvent(event)
        self._draw()

    def finish(self) -> None:
        """End what runs and let the viewer go."""
        self.detectors.finish()
        self.profile.line.detach()

    def _on_tab(self, _index: int) -> None:
        self._draw()

    def _is_of(self, mode: str) -> bool:
        """Whether the current tab belongs to a mode."""
        return (self.tabs.currentIndex() < 2) == (mode == VOXELS)

    def _draw(self) -> None:
        plots: tuple[Any, ...] = (self.profile, self.detectors, *self.panes)
        for plot in plots:
            shown: Any = self._layers if isinstance(plot, Pane) else self._voxels
            if not plot.isVisible() or (plot in self._drawn and self._drawn[plot] is shown):
                continue
            self._drawn[plot] = shown
            if isinstance(plot, Pane):
                plot.show_result(shown)
            elif isinstance(plot, DetectorPlot):
                plot.show_result(None if shown is None else shown.result)
            elif shown is None:
                plot.show_result(None, PER_PHOTON)
            else:
                plot.show_result(shown.result, shown.options.unit)


class PlotController(DockWindow):
    """Opens the plots, and keeps them in step with the displayed results of both modes."""

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(viewer, TITLE, self._new_window, parent)
        self._mode = VOXELS
        self._voxels: Displayed[LightResult] | None = None
        self._layers: Displayed[LayeredResult] | None = None

    def set_mode(self, mode: str) -> None:
        """Show the plots of a mode."""
        self._mode = mode
        if self.window is not None:
            self.window.set_mode(mode)

    def display_voxels(self, displayed: Displayed[LightResult] | None) -> None:
        """Plot another result, if and when the plots are open."""
        self._voxels = displayed
        if self.window is not None:
            self.window.display_voxels(displayed)

    def display_layers(self, displayed: Displayed[LayeredResult] | None) -> None:
        """Plot another result, if and when the plots are open."""
        self._layers = displayed
        if self.window is not None:
            self.window.display_layers(displayed)

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
        window.display_voxels(self._voxels)
        window.display_layers(self._layers)
        return window


def _side_by_side(*parts: QWidget) -> QWidget:
    whole = QWidget()
    row = QHBoxLayout(whole)
    row.setContentsMargins(0, 0, 0, 0)
    for part in parts:
        row.addWidget(part, 1)
    return whole
