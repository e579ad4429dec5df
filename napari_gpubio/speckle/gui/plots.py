"""Time courses of regions: plot, events, baseline, table."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from napari.layers import Shapes
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QGridLayout, QLineEdit, QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.file_dialogs import write_table
from napari_gpubio.gui.forms import fill_column, muted_label, row_of, text_button
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.plots import Axis, ThemedPlot
from napari_gpubio.speckle.indices import speckle_flow_index
from napari_gpubio.speckle.live import TimeCourse

Array = npt.NDArray[Any]
LIVE, STACK = "live", "stack"
QUANTITIES = {"relative": "relative flow", "sfi": "SFI (1/s)", "squared": "K²"}  # of the mean of K²
EMPTY = "No regions yet: press Draw regions and draw over the map. K² is averaged in each region."
NO_COURSE = "there is no time course to write; draw a region, and start live imaging or run the whole stack"
NO_MOMENT = "there is no moment to mark yet; start live imaging with a region drawn"
NOT_IN_BASELINE = "No relative flow of {}: press Take for a baseline in which it is measured too."
_SPANS = {"all": math.inf, "last 10 s": 10.0, "last 60 s": 60.0, "last 600 s": 600.0}
_HEIGHT_PIXELS = 190
_MAX_POINTS_DRAWN = 4000
_MIN_GAP_S, _GAP_STEPS = 1.0, 8.0
_FILL_ALPHA, _EDGE_ALPHA = 0x30, 0x60


class CoursePlot(ThemedPlot):
    """Draws the curves of a `TimeCourse`."""

    bottom, left = Axis(title="time (s)"), Axis(pixels=52)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.curves: dict[str, Any] = {}  # pyqtgraph's items, by region
        self._lines: list[Any] = []
        self._events: tuple[Any, ...] = ()
        fill, edge = (theme.translucent(theme.ACCENT, alpha) for alpha in (_FILL_ALPHA, _EDGE_ALPHA))
        self.baseline = pyqtgraph.LinearRegionItem(brush=fill, pen=edge, movable=False)
        self.baseline.hide()
        self.addItem(self.baseline, ignoreBounds=True)

    def draw(
        self, course: TimeCourse, quantity: str, exposure_ms: float, colors: Mapping[str, str], last_s: float
    ) -> None:
        """Draw the last seconds of a quantity, a key of `QUANTITIES`; regions that were deleted have no color."""
        times = course.times_s
        first = int(np.searchsorted(times, times[-1] - last_s)) if len(times) else 0
        step = max(1, -(-(len(times) - first) // _MAX_POINTS_DRAWN))
        for name in set(self.curves) - set(course.regions):
            self.removeItem(self.curves.pop(name))
        for name in course.regions:
            if quantity == "relative":
                values = course.relative_flow(name)
            else:
                k2 = course.contrast_squared(name)
                values = k2 if quantity == "squared" else speckle_flow_index(k2, exposure_ms)
            n = min(len(values), len(times))  # a sample may have come between the two
            values = np.where(np.isfinite(values), values, np.nan)
            if name not in self.curves:
                self.curves[name] = self.plot([], [], connect="finite")
            self.curves[name].setPen(colors.get(name, theme.MUTED), width=1.5)
            self.curves[name].setData(*with_gaps(times[first:n:step], values[first:n:step]))
        self.setLabel("left", QUANTITIES[quantity])
        self._draw_events(course)

    def _draw_events(self, course: TimeCourse) -> None:
        base = course.baseline
        self.baseline.setVisible(base is not None)
        if base is not None:
            self.baseline.setRegion((base.start_s, base.stop_s))
        if course.events == self._events:
            return
        for line in self._lines:
            self.removeItem(line)
        self._events = course.events
        pen = pyqtgraph.mkPen(theme.WARNING, width=1, style=Qt.PenStyle.DashLine)
        options = {"color": theme.WARNING, "position": 0.9, "anchors": [(0, 0.5), (0, 0.5)]}
        self._lines = [
            pyqtgraph.InfiniteLine(event.time_s, 90, pen, label=event.label, labelOpts=options)
            for event in self._events
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
    gaps = np.flatnonzero(steps > max(_MIN_GAP_S, _GAP_STEPS * float(np.median(steps)))) + 1
    if not len(gaps):
        return times, values
    return np.insert(times, gaps, times[gaps - 1]), np.insert(values, gaps, np.nan)


class CourseBox(QWidget):
    """Regions, their curves, events, the table.

    ``error_occurred`` carries a sentence, ``status_changed`` a short text.
    """

    draw_requested = Signal()
    error_occurred = Signal(str)
    status_changed = Signal(str)

    def __init__(self, viewer: Any, live: TimeCourse, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.courses = {LIVE: live, STACK: TimeCourse()}
        self.exposure_ms = 10.0
        self.colors: dict[str, str] = {}
        self.shapes_box = LayerBox(
            viewer, lambda layer: None if isinstance(layer, Shapes) else "", empty="no regions", parent=self
        )
        self.shapes_box.setMinimumContentsLength(6)
        self.attach, self.detach = self.shapes_box.attach, self.shapes_box.detach
        self.plot = CoursePlot(self)
        self.plot.setFixedHeight(_HEIGHT_PIXELS)
        self.empty, self.missing = muted_label(self, EMPTY), muted_label(self)
        self.quantity = ElidedComboBox(self, characters=5, entries=QUANTITIES)
        self.quantity.setCurrentIndex(1)
        self.which, self.span = (
            ElidedComboBox(self, characters=5, entries=[*names]) for names in (self.courses, _SPANS)
        )
        self.label = QLineEdit(self, placeholderText="event, e.g. stimulus on")
        self._fill()
        for box in (self.quantity, self.which, self.span):
            box.currentIndexChanged.connect(lambda *_: self.draw_curves())

    @property
    def course(self) -> TimeCourse:
        """The time course that is shown."""
        return self.courses[self.which.currentText()]

    def draw_curves(self, which: str | None = None) -> None:
        """Draw the curves again, of the chosen time course or of that of a name: `LIVE` or `STACK`."""
        if which is not None:
            self.which.setCurrentText(which)
        course = self.course
        has_curves = bool(course.regions or self.colors)
        self.empty.setVisible(not has_curves)
        self.plot.setVisible(has_curves)
        quantity = self.quantity.currentData()
        self.plot.draw(course, quantity, self.exposure_ms, self.colors, _SPANS[self.span.currentText()])
        missing = regions_without_baseline(course) if quantity == "relative" else []
        self.missing.setVisible(bool(missing))
        self.missing.setText(NOT_IN_BASELINE.format(" and ".join(missing)))

    def choose_quantity(self, quantity: str) -> None:
        """Choose what is drawn: a key of `QUANTITIES`."""
        self.quantity.setCurrentIndex(self.quantity.findData(quantity))

    def mark_event(self) -> None:
        """Mark an event at the newest sample."""
        times = self.course.times_s
        if not len(times):
            self.error_occurred.emit(NO_MOMENT)
            return
        label = self.label.text().strip() or f"event {len(self.course.events) + 1}"
        self.course.mark(float(times[-1]), label)
        self.status_changed.emit(f"{label!r} marked at {times[-1]:.2f} s")
        self.draw_curves()

    def write_csv(self, path: Path) -> None:
        """Write the time course that is shown, or raise InvalidInput if the file cannot be written."""
        self.course.write_csv(path)
        samples, regions = len(self.course), len(self.course.regions)
        self.status_changed.emit(f"{path.name} written: {samples:,} samples of {regions} regions")

    def clear_curves(self) -> None:
        """Delete the curves and events that are shown."""
        self.course.clear()
        self.draw_curves()

    def _fill(self) -> None:
        draw_tip = "Add a Shapes layer and draw polygons in it"
        button = text_button("Draw regions", draw_tip, self, self.draw_requested.emit)
        draw = row_of(button, self.shapes_box, stretch=(1, 1))
        choices = QGridLayout()
        choices.setHorizontalSpacing(draw.spacing())
        choices.setVerticalSpacing(1)
        titles = (("Curves show", self.quantity, 6), ("Measured in", self.which, 4), ("Time span", self.span, 5))
        for column, (title, box, stretch) in enumerate(titles):
            choices.addWidget(muted_label(self, title), 0, column)
            choices.addWidget(box, 1, column)
            choices.setColumnStretch(column, stretch)
        event = row_of(
            self.label,
            text_button("Mark", "Mark this moment in the time course and in the table", self, self.mark_event),
            text_button("CSV…", "Write K² and relative flow of all regions, and the events", self, self._on_csv),
            text_button("Clear", "Delete the curves and events that are shown", self, self.clear_curves),
        )
        fill_column(self, draw, self.empty, self.plot, self.missing, choices, event)
        self.missing.hide()
        self.plot.hide()

    def _on_csv(self) -> None:
        if not self.course.regions:
            self.error_occurred.emit(NO_COURSE)
            return
        write_table(self, "Write the time course", "time course.csv", self.write_csv, self.error_occurred.emit)


def regions_without_baseline(course: TimeCourse) -> list[str]:
    """Return the regions that have samples now, and none in the baseline."""
    base, times = course.baseline, course.times_s
    names = []
    for name in course.regions if len(times) else ():
        k2 = course.contrast_squared(name)[: len(times)]
        inside = np.zeros(len(k2), bool) if base is None else (times >= base.start_s) & (times <= base.stop_s)
        if np.isfinite(k2[-1:]).any() and not np.isfinite(k2[inside]).any():
            names.append(name)
    return names
