"""Results in the panel: can they be trusted, their numbers, plots and files."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from qtpy.QtCore import QLocale, QSignalBlocker, Signal
from qtpy.QtGui import QDoubleValidator
from qtpy.QtWidgets import QLineEdit, QWidget

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.core.numbers import seconds_text
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.file_dialogs import opens_with
from napari_gpubio.gui.forms import Label, row_of, text_button
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.number_table import Number
from napari_gpubio.gui.results import ResultBox
from napari_gpubio.layered.io.mco import write_mco
from napari_gpubio.layered.io.results import load_result, save_result
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.summary import every_curve, fraction_rows, layered_findings, layered_rows, write_curves
from napari_gpubio.light.gui.display import Strength
from napari_gpubio.light.gui.displayed import Displayed
from napari_gpubio.light.gui.plots import LAYERS, VOXELS, PlotController
from napari_gpubio.light.io import save_result_steps, write_fluence_steps
from napari_gpubio.light.readers import read_layers
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.summary import energy_rows, fluence_rows, number_rows
from napari_gpubio.light.trust import findings
from napari_gpubio.optics.estimates import FluenceUnit, fluence_units
from napari_gpubio.optics.numbers import Finding, NumberRow, write_csv

RESULTS, TABLES = "Light results (*.npz)", "Tables (*.csv)"
UNIT_TEXTS = {"1/mm²": "1/mm² per photon", "mW/mm²": "mW/mm² at {:g} mW", "J/cm²": "J/cm² for {:g} J"}
THRESHOLDS = {"1/mm²": 1e-3, "mW/mm²": 1.0, "J/cm²": 1.0}  # to begin with
CONTINUE_TIP = (
    "Continue this result with its own inputs: to the end if it was stopped, else with as many photons again as "
    "set above"
)
Result = TypeVar("Result", bound=LightResult | LayeredResult)
Write = Callable[[Path, Any], Any]  # of a displayed result
Export = tuple[str, str, str, Callable[[], Write]]  # text, file name, file filter, and what returns the writer


class LightResultBox(ResultBox, Generic[Result]):
    """Findings, numbers, plots and files of the displayed result; a subclass for each mode.

    ``unit_changed`` carries the unit of fluence, ``result_read`` a path and what was read from it.
    """

    mode: str
    empty_text = "No result yet: press Run."
    plot_tip = ""
    save_name = "light_result.npz"
    error_occurred = Signal(str)
    unit_changed = Signal(str)
    continue_requested = Signal()
    result_read = Signal(object, object)

    def __init__(self, plots: PlotController, parent: QWidget | None = None) -> None:
        super().__init__(self.empty_text, parent)
        self.displayed: Displayed[Result] | None = None
        self.rows: tuple[NumberRow, ...] = ()  # on show
        self.plots = plots
        self._colors: Mapping[int, Any] = {}
        self._units: dict[str, FluenceUnit] = {}
        self.added_rows: tuple[NumberRow, ...] = ()
        self._counting = LatestJob(self)
        self._build()
        connect_all(
            (
                (self._counting.finished, self._on_counted),
                (self.unit_box.currentIndexChanged, lambda *_: self._on_unit()),
            )
        )
        self._show_units(fluence_units())
        self.display(None)

    # -- what a mode gives ----------------------------------------------------------------------------------------

    def find(self, result: Result, *, running: bool) -> Sequence[Finding]:
        """Return what to think of a result."""
        raise NotImplementedError

    def can_continue(self, _result: Result) -> bool:
        """Whether more photons of a result can be traced."""
        return True

    def make_rows(self, result: Result) -> Callable[[], Iterable[NumberRow]]:
        """Return what a worker calls for the numbers of a result."""
        raise NotImplementedError

    def choices(self) -> tuple[QWidget, ...]:
        """Make inputs beside the unit."""
        return ()

    def exports(self) -> tuple[Export, ...]:
        """Return the files of the Export menu."""
        raise NotImplementedError

    def save(self, path: Path, displayed: Displayed[Result]) -> Generator[Step, None, None] | None:
        """Save a result with all that continuing it needs, or return the steps in which it is saved."""
        raise NotImplementedError

    def load(self, path: Path) -> Any:
        """Load a saved result."""
        raise NotImplementedError

    # -- what the panel needs -------------------------------------------------------------------------------------

    @property
    def result(self) -> Result | None:
        """The displayed result."""
        return None if self.displayed is None else self.displayed.result

    @property
    def unit(self) -> FluenceUnit:
        """The unit of fluence."""
        return self._units[self.unit_box.currentData()]

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
            self.added_rows = ()
        self.displayed = displayed
        self._colors = colors or self._colors
        self.offer_units(strength or Strength())
        if displayed is None:
            self._counting.cancel()
            self.rows = ()
            self._continue.setEnabled(False)
            self.clear()
        else:
            self.show_numbers(self.table.rows, self.find(displayed.traced, running=running))
            self._made.setText(made_text(displayed.result))
            self._continue.setEnabled(not running and self.can_continue(displayed.traced))
            self._count()
        self.plots.display(self.mode, displayed)

    def offer_units(self, strength: Strength) -> None:
        """Offer the units that the source's power and energy allow; also before there is a result."""
        self._show_units(fluence_units(power_mw=strength.power_mw, energy_j=strength.energy_j))

    def add_rows(self, rows: tuple[NumberRow, ...]) -> None:
        """Show further numbers of the result; they replace those of the same group."""
        replaced = {row.group for row in rows}
        self.added_rows = (*(row for row in self.added_rows if row.group not in replaced), *rows)
        self._count()

    def open_result(self, path: Path) -> None:
        """Read a saved result in a worker; ``result_read`` follows."""
        self.files.read(path, self.load, lambda result: self.result_read.emit(path, result))

    def detach(self) -> None:
        """End what runs; what is being written comes to its end."""
        self._counting.abandon()
        super().detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._made = Label(self, wordWrap=True)
        self._continue = text_button("Continue", CONTINUE_TIP, self, self.continue_requested.emit)
        tip = "Unit of fluence; set the power or energy of the source under Display for more units"
        self.unit_box = ElidedComboBox(self, characters=12, tip=tip)
        self.above.addLayout(row_of(self._made, self._continue))
        self.above.addLayout(row_of(self.unit_box, *self.choices()))
        self.add_button("Plots…", self.plot_tip, self.plots.open)
        entries = [(export[0], partial(self._export, export)) for export in self.exports()]
        self.add_menu("Export", "Write numbers and maps for other programs", entries)
        self.add_button("Save result…", "Write the whole result, to be opened again or continued", self._ask_to_save)
        tip = "Show a saved result with its inputs; Continue adds photons"
        ask = opens_with(self, "Open a result", RESULTS, self.open_result)
        self.add_button("Open result…", tip, ask, needs_result=False)

    def _show_units(self, units: tuple[FluenceUnit, ...]) -> None:
        """Offer these units; the chosen one stays, and of new ones the user's own comes before that per photon."""
        chosen = self.unit_box.currentData()
        known, self._units = set(self._units), {unit.name: unit for unit in units}
        fresh = [name for name in self._units if name not in known and name != units[0].name]
        if chosen not in self._units or (chosen == units[0].name and fresh):
            chosen = fresh[0] if fresh else units[0].name
        with QSignalBlocker(self.unit_box):
            self.unit_box.clear()
            for name, unit in self._units.items():
                self.unit_box.addItem(_unit_text(unit), name)
            self.unit_box.setCurrentIndex(self.unit_box.findData(chosen))

    def _count(self) -> None:
        if self.result is not None:
            make = self.make_rows(self.result)
            self._counting.submit(one_step("numbers", make))

    def _on_counted(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        elif self.result is not None:
            self.rows = (*outcome.result, *self.added_rows)
            self.table.show_rows(_shown_row(row, self._colors) for row in self.rows)

    def _on_unit(self) -> None:
        self._count()
        self.unit_changed.emit(self.unit.name)

    def _export(self, export: Export) -> None:
        text, name, filters, make = export
        self._ask_to_write(text.removesuffix("…"), filters, name, make())

    def _ask_to_save(self) -> None:
        self._ask_to_write("Save the result", RESULTS, self.save_name, self.save)

    def _ask_to_write(self, title: str, filters: str, name: str, write: Write) -> None:
        displayed = self.displayed

        def write_displayed(path: Path) -> Any:
            return write(path, displayed)

        self.files.ask_to_write(title, filters, name, lambda: write_displayed)


class VoxelResultBox(LightResultBox[LightResult]):
    """Numbers and files of a result in voxels."""

    mode = VOXELS
    empty_text = "No result yet: place a source and press Run."
    plot_tip = "Profiles compared with diffusion theory, and detector signals"

    @property
    def threshold(self) -> float:
        """Above which volumes are measured, in `unit`."""
        return self._thresholds[self.unit.name]

    def find(self, result: LightResult, *, running: bool) -> Sequence[Finding]:
        """Return what to think of a result."""
        return findings(result, running=running)

    def make_rows(self, result: LightResult) -> Callable[[], Iterable[NumberRow]]:
        """Return what a worker calls for the numbers of a result."""
        unit, threshold = self.unit, self.threshold
        return lambda: energy_rows(result) + fluence_rows(result, unit=unit, threshold=threshold)

    def choices(self) -> tuple[QWidget, ...]:
        """Make the threshold."""
        self._thresholds = dict(THRESHOLDS)
        self._above = QLineEdit(self)
        self._above.setFixedWidth(64)
        self._above.setToolTip("Volume in each label where the fluence reaches this value")
        positive = QDoubleValidator(0.0, 1e30, 12, self._above)
        positive.setLocale(QLocale.c())
        self._above.setValidator(positive)
        self._above.editingFinished.connect(self._on_threshold)
        return Label("volume above", self), self._above

    def exports(self) -> tuple[Export, ...]:
        """Return the numbers, and the fluence in the chosen unit."""
        return (
            ("Numbers as CSV…", "light_numbers.csv", TABLES, self._number_writer),
            ("Fluence as NIfTI…", "fluence.nii.gz", "NIfTI (*.nii.gz *.nii)", self._fluence_writer),
        )

    def save(self, path: Path, displayed: Displayed[LightResult]) -> Generator[Step, None, None]:
        """Save a result with all that continuing it needs."""
        return save_result_steps(path, displayed.result)

    def load(self, path: Path) -> list[LayerData]:
        """Load labels and fluence of a saved result as layers."""
        return read_layers(str(path))

    def _show_units(self, units: tuple[FluenceUnit, ...]) -> None:
        super()._show_units(units)
        if not self._above.hasFocus():
            self._above.setText(f"{self.threshold:g}")

    def _on_unit(self) -> None:
        self._above.setText(f"{self.threshold:g}")
        super()._on_unit()

    def _on_threshold(self) -> None:
        was = self.threshold
        if self._above.hasAcceptableInput():
            self._thresholds[self.unit.name] = float(self._above.text())
        self._above.setText(f"{self.threshold:g}")
        if self.threshold != was:
            self._count()

    def _number_writer(self) -> Write:
        unit, threshold, added = self.unit, self.threshold, self.added_rows
        return lambda path, shown: write_csv(path, number_rows(shown.result, unit=unit, threshold=threshold) + added)

    def _fluence_writer(self) -> Write:
        unit = self.unit
        return lambda path, shown: write_fluence_steps(path, shown.result, unit=unit)


class LayerResultBox(LightResultBox[LayeredResult]):
    """Numbers and files of a result in layers."""

    mode = LAYERS
    plot_tip = "Profiles by depth and radius, and escaping light by radius and angle"
    save_name = "layered_result.npz"

    def find(self, result: LayeredResult, *, running: bool) -> Sequence[Finding]:
        """Return what to think of a result."""
        return layered_findings(result, running=running)

    def can_continue(self, result: LayeredResult) -> bool:
        """Whether more photons of a result can be traced: not of one that came from an MCML file."""
        return result.state is not None

    def make_rows(self, result: LayeredResult) -> Callable[[], Iterable[NumberRow]]:
        """Return what a worker calls for the numbers of a result."""
        return lambda: fraction_rows(result)

    def exports(self) -> tuple[Export, ...]:
        """Return numbers, curves, and MCML output, which holds the response to a pencil beam, as CONV expects it."""

        def write_numbers(path: Path, shown: Displayed[LayeredResult]) -> None:
            write_csv(path, layered_rows(shown.result))

        def write_all_curves(path: Path, shown: Displayed[LayeredResult]) -> None:
            write_curves(path, every_curve(shown.result, unit=shown.options.unit))

        def write_mcml(path: Path, shown: Displayed[LayeredResult]) -> None:
            write_mco(path, shown.traced)

        return (
            ("Numbers as CSV…", "layers.csv", TABLES, lambda: write_numbers),
            ("Curves as CSV…", "layers curves.csv", TABLES, lambda: write_all_curves),
            ("Result as MCML output (.mco)…", "layers.mco", "MCML output (*.mco)", lambda: write_mcml),
        )

    def save(self, path: Path, displayed: Displayed[LayeredResult]) -> None:
        """Save what was traced, the response to a pencil beam, with all that continuing it needs."""
        save_result(path, displayed.traced)

    def load(self, path: Path) -> LayeredResult:
        """Load a saved result."""
        return load_result(path)


def made_text(result: Any) -> str:
    """Return how many photons, how long, where; of a result in voxels or in layers."""
    text = f"{result.launched:,} photons"
    seconds, device = result.parameters.get("seconds"), str(result.parameters.get("device", "")).split(" (")[0]
    if seconds:
        text += f" in {seconds_text(seconds)}{device and ' on ' + device}, {result.launched / seconds:,.0f}/s"
    return text


def _shown_row(row: NumberRow, colors: Mapping[int, Any]) -> Number:
    return Number(
        group=row.group,
        name=row.name,
        text=row.text,
        unit=row.unit or (row.note if row.note.startswith("z") else ""),
        note=row.note,
        status=row.status,
        color=None if row.label is None else colors.get(row.label),
    )


def _unit_text(unit: FluenceUnit) -> str:
    amount = unit.factor / 100 if unit.name == "J/cm²" else unit.factor
    return UNIT_TEXTS[unit.name].format(amount)
