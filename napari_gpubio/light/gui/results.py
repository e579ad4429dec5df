"""Results in the panel: can they be trusted, their numbers, plots and files."""

import functools
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from threading import Event
from typing import Any, Generic, TypeVar

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.file_dialogs import open_path, save_path
from napari_gpubio.gui.jobs import Job, LatestJob, MakeSteps, Outcome
from napari_gpubio.light.gui.display import Strength
from napari_gpubio.light.gui.number_table import NumberTable, ResultHead
from napari_gpubio.light.gui.plots import PlotController
from napari_gpubio.light.gui.request import Displayed
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import Finding, FluenceUnit, fluence_units
from napari_gpubio.light.summary import NumberRow

RESULTS = "Light results (*.npz)"
UNIT_TEXTS = {"1/mm²": "1/mm² per photon", "mW/mm²": "mW/mm² at {:g} mW", "J/cm²": "J/cm² for {:g} J"}
Result = TypeVar("Result", bound=LightResult | LayeredResult)
Write = Callable[[Path, Any], Any]


class ResultFiles(QObject):
    """Writes files in workers."""

    status_changed = Signal(str)
    error_occurred = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: set[Job] = set()

    def write(self, path: Path, thing: Any, write: Write) -> None:
        """Call ``write(path, thing)`` in a worker."""
        job = Job(_writing(path, thing, write), self)
        self._jobs.add(job)
        job.finished.connect(functools.partial(self._on_written, job, path))
        self.status_changed.emit(f"saving {path.name} …")
        job.start()

    @property
    def busy(self) -> bool:
        """Whether something is being written."""
        return bool(self._jobs)

    def finish(self) -> None:
        """Let what is being written come to its end, without further signals."""
        for job in self._jobs:
            job.abandon()
        self._jobs.clear()

    def _on_written(self, job: Job, path: Path, outcome: Outcome) -> None:
        if job not in self._jobs:
            return  # the panel has gone since
        self._jobs.discard(job)
        job.deleteLater()
        if outcome.error:
            self.status_changed.emit("")
            self.error_occurred.emit(f"Not saved: {outcome.error}.")
        else:
            self.status_changed.emit(f"saved {path.name}")


