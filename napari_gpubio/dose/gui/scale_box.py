"""Prescription and scale: they change what is read off the histograms, which are not counted anew."""

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSizePolicy, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.fields import NumberBox, SliderRow
from napari_gpubio.gui.forms import aligned_form, row_label

FACTOR, LIGHT = "factor", "power × time"
_PRESCRIPTION_TIP = "What % of dose are of, in units of the dose (0: none); metrics such as V95%[%] need it"
_SCALE_TIP = "The doses are multiplied by it: another number of fractions, another power of a light source"
_ENERGY_TIP = "The light energy that the dose image is of; the doses are multiplied by power × time / this"


class ScaleBox(QWidget):
    """Prescription, and a factor for all doses: a number, or power times time of a light source."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.prescription = SliderRow(NumberBox(0.0, 1e9, 0.0, 4, self), (0.0, 1.0), parent=self)
        self.mode = QComboBox(self)
        self.mode.addItems([FACTOR, LIGHT])
        self.mode.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.scale = SliderRow(NumberBox(1e-6, 1e6, 1.0, 6, self), (0.1, 10.0), logarithmic=True, parent=self)
        self.power = SliderRow(NumberBox(1e-3, 1e7, 100.0, 3, self), (1.0, 10_000.0), logarithmic=True, parent=self)
        self.time = SliderRow(NumberBox(1e-3, 1e7, 10.0, 3, self), (0.1, 10_000.0), logarithmic=True, parent=self)
        self.energy = NumberBox(1e-9, 1e9, 1.0, 6, self)
        self._top = 0.0
        self._fill()
        self._connect()
        self._on_mode()

    @property
    def reference(self) -> float | None:
        """The prescription, in units of the dose, or None."""
        return self.prescription.box.value() or None

    @property
    def factor(self) -> float:
        """What all doses are multiplied by."""
        if not self.is_light:
            return float(self.scale.box.value())
        joules = 1e-3 * self.power.box.value() * self.time.box.value()
        return float(joules / self.energy.value())

    @property
    def is_light(self) -> bool:
        """Whether doses are scaled by power times time."""
        return str(self.mode.currentText()) == LIGHT

    def show_unit(self, unit: str) -> None:
        """Say in which unit the prescription is."""
        self.prescription.box.setSuffix(f" {unit}" if unit else "")

    def show_top(self, largest: float) -> None:
        """Let the slider of the prescription reach somewhat beyond the largest dose."""
        if largest > 0 and abs(largest - self._top) > 1e-9 * largest:
            self._top = largest
            self.prescription.set_ends(0.0, 1.25 * largest)

    def read_layer(self, layer: Any) -> None:
        """Take over what a dose layer says: a prescription, the energy it is of."""
        prescription, energy = carried(layer, "prescription"), carried(layer, "energy_j")
        self.prescription.box.setValue(float(prescription or 0.0))
        if energy:
            self.energy.setValue(float(energy))
        self.mode.setCurrentText(LIGHT if energy else FACTOR)

    def _fill(self) -> None:
        self.prescription.box.setSpecialValueText("none")
        self.power.box.setSuffix(" mW")
        self.time.box.setSuffix(" s")
        self.energy.setSuffix(" J")
        scaled, energy = QWidget(self), QWidget(self)
        for owner, parts in ((scaled, (self.mode, self.scale)), (energy, (QLabel("dose is of", self), self.energy))):
            row = QHBoxLayout(owner)
            row.setContentsMargins(0, 0, 0, 0)
            for part, share in zip(parts, (3, 5), strict=True):
                row.addWidget(part, share)
        self._rows = aligned_form(self)
        self._scaled, self._energy = scaled, energy
        for text, tip, widget in (
            ("Prescription", _PRESCRIPTION_TIP, self.prescription),
            ("Scale", _SCALE_TIP, scaled),
            ("Power", _SCALE_TIP, self.power),
            ("Time", _SCALE_TIP, self.time),
            ("", _ENERGY_TIP, energy),
        ):
            widget.setToolTip(tip)
            self._rows.addRow(row_label(text, tip, self), widget)

    def _connect(self) -> None:
        self.mode.currentTextChanged.connect(self._on_mode)
        for row in (self.prescription, self.scale, self.power, self.time):
            row.changed.connect(lambda _: self.changed.emit())
        self.energy.valueChanged.connect(lambda _: self.changed.emit())

    def _on_mode(self, *_: Any) -> None:
        light = self.is_light
        self.scale.setVisible(not light)
        for widget in (self.power, self.time, self._energy):
            self._rows.setRowVisible(widget, light)
        self.changed.emit()
