"""Plots of a result in voxels: fluence along a line beside diffusion theory, and the detected light over time."""

from collections.abc import Generator
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from qtpy.QtCore import QObject, Qt, Signal
from qtpy.QtGui import QKeySequence
from qtpy.QtWidgets import (
    QApplication,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)
from qtpy.QtWidgets import QWidget as Widget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.space import slice_steps_mm, viewer_to_world, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections
from napari_gpubio.gui.jobs import Job, LatestJob, Outcome
from napari_gpubio.gui.tables import color_chip
from napari_gpubio.light.gui.plots_axes import LogPlot
from napari_gpubio.light.gui.request import Displayed
from napari_gpubio.light.model import OUTSIDE, Domain
from napari_gpubio.light.profile import Profile, depth_profile, detector_profile, line_profile, theory_curve
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import (
    PER_PHOTON,
    DetectorNumbers,
    TimeSpread,
    detector_numbers,
    label_name,
    time_spread,
)
from napari_gpubio.light.summary import number_text

NAME = "profile line"
WIDTH = 0.008  # share of the longest side of the volume
Ends = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class ProfileLine(QObject):
    """Follows a shapes layer; the last line in it is the profile's."""

    changed = Signal()

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._followed: Any | None = None
        self._known: Any = None
        self._warming: Job | None = None
        layers = viewer.layers.events
        events = (layers.inserted, layers.removed)
        self._connections = Connections(lambda: [(event, self._on_layers) for event in events], self._on_layers)

    @property
    def layer(self) -> Any | None:
        """The layer of the line, or None."""
        return next((x for x in self._viewer.layers if carried(x, "profile_line")), None)

    def ends_mm(self, domain: Domain) -> Ends | None:
        """Both ends of the line, world mm, or None if there is no line."""
        ends = self._ends()
        if ends is None:
            return None
        start, end = viewer_to_world(ends, domain.affine, domain.shape)
        return start, end

    def draw(self, domain: Domain) -> None:
        """Let the user draw: make the layer if there is none, and choose its line tool."""
        layer = self.layer
        if layer is None:
            step = slice_steps_mm(domain.affine, domain.shape)
            # the first voxel's center, so that every slice of the volume is at an integer here too
            origin = world_to_viewer(domain.affine[:3, 3], domain.affine, domain.shape)
            layer = self._viewer.add_shapes(
                ndim=3,
                name=NAME,
                scale=step,
                translate=origin,
                edge_color=theme.ACCENT,
                edge_width=WIDTH * max(domain.shape),
                blending="translucent_no_depth",
                metadata={KEY: {"profile_line": True}},
            )
        self._viewer.layers.selection.active = layer
        layer.mode = "add_line"

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self._connections.attach()
        self._warming = Job(_warm_up, self)
        self._warming.start()

    def detach(self) -> None:
        """Stop following the viewer."""
        self._connections.detach()
        self._follow(None)
        if self._warming is not None:
            self._warming.abandon()
            self._warming = None

    def _on_layers(self, *_: Any) -> None:
        self._follow(self.layer)

    def _follow(self, layer: Any | None) -> None:
        if layer is self._followed:
            return
        if self._followed is not None:
            self._followed.events.set_data.disconnect(self._on_data)
        self._followed = layer
        if layer is not None:
            layer.events.set_data.connect(self._on_data)
        self._on_data()

    def _on_data(self, *_: Any) -> None:
        """Report that the line has changed; napari emits the same event for another slice."""
        ends = self._ends()
        now = None if ends is None else ends.tobytes()
        if now != self._known:
            self._known = now
            self.changed.emit()

    def _ends(self) -> npt.NDArray[np.float64] | None:
        """Both ends in the viewer's world (z, y, x), shape (2, 3)."""
        layer = self._followed
        if layer is None or not len(layer.data):
            return None
        line = np.asarray(layer.data[-1], np.float64)
        return np.array([layer.data_to_world(point) for point in (line[0], line[-1])])[:, -3:]