class ResultBox(QWidget, Generic[Result]):
    """Findings, numbers, plots and files of the displayed result; a subclass for each mode.

    ``unit_changed`` carries the unit of fluence, ``result_read`` a path and what was read from it.
    """

    empty_text = "No result yet: press Run."
    plot_tip = ""
    save_name = "light_result.npz"
    status_changed = Signal(str)
    error_occurred = Signal(str)
    unit_changed = Signal(str)
    continue_requested = Signal()
    result_read = Signal(object, object)

    def __init__(self, plots: PlotController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.displayed: Displayed[Result] | None = None
        self.plots = plots
        self.files = ResultFiles(self)
        self._colors: Mapping[int, Any] = {}
        self._units: dict[str, FluenceUnit] = {}
        self._added_rows: tuple[NumberRow, ...] = ()
        self._counting, self._reading = LatestJob(self), LatestJob(self)
        self._build()
        self._connect()
        self._show_units(fluence_units())
        self.display(None)

    # -- what a mode gives ----------------------------------------------------------------------------------------

    def find(self, result: Result, *, running: bool) -> tuple[Finding, ...]:
        """Return what to think of a result."""
        raise NotImplementedError

    def can_continue(self, result: Result) -> bool:
        """Whether more photons of a result can be traced."""
        raise NotImplementedError

    def make_rows(self, result: Result) -> Callable[[], tuple[NumberRow, ...]]:
        """Return what a worker calls for the numbers of a result."""
        raise NotImplementedError

    def plot(self, displayed: Displayed[Result] | None) -> None:
        """Plot a result."""
        raise NotImplementedError

    def add_choices(self, row: QHBoxLayout) -> None:
        """Add inputs beside the unit."""

    def exports(self) -> tuple[tuple[str, str, str, Callable[[], Write]], ...]:
        """Return text, suggested file name, file filter, and what makes the writer of each file of the menu."""
        raise NotImplementedError

    def save(self, path: Path, displayed: Displayed[Result]) -> None:
        """Save a result with all that continuing it needs."""
        raise NotImplementedError

    def load(self, path: Path) -> Any:
        """Load what `save` has saved."""
        raise NotImplementedError

    # -- what the panel needs -------------------------------------------------------------------------------------

    @property
    def result(self) -> Result | None:
        """The displayed result."""
        return None if self.displayed is None else self.displayed.result

    @property
    def unit(self) -> FluenceUnit:
        """The unit of fluence."""
        return self._units[self._unit.currentData()]

    @property
    def busy(self) -> bool:
        """Whether numbers are being found or a file is being read."""
        return any(job._running is not None for job in (self._counting, self._reading))

    def display(
        self,
        displayed: Displayed[Result] | None,
        *,
        strength: Strength | None = None,
        colors: Mapping[int, Any] | None = None,
        running: bool = False,
    ) -> None:
        """Show another result, or None; its numbers follow from a worker.

        The source's strength gives further units. ``running``: more photons are being traced.
        """
        if displayed is None or displayed.result is not self.result:
            self._added_rows = ()
        self.displayed = displayed
        self._colors = colors or self._colors
        self.offer_units(strength or Strength())
        self._numbers.setVisible(displayed is not None)
        self._empty.setVisible(displayed is None)
        for part in (self.head, self._choice, *self._buttons):
            part.setEnabled(displayed is not None)
        if displayed is None:
            self._counting.cancel()
            self.table.show_rows(())
        else:
            found = self.find(displayed.traced, running=running)
            self.head.show_result(
                displayed.result, found, can_continue=not running and self.can_continue(displayed.traced)
            )
            self._count()
        self.plot(displayed)

    def offer_units(self, strength: Strength) -> None:
        """Offer the units that the source's power and energy allow; also before there is a result."""
        self._show_units(fluence_units(power_mw=strength.power_mw, energy_j=strength.energy_j))

    def add_rows(self, rows: tuple[NumberRow, ...]) -> None:
        """Show further numbers of the result; they replace those of the same group."""
        replaced = {row.group for row in rows}
        self._added_rows = (*(row for row in self._added_rows if row.group not in replaced), *rows)
        self._count()

    def open_result(self, path: Path) -> None:
        """Read a saved result in a worker; ``result_read`` follows."""
        self.status_changed.emit(f"opening {path.name} …")
        self._reading.submit(lambda _stop: _reading(path, self.load))

    def attach(self) -> None:
        """Do nothing yet: the plots follow the viewer from when they are opened."""

    def detach(self) -> None:
        """End what runs."""
        self._counting.abandon()
        self._reading.abandon()
        self.files.finish()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._empty = QLabel(self.empty_text, self)
        self._empty.setWordWrap(True)
        self.head, self.table = ResultHead(self), NumberTable(self)
        self._numbers = QWidget(self)
        inside = QVBoxLayout(self._numbers)
        inside.setContentsMargins(0, 0, 0, 0)
        for part in (self.head, self._build_choice(), self.table):
            inside.addWidget(part)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._empty)
        layout.addWidget(self._numbers)
        layout.addLayout(self._build_buttons())

    def _build_choice(self) -> QWidget:
        self._unit = QComboBox(self)
        self._unit.setToolTip("The unit of fluence; power and energy of the source, under Display, give further ones")
        self._unit.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._unit.setMinimumContentsLength(12)
        self._choice = QWidget(self)
        row = QHBoxLayout(self._choice)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._unit, 1)
        self.add_choices(row)
        return self._choice

    def _build_buttons(self) -> QGridLayout:
        self._menu = QMenu(self)
        for text, name, kinds, make in self.exports():
            self._menu.addAction(text, functools.partial(self._export, text, name, kinds, make))
        grid = QGridLayout()
        self._buttons: list[QPushButton] = []
        rows: tuple[tuple[str, str, Callable[[], object] | None], ...] = (
            ("Plots…", self.plot_tip, self.plots.open),
            ("Export", "Write numbers and maps for other programs", None),
            ("Save result…", "Write the whole result, to be opened again or continued", self._ask_to_save),
            ("Open result…", "Show a saved result with its inputs; Continue adds photons", self._ask_to_open),
        )
        for index, (text, tip, act) in enumerate(rows):
            button = QPushButton(text, self)
            button.setToolTip(tip)
            if act is None:
                button.setMenu(self._menu)
            else:
                button.clicked.connect(lambda _=False, act=act: act())
            grid.addWidget(button, index // 2, index % 2)
            self._buttons.append(button)
        self._buttons.pop()  # results can always be opened
        return grid

    def _connect(self) -> None:
        connect_all(
            (
                (self._counting.finished, self._on_counted),
                (self._reading.finished, self._on_read),
                (self.head.continue_requested, self.continue_requested),
                (self._unit.currentIndexChanged, self._on_unit),
                (self.files.error_occurred, self.error_occurred),
                (self.files.status_changed, self.status_changed),
            )
        )

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

    def _count(self) -> None:
        if self.result is not None:
            self._counting.submit(_counting(self.make_rows(self.result)))

    def _on_counted(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        elif self.result is not None:
            self.table.show_rows(outcome.result + self._added_rows, self._colors)

    def _on_unit(self, *_: Any) -> None:
        self._count()
        self.unit_changed.emit(self.unit.name)

    # -- files ----------------------------------------------------------------------------------------------------

    def _ask_to_save(self) -> None:
        if self.displayed is not None and (path := save_path(self, "Save the result", RESULTS, name=self.save_name)):
            self.files.write(path, self.displayed, self.save)

    def _ask_to_open(self) -> None:
        if path := open_path(self, "Open a result", RESULTS):
            self.open_result(path)

    def _export(self, text: str, name: str, kinds: str, make: Callable[[], Write]) -> None:
        if self.displayed is not None and (path := save_path(self, text.removesuffix("…"), kinds, name=name)):
            self.files.write(path, self.displayed, make())

    def _on_read(self, outcome: Outcome) -> None:
        self.status_changed.emit("")
        if outcome.error:
            self.error_occurred.emit(f"Not opened: {outcome.error}.")
        else:
            self.result_read.emit(*outcome.result)


def _unit_text(unit: FluenceUnit) -> str:
    amount = unit.factor / 100 if unit.name == "J/cm²" else unit.factor
    return UNIT_TEXTS[unit.name].format(amount)


def _counting(make: Callable[[], tuple[NumberRow, ...]]) -> MakeSteps:
    def steps(_stop: Event) -> Generator[Step, None, tuple[NumberRow, ...]]:
        yield Step(0, 1, "numbers")
        return make()

    return steps


def _reading(path: Path, load: Callable[[Path], Any]) -> Generator[Step, None, tuple[Path, Any]]:
    yield Step(0, 1, "opening")
    return path, load(path)


def _writing(path: Path, thing: Any, write: Write) -> MakeSteps:
    def steps(_stop: Event) -> Generator[Step, None, None]:
        yield Step(0, 1, "saving")
        write(path, thing)

    return steps
