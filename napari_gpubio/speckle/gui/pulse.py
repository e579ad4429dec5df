"""The beat of flow in regions: rate, pulsatility, and a plot of the averaged beat."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import record_fields
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.file_dialogs import write_table
from napari_gpubio.gui.forms import ParamForm, fill_column, muted_label, row_of, text_button
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.plots import Axis, ThemedPlot
from napari_gpubio.gui.row_table import Cell, RowTable
from napari_gpubio.gui.typed_rows import Column
from napari_gpubio.speckle.io import write_beats_csv, write_pulsatility_csv
from napari_gpubio.speckle.pulsatility import FLOWS, PulsatilitySettings, RegionPulsatility, with_error


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeatRows(PulsatilitySettings):
    """Rows of the form: also what flow is computed by, with the exposure of the maps."""

    flow: str = param(
        "sfi", "Flow", "Index of flow that pulsates: SFI of the mean of K², or 1/τ by the full model.",
        choices=tuple(FLOWS),
    )  # fmt: skip

    @property
    def band(self) -> PulsatilitySettings:
        """The settings alone."""
        return PulsatilitySettings(**{f.name: getattr(self, f.name) for f in record_fields(PulsatilitySettings)})


Measure = Callable[[BeatRows], list[RegionPulsatility]]
EMPTY = "No beat measured yet: draw regions, run the stack or start live imaging, then press Measure."
NO_COURSE = "there is no time course to measure a beat in; draw a region, and run the whole stack or start live imaging"
NO_TABLE = "there is no beat to write; press Measure first"
MEASURING = "measuring the beat…"
_NONE = "no beat"
_HEIGHT_PIXELS = 150
_POINT_PIXELS = 4


class BeatPlot(ThemedPlot):
    """Draws the averaged beat of regions, relative to its mean: course, standard error, and means by phase."""

    bottom, left = Axis(title="phase of the beat"), Axis(title="flow / mean", pixels=52)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setXRange(0.0, 1.0, padding=0.02)
        self.setFixedHeight(_HEIGHT_PIXELS)

    def draw(self, pulses: Sequence[RegionPulsatility], colors: Mapping[str, str]) -> None:
        """Draw the regions that have a beat."""
        self.clear()
        for pulse in (one for one in pulses if one.has_beat):
            color = colors.get(pulse.name, theme.MUTED)
            course, error = pulse.course / pulse.mean, pulse.course_error / pulse.mean
            self.add_band(pulse.phase, course - error, course + error, color)
            self.plot(
                pulse.folded_phase, pulse.folded / pulse.mean, pen=None, symbol="o", symbolSize=_POINT_PIXELS,
                symbolPen=None, symbolBrush=color,
            )  # fmt: skip
            self.add_curve(pulse.phase, course, color=color)


class BeatTable(RowTable):
    """Lists regions, each with its beat."""

    columns = (
        Column("region", "Region", "Name of the region"),
        Column("rate_bpm", "Beat (1/min)", "Rate of the beat and its standard error"),
        Column("index", "PI", "Pulsatility index (max - min) / mean of the beat-averaged flow, and its standard error"),
        Column("beats", "Beats", "Number of beats that were averaged"),
    )
    selects_many = True


def _row(pulse: RegionPulsatility, color: str) -> list[Cell]:
    tip = "\n".join((pulse.summary, *pulse.notes))
    none = theme.WARNING if not pulse.has_beat else ""
    rate, *others = _numbers(pulse)
    return [Cell(pulse.name, tip, chip=color), Cell(rate, tip, none), *(Cell(text, tip) for text in others)]


def _numbers(pulse: RegionPulsatility) -> tuple[str, ...]:
    if not pulse.has_beat:
        return (_NONE, "", "")
    rate, index = with_error(pulse.rate_bpm, pulse.rate_error_bpm), with_error(pulse.index, pulse.index_error)
    return (rate, index, f"{pulse.beats}")


class PulseBox(QWidget, Follower):
    """Band and index of the beat, a button, and what was measured.

    ``measure_requested`` asks for `measure` to be called; ``error_occurred`` and ``status_changed`` carry sentences.
    """

    measure_requested = Signal()
    error_occurred = Signal(str)
    status_changed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pulses: list[RegionPulsatility] = []
        self.form = ParamForm(BeatRows(), parent=self)
        self.text, self.notes = muted_label(self, EMPTY), muted_label(self)
        self.table, self.plot = BeatTable(self), BeatPlot(self)
        self._source, self._colors = "", dict[str, str]()
        self._measure: Measure | None = None
        self._job = LatestJob(self, self._on_measured)
        tip = "Find the beat of flow in each region of the curves that are shown, and average it"
        self.measure_button = text_button("Measure", tip, self, self.measure_requested.emit)
        csv_tip = "Write rates and indices of all regions, and beside it their averaged beats"
        self.csv_button = text_button("CSV…", csv_tip, self, self._on_csv)
        buttons = row_of(self.measure_button, self.csv_button)
        fill_column(self, self.form, buttons, self.text, self.table, self.plot, self.notes)
        self.form.changed.connect(self._measure_again)
        self._show()

    def detach(self) -> None:
        """End what is being measured."""
        self._job.abandon()

    def measure(self, measure: Measure, source: str, colors: Mapping[str, str]) -> None:
        """Measure in a worker; ``source`` says what of, and at which frame rate."""
        try:
            settings = self.form.value()
        except InvalidInput as error:
            self.error_occurred.emit(str(error))
            return
        self._measure, self._source, self._colors = measure, source, dict(colors)
        self.text.setText(MEASURING)
        self._job.submit(one_step(MEASURING, partial(measure, settings)))

    def clear(self) -> None:
        """Forget what was measured: its regions or curves are gone."""
        self._job.cancel()
        self._measure, self.pulses = None, []
        self.text.setText(EMPTY)
        self._show()

    def write_csv(self, path: Path) -> None:
        """Write the table, and beside it the averaged beats; raises InvalidInput if that cannot be done."""
        write_pulsatility_csv(path, self.pulses)
        names = path.name
        if any(pulse.has_beat for pulse in self.pulses):
            beats = path.with_name(f"{path.stem} beats.csv")
            write_beats_csv(beats, self.pulses)
            names += f" and {beats.name}"
        self.status_changed.emit(f"{names} written")

    def _measure_again(self) -> None:
        if self._measure is not None:
            self.measure(self._measure, self._source, self._colors)

    def _on_measured(self, outcome: Outcome) -> None:
        if outcome.error:
            self.pulses = []
            self.text.setText(f"{outcome.error[:1].upper()}{outcome.error[1:]}.")
        elif outcome.result is not None:
            self.pulses = outcome.result
            self.text.setText(self._source)
        self._show()

    def _show(self) -> None:
        self.table.set_rows([_row(pulse, self._colors.get(pulse.name, "")) for pulse in self.pulses])
        self.plot.draw(self.pulses, self._colors)
        notes = "\n".join(f"{pulse.name}: {note}." for pulse in self.pulses for note in pulse.notes)
        self.notes.setText(notes)
        self.table.setVisible(bool(self.pulses))
        self.notes.setVisible(bool(notes))
        self.plot.setVisible(any(pulse.has_beat for pulse in self.pulses))
        self.csv_button.setEnabled(bool(self.pulses))
        self._fit_texts()

    def _fit_texts(self) -> None:
        """Give wrapped texts the height that they need, which a folded part does not ask for."""
        for label in (self.text, self.notes):
            label.setMinimumHeight(max(0, label.heightForWidth(self.width())))

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        self._fit_texts()

    def _on_csv(self) -> None:
        if not self.pulses:
            self.error_occurred.emit(NO_TABLE)
            return
        write_table(self, "Write the pulsatility", "pulsatility.csv", self.write_csv, self.error_occurred.emit)