def _warm_up(_stop: Event) -> Generator[Step, None, None]:
    """Have napari load what shapes need, seconds on a new machine, before the user draws and would have to wait."""
    yield Step(0, 1, "loading shapes")
    Shapes(ndim=3)


Array = npt.NDArray[Any]
EMPTY = "No result yet: place a source and press Run."
DEPTH, DRAWN = "depth", "drawn"
DRAW = "Draw a line in a slice of the volume; drag its ends later with the layer's select tool."
X_TEXTS = {DEPTH: "Depth along the source's direction (mm)", DRAWN: "Distance along the line (mm)"}


class ProfilePlot(QWidget):
    """Fluence along a line that the user chooses, beside diffusion theory."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.profile: Profile | None = None
        self.line = ProfileLine(viewer, self)
        self._result: LightResult | None = None
        self._unit = PER_PHOTON
        self._choice = QComboBox(self)
        self._choice.setToolTip("Along which line fluence is shown")
        self._choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._hint = QLabel(self)
        self._hint.setWordWrap(True)
        self.plot = LogPlot(X_TEXTS[DEPTH], "Fluence", self)
        row = QHBoxLayout()
        row.addWidget(QLabel("Along", self))
        row.addWidget(self._choice)
        row.addWidget(self._hint, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 4, 4, 0)
        layout.addLayout(row)
        layout.addWidget(self.plot, 1)
        self._offer(())
        self._choice.activated.connect(self._on_chosen)
        self.line.changed.connect(self._on_line)

    def plot_result(self, displayed: Displayed[LightResult] | None) -> None:
        """Plot a result's fluence in the unit of its display."""
        result = self._result = None if displayed is None else displayed.result
        self._unit = PER_PHOTON if displayed is None else displayed.options.unit
        self._offer(() if result is None else tuple(detector.name for detector in result.detectors))
        self._draw()

    def choose(self, along: str | int) -> None:
        """Choose the line: `DEPTH`, `DRAWN`, or the index of a detector, to which it runs from the source."""
        index = self._choice.findData(along)
        if index >= 0:
            self._choice.setCurrentIndex(index)
            self._on_chosen()

    @property
    def hint(self) -> str:
        """The sentence beside the choice."""
        return self._hint.text()

    def _offer(self, detectors: tuple[str, ...]) -> None:
        entries: list[tuple[str, str | int]] = [
            ("the source's direction", DEPTH),
            ("a line drawn in the viewer", DRAWN),
        ]
        entries += [(f"source → {name or f'detector {i + 1}'}", i) for i, name in enumerate(detectors)]
        if entries == [(self._choice.itemText(i), self._choice.itemData(i)) for i in range(self._choice.count())]:
            return
        chosen = self._choice.currentData()
        self._choice.clear()
        for text, data in entries:
            self._choice.addItem(text, data)
        self._choice.setCurrentIndex(max(0, self._choice.findData(chosen)))

    def _on_chosen(self, *_: Any) -> None:
        domain = None if self._result is None else self._result.domain
        if self._choice.currentData() == DRAWN and domain is not None and self.line.ends_mm(domain) is None:
            self.line.draw(domain)
        self._draw()

    def _on_line(self) -> None:
        if self._choice.currentData() == DRAWN:
            self._draw()

    # -- the plot -------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        self.plot.empty()
        self.profile = None
        if self._result is None:
            self._hint.setText(EMPTY)
            return
        try:
            self.profile = self._read(self._result, self._choice.currentData())
        except InvalidInput as error:
            self._hint.setText(str(error))
            return
        if self.profile is None:
            self._hint.setText(DRAW)
            return
        self._hint.setText("")
        self._draw_profile(self._result, self.profile)

    def _read(self, result: LightResult, along: str | int) -> Profile | None:
        if along == DEPTH:
            return depth_profile(result)
        if along == DRAWN:
            ends = self.line.ends_mm(result.domain)
            return None if ends is None else line_profile(result, *ends)
        return detector_profile(result, int(along))

    def _draw_profile(self, result: LightResult, profile: Profile) -> None:
        names = {medium.label: label_name(result.domain, medium.label) for medium in result.domain.media}
        along, factor = self._choice.currentData(), self._unit.factor
        self.plot.name_axes(X_TEXTS.get(along, "Distance from the source (mm)"), f"Fluence ({self._unit.name})")
        self.plot.add_tissues(profile.distance_mm, profile.labels, names)
        values = factor * profile.fluence
        self.plot.add_curve(
            profile.distance_mm,
            values,
            error=factor * profile.error,
            color=theme.CURVES[0],
            name="simulation ± standard error",
        )
        theory = self._draw_theory(result, profile, factor)
        drawn = np.concatenate([values, theory])
        self.plot.frame(profile.distance_mm, float(np.min(drawn, where=drawn > 0, initial=np.inf)))

    def _draw_theory(self, result: LightResult, profile: Profile, factor: float) -> Array:
        """Draw diffusion theory where it holds, and return it; empty if there is none."""
        try:
            theory = theory_curve(result, profile.points_mm)
        except InvalidInput as error:
            self._hint.setText(str(error))
            return np.empty(0)
        shown = np.where(theory.valid & (profile.labels != OUTSIDE), factor * theory.fluence, np.nan)
        name = theory.text.replace("\n", "<br>")
        self.plot.add_curve(profile.distance_mm, shown, color=theme.CURVES[1], name=name, dashed=True)
        return shown


