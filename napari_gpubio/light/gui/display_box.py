"""The part of the panel that says how fluence is drawn, and how strong the source is."""

from dataclasses import dataclass
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.light.gui.decade_bar import DecadeBar
from napari_gpubio.light.gui.picture_inputs import decades_input, keep_button
from napari_gpubio.light.result import UNITS

NOT_GIVEN = "not given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """How strong the source is, as far as it is known.

    Parameters
    ----------
    power_mw
        Power, mW, or None.
    energy_j
        What it gives in all, J, or None.
    """

    power_mw: float | None = None
    energy_j: float | None = None


class DisplayBox(QWidget):
    """Power, exposure and energy of the source; decades, mask and error of the picture."""

    strength_changed = Signal()
    changed = Signal()
    keep_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bar = DecadeBar(self)
        form = aligned_form(self)
        form.addRow(self._bar)
        self._power = _optional("mW", "Power of a continuous source: the fluence rate is then told in mW/mm²", self)
        self._exposure = _optional("s", "How long the source shines; with the power it gives the energy", self)
        self._energy = _optional("J", "What the source gives in all: the fluence is then told in J/cm²", self)
        form.addRow(row_label("Source power", self._power.toolTip(), self), self._power)
        form.addRow(row_label("Exposure", self._exposure.toolTip(), self), self._exposure)
        form.addRow(row_label("Energy", self._energy.toolTip(), self), self._energy)
        self._decades, decades = decades_input("voxel", self)
        self._mask = QCheckBox("hide voxels with error > 50 %", self)
        self._mask.setToolTip("The standard error relative to the fluence, from the spread of batches of photons")
        self._error = QCheckBox("show the error as a layer", self)
        self._error.setToolTip("The relative standard error in per cent")
        form.addRow(row_label("Colors", self._decades.toolTip(), self), decades)
        form.addRow(row_label("Noise", self._mask.toolTip(), self), self._mask)
        form.addRow("", self._error)
        keep = keep_button(self)
        keep.clicked.connect(lambda: self.keep_wanted.emit())
        form.addRow("", keep)
        self._connect()

    @property
    def strength(self) -> Strength:
        """How strong the source is, as far as the user gave it."""
        return Strength(power_mw=self._power.value() or None, energy_j=self._energy.value() or None)

    @property
    def decades(self) -> int:
        """How many powers of ten the colors span."""
        return int(self._decades.value())

    @property
    def masks(self) -> bool:
        """Whether noisy voxels are hidden."""
        return self._mask.isChecked()

    @property
    def shows_error(self) -> bool:
        """Whether the relative error is wanted as a layer."""
        return self._error.isChecked()

    def show_legend(self, layer: Any | None, gate: str = "") -> None:
        """Say what the colors of a layer stand for, and of which time gate."""
        unit = None if layer is None else carried(layer, "unit")
        told = [] if unit is None else [f"{unit} {UNITS[unit]}", *([gate] if gate else [])]
        self._bar.show_layer(layer, " · ".join(told))

    def _connect(self) -> None:
        self._power.edited.connect(lambda _: self._on_power())
        self._exposure.edited.connect(lambda _: self._on_power())
        self._energy.edited.connect(self._on_energy)
        for signal in (self._decades.valueChanged, self._mask.toggled, self._error.toggled):
            signal.connect(lambda *_: self.changed.emit())

    def _on_power(self) -> None:
        """Energy is power times exposure, where both are given."""
        if self._power.value() and self._exposure.value():
            self._energy.show_value(1e-3 * self._power.value() * self._exposure.value())
        self.strength_changed.emit()

    def _on_energy(self, energy_j: float) -> None:
        """Where the power is given, the exposure follows the energy."""
        if self._power.value():
            self._exposure.show_value(energy_j / (1e-3 * self._power.value()))
        self.strength_changed.emit()


def _optional(unit: str, tip: str, parent: Any) -> NumberBox:
    """A number that may be left out."""
    box = NumberBox(0.0, 1e9, 0.0, 6, parent, unit=unit, arrows=True)
    box.setSpecialValueText(NOT_GIVEN)
    box.setToolTip(tip)
    return box
