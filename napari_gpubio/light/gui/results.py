"""The part of the light panel that shows what came out: can it be trusted, the numbers, files, plots."""

from collections.abc import Callable, Generator, Mapping
from threading import Event
from typing import Any

from qtpy.QtCore import QLocale, Signal
from qtpy.QtGui import QDoubleValidator
from qtpy.QtWidgets import QComboBox, QGridLayout, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.light.gui.number_table import NumberTable, ResultHead
from napari_gpubio.light.gui.plots import PlotController
from napari_gpubio.light.gui.results_files import ResultFiles
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import FluenceUnit, findings, fluence_units
from napari_gpubio.light.summary import NumberRow, energy_rows, fluence_rows

EMPTY = "No result yet: place a source and press Run."
THRESHOLDS = {"1/mm²": 1e-3, "mW/mm²": 1.0, "J/cm²": 1.0}  # what is asked for first
UNIT_TEXTS = {"1/mm²": "1/mm² per photon", "mW/mm²": "mW/mm² at {:g} mW", "J/cm²": "J/cm² for {:g} J"}


class ResultBox(QWidget):
    """Numbers and files of one result.

    ``status_changed`` and ``error_occurred`` carry sentences for the status line and for the place of errors.

    Parameters
    ----------
    viewer
        The napari viewer, into which plots are docked.
    """

    status_changed = Signal(str)
    error_occurred = Signal(str)
    unit_changed = Signal(str)
    continue_wanted = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.result: LightResult | None = None
        self._colors: Mapping[int, Any] = {}
        self._units: dict[str, FluenceUnit] = {}
        self._thresholds = dict(THRESHOLDS)
        self._more_rows: tuple[NumberRow, ...] = ()
        self.plots = PlotController(viewer, self)
        self.files = ResultFiles(self)
        self._work = LatestJob(self)
        self._build()
        self._connect()
        self._show_units(fluence_units())
        self.show_result(None)

    def show_result(
        self,
        result: LightResult | None,
        *,
        power_mw: float | None = None,
        energy_j: float | None = None,
        colors: Mapping[int, Any] | None = None,
        running: bool = False,
    ) -> None:
        """Speak of another result from now on; the numbers follow from a worker.

        Parameters
        ----------
        result
            What a simulation gave, or has so far; None: nothing yet.
        power_mw, energy_j
            Of the source: fluence can then be told in mW/mm^2 and in J/cm^2 too.
        colors
            Color of each label.
        running
            Whether more photons of it are under way.
        """
        if result is not self.result:
            self._more_rows = ()
        self.result = result
        self._colors = colors or self._colors
        self.offer_units(power_mw=power_mw, energy_j=energy_j)
        self._numbers.setVisible(result is not None)
        self._empty.setVisible(result is None)
        for part in (self.head, self._choice, *self._buttons):
            part.setEnabled(result is not None)
        if result is None:
            self._work.cancel()
            self._table.show_rows(())
        else:
            self.head.show_result(result, findings(result, running=running), can_go_on=not running)
            self._count()
        self.plots.show_result(result, self.unit)

    def offer_units(self, *, power_mw: float | None = None, energy_j: float | None = None) -> None:
        """Let fluence be told in the units that the source's power and energy allow; also before there is a result."""
        self._show_units(fluence_units(power_mw=power_mw, energy_j=energy_j))

    def add_rows(self, rows: tuple[NumberRow, ...]) -> None:
        """Show further numbers of the result; of the same group, the new ones count."""
        groups = {row.group for row in rows}
        self._more_rows = (*(row for row in self._more_rows if row.group not in groups), *rows)
        self._count()

    @property
    def unit(self) -> FluenceUnit:
        """In which fluence is told."""
        return self._units[self._unit.currentData()]

    @property
    def threshold(self) -> float:
        """Above which volumes are told, in `unit`."""
        return self._thresholds[self.unit.name]

    def attach(self) -> None:
        """Do nothing yet: the plots follow the viewer from when they are opened."""

    def detach(self) -> None:
        """End what runs and let the viewer go."""
        self._work.abandon()
        self.files.finish()
        self.plots.detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._empty = QLabel(EMPTY, self)
        self._empty.setWordWrap(True)
        self.head = ResultHead(self)
        self._table = NumberTable(self)
        self._numbers = QWidget(self)
        inside = QVBoxLayout(self._numbers)
        inside.setContentsMargins(0, 0, 0, 0)
        for part in (self.head, self._build_choice(), self._table):
            inside.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._empty)
        layout.addWidget(self._numbers)
        layout.addLayout(self._build_buttons())

    def _build_choice(self) -> QWidget:
        self._unit = QComboBox(self)
        self._unit.setToolTip("In what unit fluence is told")
        self._unit.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._unit.setMinimumContentsLength(12)
        self._above = QLineEdit(self)
        self._above.setFixedWidth(64)
        self._above.setToolTip("The volume of each label in which fluence reaches this")
        positive = QDoubleValidator(0.0, 1e30, 12, self._above)
        positive.setLocale(QLocale.c())
        self._above.setValidator(positive)
        self._choice = QWidget(self)
        row = QHBoxLayout(self._choice)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._unit, 1)
        row.addWidget(QLabel("volume above", self))
        row.addWidget(self._above)
        return self._choice

    def _build_buttons(self) -> QGridLayout:
        grid = QGridLayout()
        self._buttons = []
        for index, (text, tip, what) in enumerate(
            (
                ("Plots…", "Profiles beside diffusion theory, and what the detectors caught", self._open_plots),
                ("Export CSV…", "Write every number, those of the detectors too, as a table", self._export_csv),
                ("Save result…", "Write the whole result, to be opened again or resumed", self._save_result),
                ("Save fluence…", "Write the fluence as NIfTI, in the chosen unit", self._save_fluence),
            )
        ):
            button = QPushButton(text, self)
            button.setToolTip(tip)
            button.clicked.connect(what)
            grid.addWidget(button, index // 2, index % 2)
            self._buttons.append(button)
        return grid

    def _connect(self) -> None:
        self._work.finished.connect(self._on_counted)
        self.head.continue_wanted.connect(self.continue_wanted)
        self._unit.currentIndexChanged.connect(self._on_unit)
        self._above.editingFinished.connect(self._on_threshold)
        self.files.error_occurred.connect(self.error_occurred)
        self.files.status_changed.connect(self.status_changed)

    # -- what is shown --------------------------------------------------------------------------------------------

    def _show_units(self, units: tuple[FluenceUnit, ...]) -> None:
        """Offer these units; the chosen one stays, and of new ones the user's own comes before that per photon."""
        chosen = self._unit.currentData()
        known, self._units = set(self._units), {unit.name: unit for unit in units}
        fresh = [name for name in self._units if name not in known and name != units[0].name]
        if chosen not in self._units or (chosen == units[0].name and fresh):
            chosen = fresh[0] if fresh else units[0].name
        was = self._unit.blockSignals(True)
        self._unit.clear()
        for name, unit in self._units.items():
            self._unit.addItem(_unit_text(unit), name)
        self._unit.setCurrentIndex(self._unit.findData(chosen))
        self._unit.blockSignals(was)
        if not self._above.hasFocus():
            self._above.setText(f"{self.threshold:g}")

    def _count(self) -> None:
        if self.result is not None:
            self._work.submit(_counting(self.result, self.unit, self.threshold))

    def _on_counted(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        elif self.result is not None:
            self._table.show_rows(outcome.result + self._more_rows, self._colors)

    def _on_unit(self, *_: Any) -> None:
        self._above.setText(f"{self.threshold:g}")
        self._count()
        self.plots.show_result(self.result, self.unit)
        self.unit_changed.emit(self.unit.name)

    def _on_threshold(self) -> None:
        was = self.threshold
        if self._above.hasAcceptableInput():
            self._thresholds[self.unit.name] = float(self._above.text())
        self._above.setText(f"{self.threshold:g}")
        if self.threshold != was:
            self._count()

    # -- the buttons ----------------------------------------------------------------------------------------------

    def _open_plots(self) -> None:
        self.plots.open()

    def _save_result(self) -> None:
        self.files.ask_for_result(self.result)

    def _save_fluence(self) -> None:
        self.files.ask_for_fluence(self.result, self.unit)

    def _export_csv(self) -> None:
        self.files.ask_for_csv(self.result, self.unit, self.threshold, self._more_rows)


def _unit_text(unit: FluenceUnit) -> str:
    amount = unit.factor / 100 if unit.name == "J/cm²" else unit.factor
    return UNIT_TEXTS[unit.name].format(amount)


def _counting(
    result: LightResult, unit: FluenceUnit, threshold: float
) -> Callable[[Event], Generator[Step, None, tuple[NumberRow, ...]]]:
    def steps(_stop: Event) -> Generator[Step, None, tuple[NumberRow, ...]]:
        yield Step(0, 1, "numbers")
        return energy_rows(result) + fluence_rows(result, unit=unit, threshold=threshold)

    return steps
