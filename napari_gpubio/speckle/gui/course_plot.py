"""The plot of time courses: regions, events, the baseline."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget

from napari_gpubio.speckle.indices import speckle_flow_index
from napari_gpubio.speckle.live import TimeCourse

Array = npt.NDArray[Any]
_INK, _EVENT = "#a8adb3", "#fff176"
_MOST_POINTS = 4000  # drawn of a curve
_LEAST_GAP_S, _GAP_STEPS = 1.0, 8.0
QUANTITIES = {"relative": "relative flow", "sfi": "SFI (1/s)", "squared": "K²"}  # of the mean of K²


class CoursePlot(pyqtgraph.PlotWidget):
    """Draws the curves of a `TimeCourse`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, background=None)
        self._curves: dict[str, Any] = {}
        self._lines: list[Any] = []
        self._events: tuple[Any, ...] = ()
        self.showGrid(x=True, y=True, alpha=0.15)
        self.setMenuEnabled(False)
        self.hideButtons()
        for side in ("bottom", "left"):
            axis = self.getAxis(side)
            axis.setPen(_INK)
            axis.setTextPen(_INK)
            axis.enableAutoSIPrefix(False)
        self.getAxis("left").setWidth(52)
        self.setLabel("bottom", "time (s)")
        self.baseline = pyqtgraph.LinearRegionItem(brush="#ffffff18", pen="#ffffff40", movable=False)
        self.baseline.hide()
        self.addItem(self.baseline, ignoreBounds=True)

    def show_course(
        self, course: TimeCourse, quantity: str, exposure_ms: float, colors: Mapping[str, str], last_s: float
    ) -> None:
        """Draw the curves.

        Parameters
        ----------
        course
            What was measured.
        quantity
            A key of `QUANTITIES`.
        exposure_ms
            For the speckle flow index.
        colors
            Of regions; one without a color is gone, and is drawn in gray.
        last_s
            How much of the end is shown; infinity for everything.
        """
        times = course.times_s
        first = int(np.searchsorted(times, times[-1] - last_s)) if len(times) else 0
        step = max(1, -(-(len(times) - first) // _MOST_POINTS))
        for name in set(self._curves) - set(course.regions):
            self.removeItem(self._curves.pop(name))
        for name in course.regions[:]:
            values = _values(course, name, quantity, exposure_ms)
            n = min(len(values), len(times))  # a sample may have come between the two
            values = np.where(np.isfinite(values), values, np.nan)
            line = with_gaps(times[first:n:step], values[first:n:step])
            self._curve(name, colors.get(name, "#777777")).setData(*line)
        self.setLabel("left", QUANTITIES[quantity])
        self._show_events(course)

    def _curve(self, name: str, color: str) -> Any:
        if name not in self._curves:
            self._curves[name] = self.plot([], [], connect="finite")
        self._curves[name].setPen(color, width=1.5)
        return self._curves[name]

    def _show_events(self, course: TimeCourse) -> None:
        base = course.baseline
        self.baseline.setVisible(base is not None)
        if base is not None:
            self.baseline.setRegion((base.start_s, base.stop_s))
        if course.events == self._events:
            return
        for line in self._lines:
            self.removeItem(line)
        self._events = course.events
        pen = pyqtgraph.mkPen(_EVENT, width=1, style=Qt.PenStyle.DashLine)
        look = {"color": _EVENT, "position": 0.9, "anchors": [(0, 0.5), (0, 0.5)]}
        self._lines = [
            pyqtgraph.InfiniteLine(event.time_s, 90, pen, label=event.label, labelOpts=look) for event in self._events
        ]
        for line in self._lines:
            self.addItem(line, ignoreBounds=True)


def with_gaps(times: Array, values: Array) -> tuple[Array, Array]:
    """Return a curve with a NaN in every gap of time, for instance between a stop and the next start.

    A gap is longer than a second, and than some of the usual steps.
    """
    steps = np.diff(times)
    if not len(steps):
        return times, values
    gaps = np.flatnonzero(steps > max(_LEAST_GAP_S, _GAP_STEPS * float(np.median(steps)))) + 1
    if not len(gaps):
        return times, values
    return np.insert(times, gaps, times[gaps - 1]), np.insert(values, gaps, np.nan)


def _values(course: TimeCourse, name: str, quantity: str, exposure_ms: float) -> Any:
    if quantity == "relative":
        return course.relative_flow(name)
    k2 = course.contrast_squared(name)
    return k2 if quantity == "squared" else speckle_flow_index(k2, exposure_ms)
