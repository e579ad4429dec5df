"""Plot of the detected light over time, and a table of the numbers of each detector."""

from functools import partial

import numpy as np
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_gpubio.core.numbers import number_text
from napari_gpubio.gui import theme
from napari_gpubio.gui.forms import Label, fill_column
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.plots import Axis
from napari_gpubio.gui.row_table import Cell, RowTable
from napari_gpubio.light.gui.displayed import Displayed
from napari_gpubio.light.gui.plots_axes import LogPlot
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import DetectorNumbers, TimeSpread, detector_numbers, label_name, time_spread

EMPTY = "No result yet: place a source and press Run."
NONE = "There are no detectors: place some on the surface and press Run."
NOTHING = "No photon was detected; run more photons, or make the detectors larger."
FEW = 30  # photons, from which on the spread of the times means something
TIP = "Weighted means ± standard errors; Ctrl+C copies the selected rows, or all rows if none is selected"
Detected = tuple[tuple[DetectorNumbers, ...], tuple[TimeSpread, ...]]


class TimePlot(LogPlot):
    """Draws temporal point spread functions."""

    bottom = Axis(title="Time of flight (ns)", pixels=40)
    left = Axis(title="Detected weight (1/ns)", pixels=64, decades=True)


class NumbersTable(RowTable):
    """Lists detectors with their numbers; the labels that light has passed have columns of their own."""

    most_rows, selects_many = 5, True


class DetectorPlot(QWidget):
    """Shows the temporal point spread function of every detector, and a table of their numbers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._result: LightResult | None = None
        self._work = LatestJob(self, self._on_counted)
        self._hint = Label(EMPTY, self, wordWrap=True)
        self.plot = TimePlot(self)
        self.table = NumbersTable(self)
        self.table.setToolTip(TIP)
        self._found = QWidget(self)
        fill_column(self._found, self.plot, self.table)  # the table is as high as its rows
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
            self._work.submit(one_step("detectors", partial(_counted, result)))
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
        self.table.set_rows(*table_of(self._result, numbers))
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


def table_of(result: LightResult, numbers: tuple[DetectorNumbers, ...]) -> tuple[list[list[Cell]], list[str]]:
    """Return the rows and the titles of a table of all detectors of a result."""
    labels = result.detected.labels
    titles = ["Detector", "Photons"]
    titles += [f"{name} ({unit})" if unit else name for name, _, unit in (numbers[0].parts() if numbers else ())]
    titles += [f"Path in {label_name(result.domain, label)} (mm)" for label in labels]
    rows = []
    for row, one in enumerate(numbers):
        texts = [f"{one.photons:,}", *(number_text(*part) for _, part, _ in one.parts())]
        texts += [number_text(*one.path_mm[label]) for label in labels]
        rows.append([Cell(one.name, chip=color_of(row)), *map(Cell, texts)])
    return rows, titles


def color_of(detector: int) -> str:
    """Color of a detector's curve."""
    return theme.CURVES[detector % len(theme.CURVES)]


def few_text(numbers: tuple[DetectorNumbers, ...]) -> str:
    """What to do about detectors with few photons, or an empty text."""
    few = [one.name for one in numbers if one.photons < FEW]
    if not few:
        return ""
    return f"{', '.join(few)}: fewer than {FEW} photons, indicative only; run more photons, or make them larger."


def _counted(result: LightResult) -> Detected:
    spreads = tuple(time_spread(result.detected.of(index)) for index in range(len(result.detectors)))
    return detector_numbers(result), spreads