NONE = "There are no detectors: place some on the surface and press Run."
NOTHING = "The detectors detected no photon; run more photons, or make them larger."
FEW = 30  # photons, from which on the spread of the times means something
MOST_ROWS = 5  # at once; more scroll
Detected = tuple[tuple[DetectorNumbers, ...], tuple[TimeSpread, ...]]


class DetectorPlot(Widget):
    """Shows the temporal point spread function of every detector, and a table of their numbers."""

    def __init__(self, parent: Widget | None = None) -> None:
        super().__init__(parent)
        self._result: LightResult | None = None
        self._work = LatestJob(self)
        self._work.finished.connect(self._on_counted)
        self._hint = QLabel(EMPTY, self)
        self._hint.setWordWrap(True)
        self.plot = LogPlot("Time of flight (ns)", "Detected weight (1/ns)", self)
        self.table = DetectorTable(self)
        self._found = Widget(self)
        inside = QVBoxLayout(self._found)
        inside.setContentsMargins(0, 0, 0, 0)
        inside.addWidget(self.plot, 1)
        inside.addWidget(self.table)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 4, 4, 4)
        layout.addWidget(self._hint)
        layout.addWidget(self._found, 1)
        layout.addStretch()
        self.plot_result(None)

    @property
    def hint(self) -> str:
        """The sentence above the plot."""
        return "" if self._hint.isHidden() else self._hint.text()

    def plot_result(self, displayed: Displayed[LightResult] | None) -> None:
        """Plot the detected light of a result; the numbers follow from a worker."""
        result = self._result = None if displayed is None else displayed.result
        if result is not None and result.detectors:
            self._work.submit(lambda _stop: _counting(result))
            return
        self._work.cancel()
        self._show_hint(EMPTY if result is None else NONE)
        self._found.hide()

    def finish(self) -> None:
        """End what runs."""
        self._work.abandon()

    def _show_hint(self, sentence: str) -> None:
        self._hint.setText(sentence)
        self._hint.setVisible(bool(sentence))

    def _on_counted(self, outcome: Outcome) -> None:
        if outcome.error or self._result is None:
            self._show_hint(outcome.error)
            return
        numbers, spreads = outcome.result
        self._found.show()
        self._show_hint(few_text(numbers) if any(one.photons for one in numbers) else NOTHING)
        self.table.show_numbers(self._result, numbers)
        self._draw(numbers, spreads)

    def _draw(self, numbers: tuple[DetectorNumbers, ...], spreads: tuple[TimeSpread, ...]) -> None:
        self.plot.empty()
        for index, (one, spread) in enumerate(zip(numbers, spreads, strict=True)):
            if len(spread.time_ns):
                self.plot.add_curve(
                    spread.time_ns, spread.weight, error=spread.error, color=color_of(index), name=one.name, dots=True
                )
        weights = np.concatenate([spread.weight[spread.weight > 0] for spread in spreads])
        if len(weights):
            times = np.concatenate([spread.time_ns for spread in spreads])
            self.plot.frame(np.append(times, 0.0), float(weights.min()))


