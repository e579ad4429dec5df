"""The plots of a light result, in a dock of their own that is made when it is first asked for."""

from typing import Any

from qtpy.QtCore import QObject, QSize
from qtpy.QtWidgets import QTabWidget, QVBoxLayout, QWidget

from napari_gpubio.gui.docking import DockWindow
from napari_gpubio.light.gui.plots_detectors import DetectorPlot
from napari_gpubio.light.gui.plots_profile import ProfilePlot
from napari_gpubio.light.numbers import PER_PHOTON, FluenceUnit
from napari_gpubio.light.result import LightResult

TITLE = "Light plots"


class PlotWindow(QWidget):
    """The profile and the detectors of a result, on two tabs; drawn only while it is on screen.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.profile = ProfilePlot(viewer, self)
        self.detectors = DetectorPlot(self)
        self._shown: tuple[LightResult | None, FluenceUnit] = (None, PER_PHOTON)
        self._drawn: tuple[LightResult | None, FluenceUnit] | None = None
        tabs = QTabWidget(self)
        tabs.addTab(self.profile, "Profile")
        tabs.addTab(self.detectors, "Detectors")
        self.tabs = tabs
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(tabs)
        self.setMinimumSize(320, 220)

    def sizeHint(self) -> QSize:
        """Qt: the size to begin with."""
        return QSize(640, 320)

    def show_result(self, result: LightResult | None, unit: FluenceUnit) -> None:
        """Show another result, now or when the window comes on screen."""
        self._shown = (result, unit)
        if self.isVisible():
            self._draw()

    def showEvent(self, event: Any) -> None:
        """Qt: the window comes on screen."""
        super().showEvent(event)
        self._draw()

    def finish(self) -> None:
        """End what runs and let the viewer go."""
        self.detectors.finish()
        self.profile.line.detach()

    def _draw(self) -> None:
        if self._drawn is not None and all(a is b for a, b in zip(self._drawn, self._shown, strict=True)):
            return
        self._drawn = self._shown
        result, unit = self._shown
        self.profile.show_result(result, unit)
        self.detectors.show_result(result)


class PlotController(DockWindow):
    """Opens the plots, and keeps them in step with the result.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(viewer, TITLE, self._new_window, parent)
        self._shown: tuple[LightResult | None, FluenceUnit] = (None, PER_PHOTON)

    def show_result(self, result: LightResult | None, unit: FluenceUnit) -> None:
        """Show another result, if and when the plots are open."""
        self._shown = (result, unit)
        if self.window is not None:
            self.window.show_result(result, unit)

    def _new_window(self) -> PlotWindow:
        """The plots of the result."""
        window = PlotWindow(self._viewer)
        window.profile.line.attach()
        window.show_result(*self._shown)
        return window

    def detach(self) -> None:
        """End what runs, take the plots away and let the viewer go."""
        if self.window is not None:
            self.window.finish()
        super().detach()
