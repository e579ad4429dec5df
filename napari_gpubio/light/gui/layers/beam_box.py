"""The part of the panel that describes the beam: its profile, and how much light it carries."""

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QWidget

from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.light.layers.beams import Beam
from napari_gpubio.light.numbers import PER_PHOTON, FluenceUnit, fluence_units

PENCIL = "pencil"
_KINDS = {"pencil beam": PENCIL, "Gaussian (1/e²)": "gaussian", "flat-top": "flat"}
_AMOUNTS = {"photon, 1/mm²": "", "power, mW/mm²": "mW", "energy, J/cm²": "J"}


class BeamBox(QWidget):
    """A beam; ``changed`` says that what was traced is to be shown for another one. It is not traced again."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind, self._amount = QComboBox(self), QComboBox(self)
        for text, kind in _KINDS.items():
            self._kind.addItem(text, kind)
        for text, unit in _AMOUNTS.items():
            self._amount.addItem(text, unit)
        self._radius = NumberBox(0.0, 1e6, 1.0, 6, self, step=0.1, unit="mm")
        self._strength = NumberBox(0.0, 1e9, 1.0, 6, self)
        for choice in (self._kind, self._amount):
            choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            choice.setMinimumContentsLength(10)
        form = aligned_form(self)
        tip = "Pencil-beam results are convolved with the profile; another beam needs no new run"
        self._radius.setToolTip("Radius of the disk, or where a Gaussian beam has fallen to 1/e²")
        form.addRow(row_label("Beam", tip, self), _beside(self._kind, self._radius))
        tip = "How much light the beam carries: one launched photon, a power, or an energy as in CONV"
        form.addRow(row_label("Fluence per", tip, self), _beside(self._amount, self._strength))
        for signal in (self._kind.activated, self._radius.edited, self._amount.activated, self._strength.edited):
            signal.connect(self._on_changed)
        self._show_state()

    @property
    def beam(self) -> Beam | None:
        """The beam; None is a pencil beam.

        Raises
        ------
        InvalidInput
            If its radius is 0.
        """
        kind = self._kind.currentData()
        return None if kind == PENCIL else Beam(kind=kind, radius_mm=self._radius.value())

    @property
    def unit(self) -> FluenceUnit:
        """In what fluence is told.

        Raises
        ------
        InvalidInput
            If the power or the energy is 0.
        """
        strength, unit = self._strength.value(), self._amount.currentData()
        if not unit:
            return PER_PHOTON
        units = fluence_units(power_mw=strength) if unit == "mW" else fluence_units(energy_j=strength)
        return units[-1]

    def set_beam(self, beam: Beam | None) -> None:
        """Show another beam."""
        self._kind.setCurrentIndex(self._kind.findData(PENCIL if beam is None else beam.kind))
        if beam is not None:
            self._radius.show_value(beam.radius_mm)
        self._on_changed()

    def set_strength(self, unit: str, strength: float = 1.0) -> None:
        """Tell fluence for a power (``mW``), an energy (``J``) or one photon (an empty text)."""
        self._amount.setCurrentIndex(self._amount.findData(unit))
        self._strength.show_value(strength)
        self._on_changed()

    def _on_changed(self, *_: Any) -> None:
        self._show_state()
        self.changed.emit()

    def _show_state(self) -> None:
        self._radius.setVisible(self._kind.currentData() != PENCIL)
        unit = self._amount.currentData()
        self._strength.setVisible(bool(unit))
        self._strength.setSuffix(f" {unit}")


def _beside(choice: QComboBox, number: NumberBox) -> QHBoxLayout:
    row = QHBoxLayout()
    row.addWidget(choice, 2)
    row.addWidget(number, 1)
    return row