class DetectorTable(QTableWidget):
    """One row for each detector; Ctrl+C copies the selected rows, or all."""

    def __init__(self, parent: Widget | None = None) -> None:
        super().__init__(parent)
        self.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(22)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.setToolTip("Weighted means ± standard errors; Ctrl+C copies the selected rows, or all")

    def show_numbers(self, result: LightResult, numbers: tuple[DetectorNumbers, ...]) -> None:
        """Show the numbers of all detectors of a result."""
        labels = result.detected.labels
        titles = ["Detector", "Photons"]
        titles += [f"{name} ({unit})" if unit else name for name, _, unit in (numbers[0].parts() if numbers else ())]
        titles += [f"Path in {label_name(result.domain, label)} (mm)" for label in labels]
        self.setColumnCount(len(titles))
        self.setHorizontalHeaderLabels(titles)
        self.setRowCount(len(numbers))
        for row, one in enumerate(numbers):
            texts = [one.name, f"{one.photons:,}"]
            texts += [number_text(*part) for _, part, _ in one.parts()]
            texts += [number_text(*one.path_mm[label]) for label in labels]
            for column, text in enumerate(texts):
                item = QTableWidgetItem(text)
                item.setTextAlignment(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight)
                self.setItem(row, column, item)
            self.item(row, 0).setIcon(color_chip(color_of(row)))
            self.item(row, 0).setTextAlignment(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft)
        self._fit()

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size; with another width, the scroll bar comes or goes."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Be as high as a few rows."""
        row = self.verticalHeader().defaultSectionSize()
        bar = self.horizontalScrollBar()
        below = bar.sizeHint().height() if bar.maximum() > 0 else 0
        rows = min(max(1, self.rowCount()), MOST_ROWS)
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + rows * row + below + 4)

    def copied_text(self) -> str:
        """Return titles and the selected rows, or all, as lines with tabs."""
        columns = range(self.columnCount())
        rows = sorted({index.row() for index in self.selectedIndexes()}) or range(self.rowCount())
        lines = [[self.horizontalHeaderItem(column).text() for column in columns]]
        lines += [[self.item(row, column).text() for column in columns] for row in rows]
        return "\n".join("\t".join(line) for line in lines)

    def keyPressEvent(self, event: Any) -> None:
        """Qt: a key."""
        if event.matches(QKeySequence.StandardKey.Copy):
            QApplication.clipboard().setText(self.copied_text())
        else:
            super().keyPressEvent(event)


def color_of(detector: int) -> str:
    """Color of a detector's curve."""
    return theme.CURVES[detector % len(theme.CURVES)]


def few_text(numbers: tuple[DetectorNumbers, ...]) -> str:
    """What to do about detectors with few photons, or an empty text."""
    few = [one.name for one in numbers if one.photons < FEW]
    if not few:
        return ""
    return f"{', '.join(few)}: fewer than {FEW} photons, indicative only; run more photons, or make them larger."


def _counting(result: LightResult) -> Generator[Step, None, Detected]:
    yield Step(0, 1, "detectors")
    spreads = tuple(time_spread(result.detected.of(index)) for index in range(len(result.detectors)))
    return detector_numbers(result), spreads
