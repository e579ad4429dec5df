"""Numbers, plots and files of results in voxels and in layers."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qtpy.QtCore import QLocale
from qtpy.QtGui import QDoubleValidator
from qtpy.QtWidgets import QHBoxLayout, QLabel, QLineEdit

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.light.gui.request import Displayed
from napari_gpubio.light.gui.results import ResultBox, Write
from napari_gpubio.light.io import save_result, write_fluence
from napari_gpubio.light.io.mco import write_mco
from napari_gpubio.light.io.results import load_layered_result, save_layered_result
from napari_gpubio.light.layers.curves import every_curve, write_curves
from napari_gpubio.light.layers.numbers import fraction_rows, layered_findings, layered_rows
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.napari_io import read_layers
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import Finding, FluenceUnit, findings
from napari_gpubio.light.summary import NumberRow, energy_rows, fluence_rows, number_rows, write_csv

TABLES = "Tables (*.csv)"
THRESHOLDS = {"1/mm²": 1e-3, "mW/mm²": 1.0, "J/cm²": 1.0}  # to begin with


class VoxelResultBox(ResultBox[LightResult]):
    """Numbers and files of a result in voxels."""

    empty_text = "No result yet: place a source and press Run."
    plot_tip = "Profiles beside diffusion theory, and what the detectors detected"

    @property
    def threshold(self) -> float:
        """Above which volumes are measured, in `unit`."""
        return self._thresholds[self.unit.name]

    def find(self, result: LightResult, *, running: bool) -> tuple[Finding, ...]:
        """Return what to think of a result."""
        return findings(result, running=running)

    def can_continue(self, result: LightResult) -> bool:  # noqa: ARG002 - every result can
        """Whether more photons of a result can be traced."""
        return True

    def make_rows(self, result: LightResult) -> Callable[[], tuple[NumberRow, ...]]:
        """Return what a worker calls for the numbers of a result."""
        unit, threshold = self.unit, self.threshold
        return lambda: energy_rows(result) + fluence_rows(result, unit=unit, threshold=threshold)

    def plot(self, displayed: Displayed[LightResult] | None) -> None:
        """Plot a result."""
        self.plots.display_voxels(displayed)

    def add_choices(self, row: QHBoxLayout) -> None:
        """Add the threshold."""
        self._thresholds = dict(THRESHOLDS)
        self._above = QLineEdit(self)
        self._above.setFixedWidth(64)
        self._above.setToolTip("The volume of each label in which fluence reaches this")
        positive = QDoubleValidator(0.0, 1e30, 12, self._above)
        positive.setLocale(QLocale.c())
        self._above.setValidator(positive)
        self._above.editingFinished.connect(self._on_threshold)
        row.addWidget(QLabel("volume above", self))
        row.addWidget(self._above)

    def exports(self) -> tuple[tuple[str, str, str, Callable[[], Write]], ...]:
        """Return the numbers, and the fluence in the chosen unit."""
        return (
            ("Numbers as CSV…", "light_numbers.csv", TABLES, self._numbers_writer),
            ("Fluence as NIfTI…", "fluence.nii.gz", "NIfTI (*.nii.gz *.nii)", self._fluence_writer),
        )

    def save(self, path: Path, displayed: Displayed[LightResult]) -> None:
        """Save a result with all that continuing it needs."""
        save_result(path, displayed.result)

    def load(self, path: Path) -> list[LayerData]:
        """Load labels and fluence of a saved result as layers."""
        return read_layers(str(path))

    def _show_units(self, units: tuple[FluenceUnit, ...]) -> None:
        super()._show_units(units)
        if not self._above.hasFocus():
            self._above.setText(f"{self.threshold:g}")

    def _on_unit(self, *_: Any) -> None:
        self._above.setText(f"{self.threshold:g}")
        super()._on_unit()

    def _on_threshold(self) -> None:
        was = self.threshold
        if self._above.hasAcceptableInput():
            self._thresholds[self.unit.name] = float(self._above.text())
        self._above.setText(f"{self.threshold:g}")
        if self.threshold != was:
            self._count()

    def _numbers_writer(self) -> Write:
        return functools.partial(_write_numbers, unit=self.unit, threshold=self.threshold, added=self._added_rows)

    def _fluence_writer(self) -> Write:
        return functools.partial(_write_fluence, unit=self.unit)


class LayerResultBox(ResultBox[LayeredResult]):
    """Numbers and files of a result in layers."""

    plot_tip = "Profiles in depth and along the radius, and what escapes by radius and by angle"
    save_name = "layered_result.npz"

    def find(self, result: LayeredResult, *, running: bool) -> tuple[Finding, ...]:
        """Return what to think of a result."""
        return layered_findings(result, running=running)

    def can_continue(self, result: LayeredResult) -> bool:
        """Whether more photons of a result can be traced: not of one that came from an MCML file."""
        return result.state is not None

    def make_rows(self, result: LayeredResult) -> Callable[[], tuple[NumberRow, ...]]:
        """Return what a worker calls for the numbers of a result."""
        return lambda: tuple(fraction_rows(result))

    def plot(self, displayed: Displayed[LayeredResult] | None) -> None:
        """Plot a result."""
        self.plots.display_layers(displayed)

    def exports(self) -> tuple[tuple[str, str, str, Callable[[], Write]], ...]:
        """Return numbers, curves, and MCML output."""
        return (
            ("Numbers as CSV…", "layers.csv", TABLES, lambda: _write_layered_numbers),
            ("Curves as CSV…", "layers curves.csv", TABLES, lambda: _write_curves),
            ("Result as MCML output (.mco)…", "layers.mco", "MCML output (*.mco)", lambda: _write_mcml_output),
        )

    def save(self, path: Path, displayed: Displayed[LayeredResult]) -> None:
        """Save what was traced, the response to a pencil beam, with all that continuing it needs."""
        save_layered_result(path, displayed.traced)

    def load(self, path: Path) -> LayeredResult:
        """Load a saved result."""
        return load_layered_result(path)


def _write_fluence(path: Path, displayed: Displayed[LightResult], *, unit: FluenceUnit) -> None:
    write_fluence(path, displayed.result, unit=unit)


def _write_numbers(
    path: Path, displayed: Displayed[LightResult], *, unit: FluenceUnit, threshold: float, added: tuple[NumberRow, ...]
) -> None:
    write_csv(path, number_rows(displayed.result, unit=unit, threshold=threshold) + added)


def _write_layered_numbers(path: Path, displayed: Displayed[LayeredResult]) -> None:
    write_csv(path, layered_rows(displayed.result))


def _write_curves(path: Path, displayed: Displayed[LayeredResult]) -> None:
    write_curves(path, every_curve(displayed.result, unit=displayed.options.unit))


def _write_mcml_output(path: Path, displayed: Displayed[LayeredResult]) -> None:
    """Write the response to a pencil beam, which CONV expects."""
    write_mco(path, displayed.traced)
