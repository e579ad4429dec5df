"""Make a tissue of blood, water and fat, and a power law of the scattering."""

import dataclasses
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QFormLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from napari_gpubio.light.tissue import (
    Chromophores,
    Composition,
    PowerLaw,
    power_law,
    power_law_names,
    preset_names,
    preset_recipe,
)
from napari_gpubio.viewer.forms import ParamForm

# something to begin with: brain, as it scatters on average, with the blood and water that textbooks give it
START = Composition(
    name="",
    chromophores=Chromophores(blood_fraction=0.04, oxygen_saturation=0.65, water_fraction=0.8),
    scattering=power_law("brain (mean)"),
    g=0.9,
    n=1.37,
)
_OWN = "own numbers"


class CompositionForm(QWidget):
    """What a tissue is made of, and how it scatters."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._absorption = ParamForm(START.chromophores, parent=self)
        self._scattering = ParamForm(START.scattering, parent=self)
        self._rest = ParamForm(START, parent=self)
        self._start = _box("the numbers below", [name for name in preset_names() if _is_composition(name)], self)
        self._law = _box(_OWN, power_law_names(), self)
        self._build()
        self.set_value(START)
        for form in (self._absorption, self._scattering, self._rest):
            form.changed.connect(self._on_form)
        self._start.activated.connect(self._on_start)
        self._law.activated.connect(self._on_law)

    def value(self) -> Composition:
        """Return the tissue.

        Raises
        ------
        InvalidInput
            If the fractions fill more than the whole.
        """
        chromophores, law = self._absorption.value(), self._scattering_law()
        return dataclasses.replace(
            self._rest.value(), chromophores=chromophores, scattering=law, source=source_text(chromophores, law)
        )

    def set_value(self, tissue: Composition) -> None:
        """Show another tissue; ``changed`` is emitted once."""
        was = self.blockSignals(True)
        self._absorption.set_value(tissue.chromophores)
        self._scattering.set_value(tissue.scattering)
        self._rest.set_value(dataclasses.replace(tissue, name=""))
        self._show_law()
        self.blockSignals(was)
        self.changed.emit()
