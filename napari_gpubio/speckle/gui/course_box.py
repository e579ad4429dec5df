"""The part of the panel with regions and their time courses."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Shapes
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QFileDialog, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.speckle.gui.course_plot import QUANTITIES, CoursePlot
from napari_gpubio.speckle.live import TimeCourse

LIVE, STACK = "live", "whole stack"
EMPTY = "No regions: press Draw regions and draw over the picture; K² is averaged in each of them."
NOTHING = "there is no time course to write; draw a region, and start live imaging or run the whole stack"
NO_MOMENT = "there is no moment to mark yet; start live imaging with a region drawn"
NOT_IN_BASELINE = "No relative flow of {}: press Take for a baseline in which it is measured too."
_SPANS = {"all": math.inf, "last 10 s": 10.0, "last 60 s": 60.0, "last 10 min": 600.0}
_HEIGHT = 190  # pixels


class CourseBox(QWidget):
    """Regions, their curves, events, the table.

    ``draw_wanted`` says that a layer for regions is wanted, ``failed`` carries a sentence, ``status_changed`` a short
    text.
    """

    draw_wanted = Signal()
    failed = Signal(str)
    status_changed = Signal(str)

    def __init__(self, viewer: Any, live: TimeCourse, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.courses = {LIVE: live, STACK: TimeCourse()}
        self.exposure_ms = 10.0
        self.colors: dict[str, str] = {}
        self.shapes_box = LayerBox(viewer, lambda layer: isinstance(layer, Shapes), empty="no regions", parent=self)
        self.shapes_box.setMinimumContentsLength(6)
        self.plot = CoursePlot(self)
        self.plot.setFixedHeight(_HEIGHT)
        self.empty, self.missing = QLabel(EMPTY, self), QLabel(self)
        self.which, self.quantity, self.span = _combo(self.courses), QComboBox(self), _combo(_SPANS)
        for key, text in QUANTITIES.items():
            self.quantity.addItem(text, key)
        self.quantity.setCurrentIndex(1)
        self.label = QLineEdit(self)
        self.label.setPlaceholderText("event, e.g. stimulus on")
        self._fill()

    @property
    def course(self) -> TimeCourse:
        """The time course that is shown."""
        return self.courses[self.which.currentText()]

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.shapes_box.attach()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self.shapes_box.detach()

    def show_course(self, which: str | None = None) -> None:
        """Draw the curves anew; of the live ones or of those of the whole stack, if it is said which."""
        if which is not None:
            self.which.setCurrentText(which)
        course = self.course
        has_curves = bool(course.regions)
        self.empty.setVisible(not has_curves and not self.colors)
        self.plot.setVisible(has_curves or bool(self.colors))
        span = _SPANS[self.span.currentText()]
        quantity = self.quantity.currentData()
        self.plot.show_course(course, quantity, self.exposure_ms, self.colors, span)
        missing = without_baseline(course) if quantity == "relative" else []
        self.missing.setVisible(bool(missing))
        self.missing.setText(NOT_IN_BASELINE.format(" and ".join(missing)))

    def show_relative(self) -> None:
        """Show flow relative to the baseline."""
        self.quantity.setCurrentIndex(self.quantity.findData("relative"))

    def mark(self) -> None:
        """Mark an event at the newest sample."""
        times = self.course.times_s
        if not len(times):
            self.failed.emit(NO_MOMENT)
            return
        label = self.label.text().strip() or f"event {len(self.course.events) + 1}"
        self.course.mark(float(times[-1]), label)
        self.status_changed.emit(f"{label!r} marked at {times[-1]:.2f} s")
        self.show_course()

    def write_csv(self, path: Path) -> None:
        """Write the time course that is shown."""
        if not self.course.regions:
            raise InvalidInput(NOTHING)
        self.course.write_csv(path)
        self.status_changed.emit(
            f"{path.name} written: {len(self.course):,} samples of {len(self.course.regions)} regions"
        )

    def _fill(self) -> None:
        first, second, third = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        draw = _button("Draw regions", "Add a layer of shapes, and draw polygons in it", self.draw_wanted.emit)
        first.addWidget(draw, 1)
        first.addWidget(self.shapes_box, 1)
        for widget, stretch in ((self.quantity, 4), (self.which, 4), (self.span, 3)):
            widget.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            widget.setMinimumContentsLength(5)
            widget.currentIndexChanged.connect(lambda *_: self.show_course())
            second.addWidget(widget, stretch)
        third.addWidget(self.label, 1)
        third.addWidget(_button("Mark", "Mark this moment in the time course; also in the table", self.mark))
        third.addWidget(_button("CSV …", "Write K² and relative flow of all regions, and the events", self._on_csv))
        third.addWidget(_button("Clear", "Forget the curves and events that are shown", self._on_clear))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(first)
        for label in (self.empty, self.missing):
            label.setWordWrap(True)
            label.setStyleSheet("color: #9a9a9a;")
        layout.addWidget(self.empty)
        layout.addWidget(self.plot)
        layout.addWidget(self.missing)
        self.missing.hide()
        layout.addLayout(second)
        layout.addLayout(third)
        self.plot.hide()

    def _on_csv(self) -> None:
        if not self.course.regions:
            self.failed.emit(NOTHING)
            return
        chosen, _ = QFileDialog.getSaveFileName(self, "Write the time course", "time course.csv", "Table (*.csv)")
        if chosen:
            try:
                self.write_csv(Path(chosen).with_suffix(".csv"))
            except GpuBioError as error:
                self.failed.emit(str(error))

    def _on_clear(self) -> None:
        self.course.clear()
        self.show_course()


def without_baseline(course: TimeCourse) -> list[str]:
    """Return the regions that have samples now, and none in the baseline."""
    base, times = course.baseline, course.times_s
    names = []
    for name in course.regions if len(times) else ():
        k2 = course.contrast_squared(name)[: len(times)]
        inside = np.zeros(len(k2), bool) if base is None else (times >= base.start_s) & (times <= base.stop_s)
        if np.isfinite(k2[-1:]).any() and not np.isfinite(k2[inside]).any():
            names.append(name)
    return names


def _combo(texts: Any) -> QComboBox:
    box = QComboBox()
    box.addItems(list(texts))
    return box


def _button(text: str, tip: str, act: Any) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    button.clicked.connect(lambda *_: act())
    return button
