"""Make a tissue of blood, water and fat, and a power law of the scattering."""

import dataclasses
from collections.abc import Iterable

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QFormLayout, QHBoxLayout, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.gui.panel import heading
from napari_gpubio.light.tissue import (
    Chromophores,
    Composition,
    PowerLaw,
    power_law,
    power_law_names,
    preset_names,
    preset_recipe,
)

_OWN = "the numbers below"
_DECIMALS = 4  # of the power law on screen


def source_text(chromophores: Chromophores, scattering: PowerLaw) -> str:
    """Return what a tissue is made of, as the source of its numbers."""
    parts = {
        "blood": chromophores.blood_fraction,
        "oxygen saturation": chromophores.oxygen_saturation if chromophores.blood_fraction else 0.0,
        "water": chromophores.water_fraction,
        "fat": chromophores.fat_fraction,
        "melanosomes": chromophores.melanosome_fraction,
    }
    absorbing = ", ".join(f"{name} {100 * part:.4g} %" for name, part in parts.items() if part) or "nothing"
    law = f"µs′ {scattering.a_per_mm:.4g} (λ/500 nm)^-{scattering.b:.4g} 1/mm"
    named = f" ({scattering.name}, {scattering.source})" if scattering.name else ""
    return f"µa of {absorbing}; {law}{named}"


def _starting() -> Composition:
    """Numbers to begin with; they are no tissue's."""
    chromophores = Chromophores(blood_fraction=0.03, oxygen_saturation=0.7, water_fraction=0.7)
    law = power_law("soft tissue (mean)")
    return Composition(name="", chromophores=chromophores, scattering=law, source=source_text(chromophores, law))


class CompositionForm(QWidget):
    """What a tissue is made of, and how it scatters."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._given = _starting()
        self._absorption = ParamForm(self._given.chromophores, parent=self)
        self._scattering = ParamForm(_rounded(self._given.scattering), parent=self)
        self._rest = ParamForm(self._given, parent=self)
        compositions = [name for name in preset_names() if isinstance(preset_recipe(name), Composition)]
        self._tissue, self._law = _box(compositions, self), _box(power_law_names(), self)
        self._build()
        self.set_value(self._given)
        for form in (self._absorption, self._scattering, self._rest):
            form.changed.connect(self._on_form)
        self._tissue.activated.connect(self._on_tissue)
        self._law.activated.connect(self._on_law)

    def value(self) -> Composition:
        """Return the tissue.

        Raises
        ------
        InvalidInput
            If the fractions fill more than the whole.
        """
        chromophores, law = self._absorption.value(), self._power_law()
        numbers = dataclasses.replace(self._rest.value(), name="", chromophores=chromophores, scattering=law, source="")
        if numbers == dataclasses.replace(self._given, name="", source=""):
            return self._given
        return dataclasses.replace(numbers, source=source_text(chromophores, law))

    def set_value(self, tissue: Composition) -> None:
        """Show another tissue; ``changed`` is emitted once."""
        self._given = tissue
        was = self.blockSignals(True)
        self._absorption.set_value(tissue.chromophores)
        self._rest.set_value(tissue)
        self._law.setCurrentIndex(max(self._law.findData(tissue.scattering.name), 0))
        self._scattering.set_value(_rounded(tissue.scattering))
        self.blockSignals(was)
        self._on_form()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._tissue.setToolTip("Fill in what a tissue of the literature is made of")
        self._law.setToolTip("Fill in how a tissue of the literature scatters")
        start = QFormLayout()
        start.addRow("Begin with", self._tissue)
        law = QFormLayout()
        law.addRow("Scatters as", self._law)
        columns = QHBoxLayout()
        for title, first, forms in (
            ("Absorption: parts of the volume", start, (self._absorption,)),
            ("Scattering", law, (self._scattering, self._rest)),
        ):
            column = QVBoxLayout()
            column.addWidget(heading(title, self))
            column.addLayout(first)
            for form in forms:
                column.addWidget(form)
            column.addStretch(1)
            columns.addLayout(column)
        whole = QVBoxLayout(self)
        whole.addLayout(columns)

    def _power_law(self) -> PowerLaw:
        """The law on screen; that of the literature, with all its digits, where it is the one."""
        shown, given = self._scattering.value(), self._given.scattering
        named = [power_law(name)] if (name := self._law.currentData()) else []
        same = (law for law in (given, *named) if _rounded(law) == _rounded(shown))
        return next(same, PowerLaw(a_per_mm=shown.a_per_mm, b=shown.b))

    def _on_form(self) -> None:
        """The numbers are others now; say so in the boxes that had filled them in."""
        self._law.setCurrentIndex(max(self._law.findData(self._power_law().name), 0))
        self._tissue.setCurrentIndex(max(self._tissue.findData(self._name()), 0))
        self.changed.emit()

    def _name(self) -> str:
        """Name of the tissue of the literature whose numbers are on screen, or an empty text."""
        try:
            return self.value().name
        except InvalidInput:
            return ""

    def _on_tissue(self) -> None:
        if name := self._tissue.currentData():
            recipe = preset_recipe(name)
            if isinstance(recipe, Composition):
                self.set_value(recipe)

    def _on_law(self) -> None:
        if name := self._law.currentData():
            self._scattering.set_value(_rounded(power_law(name)))


def _rounded(law: PowerLaw) -> PowerLaw:
    """The law's two numbers as they are shown."""
    return PowerLaw(a_per_mm=round(law.a_per_mm, _DECIMALS), b=round(law.b, _DECIMALS))


def _box(names: Iterable[str], parent: QWidget) -> QComboBox:
    box = QComboBox(parent)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
    box.setMinimumContentsLength(12)
    box.addItem(_OWN, "")
    for name in names:
        box.addItem(name, name)
    return box
