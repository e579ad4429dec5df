"""Tissue presets: a list to choose from, a form of chromophores, and how properties from a preset are recognized."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtGui import QColor
from qtpy.QtWidgets import (
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.gui.panel import heading
from napari_gpubio.optics.gui.optical_rows import PropertyRow
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.tissue import (
    Chromophores,
    Composition,
    PowerLaw,
    Preset,
    power_law,
    power_law_names,
    preset_names,
    preset_recipe,
)

_NUMBERS = ("mua_per_mm", "musp_per_mm", "g", "n")
_FIRST, _KNOWN = 2, 2 + len(_NUMBERS)  # columns of the first number, and of the last column


class TissueList(QWidget):
    """The presets with their numbers at a wavelength; those unknown there are dim and last."""

    changed = Signal()
    accepted = Signal()

    def __init__(self, unit: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._unit = unit
        self._search = QLineEdit(self, placeholderText="Search tissues and publications", clearButtonEnabled=True)
        self._search.textChanged.connect(self._filter)
        self._tree = QTreeWidget(self, rootIsDecorated=False, uniformRowHeights=True)
        self._tree.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._tree.setStyleSheet("QTreeView::item { padding: 2px 4px; }")
        self._tree.setHeaderLabels(["Tissue", "From", f"µa {unit}", f"µs′ {unit}", "g", "n", "Known at (nm)"])
        self._tree.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._tree.header().setSectionResizeMode(_KNOWN, QHeaderView.ResizeMode.Stretch)
        self._tree.currentItemChanged.connect(lambda *_: self.changed.emit())
        self._tree.itemDoubleClicked.connect(lambda *_: self.accepted.emit())
        layout = QVBoxLayout(self)
        layout.addWidget(self._search)
        layout.addWidget(self._tree)

    @property
    def recipe(self) -> Preset | Composition | None:
        """The chosen preset, or None."""
        item = self._tree.currentItem()
        return None if item is None or item.isHidden() else preset_recipe(item.data(0, Qt.ItemDataRole.UserRole))

    def choose(self, name: str) -> None:
        """Choose a preset by its name."""
        for index in range(self._tree.topLevelItemCount()):
            item = self._tree.topLevelItem(index)
            if item.data(0, Qt.ItemDataRole.UserRole) == name:
                self._tree.setCurrentItem(item)
                self._tree.scrollToItem(item)

    def showEvent(self, event: Any) -> None:
        """Qt: the list comes on screen; the chosen tissue is in sight."""
        super().showEvent(event)
        if self._tree.currentItem() is not None:
            self._tree.scrollToItem(self._tree.currentItem())

    def show_wavelength(self, wavelength_nm: float) -> None:
        """Show the numbers at a wavelength."""
        chosen, was = self.recipe, self.blockSignals(True)
        known = preset_names(wavelength_nm)
        self._tree.clear()
        for name in (*known, *(name for name in preset_names() if name not in known)):
            self._tree.addTopLevelItem(self._item(name, wavelength_nm))
        self._filter()
        if chosen is not None:
            self.choose(chosen.name)
        self.blockSignals(was)
        self.changed.emit()

    def _item(self, name: str, wavelength_nm: float) -> QTreeWidgetItem:
        recipe = preset_recipe(name)
        tissue, _, publication = name.removesuffix(")").partition(" (")
        item = QTreeWidgetItem([tissue, publication or "composition", *self._numbers(recipe, wavelength_nm)])
        item.setText(_KNOWN, known_text(recipe))
        item.setToolTip(_KNOWN, known_text(recipe))
        item.setData(0, Qt.ItemDataRole.UserRole, name)
        for column in range(_FIRST, _KNOWN):
            item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        if not item.text(_FIRST):
            for column in range(item.columnCount()):
                item.setForeground(column, QColor(theme.MUTED))
        return item

    def _numbers(self, recipe: Preset | Composition, wavelength_nm: float) -> list[str]:
        try:
            row = PropertyRow.of(recipe.medium(wavelength_nm))
        except InvalidInput:
            return [""] * len(_NUMBERS)
        return [row.short_text(field, self._unit) for field in _NUMBERS]

    def _filter(self, *_: Any) -> None:
        words = self._search.text().lower().split()
        for index in range(self._tree.topLevelItemCount()):
            item = self._tree.topLevelItem(index)
            name = item.data(0, Qt.ItemDataRole.UserRole).lower()
            item.setHidden(not all(word in name for word in words))
        self.changed.emit()


def known_text(recipe: Preset | Composition) -> str:
    """Where a preset is known, in nm."""
    if isinstance(recipe, Composition):
        return "{:g}–{:g}".format(*recipe.range_nm)
    return ", ".join(f"{row.wavelength_nm:g}" for row in recipe.rows)


_OWN = "the numbers below"
_POWER_LAW_DECIMALS = 4


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
        self.absorption = ParamForm(self._given.chromophores, parent=self)
        self.scattering = ParamForm(_rounded(self._given.scattering), parent=self)
        self._rest = ParamForm(self._given, parent=self)
        compositions = [name for name in preset_names() if isinstance(preset_recipe(name), Composition)]
        self._tissue, self._law = _box(compositions, self), _box(power_law_names(), self)
        self._build()
        self.set_value(self._given)
        for form in (self.absorption, self.scattering, self._rest):
            form.changed.connect(self._on_form)
        self._tissue.activated.connect(self._on_tissue)
        self._law.activated.connect(self._on_law)

    def value(self) -> Composition:
        """Return the tissue; `InvalidInput` if the fractions add up to more than the whole."""
        chromophores, law = self.absorption.value(), self._power_law()
        numbers = dataclasses.replace(self._rest.value(), name="", chromophores=chromophores, scattering=law, source="")
        if numbers == dataclasses.replace(self._given, name="", source=""):
            return self._given
        return dataclasses.replace(numbers, source=source_text(chromophores, law))

    def set_value(self, tissue: Composition) -> None:
        """Show another tissue; ``changed`` is emitted once."""
        self._given = tissue
        with QSignalBlocker(self):
            self.absorption.set_value(tissue.chromophores)
            self._rest.set_value(tissue)
            self._law.setCurrentIndex(max(self._law.findData(tissue.scattering.name), 0))
            self.scattering.set_value(_rounded(tissue.scattering))
        self._on_form()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._tissue.setToolTip("Fill in the composition of a tissue from the literature")
        self._law.setToolTip("Fill in the scattering of a tissue from the literature")
        start = QFormLayout()
        start.addRow("Start from", self._tissue)
        law = QFormLayout()
        law.addRow("Scattering of", self._law)
        columns = QHBoxLayout()
        for title, first, forms in (
            ("Absorption: volume fractions", start, (self.absorption,)),
            ("Scattering", law, (self.scattering, self._rest)),
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
        shown, given = self.scattering.value(), self._given.scattering
        named = [power_law(name)] if (name := self._law.currentData()) else []
        same = (law for law in (given, *named) if _rounded(law) == _rounded(shown))
        return next(same, PowerLaw(a_per_mm=shown.a_per_mm, b=shown.b))

    def _on_form(self) -> None:
        """Update the boxes that had filled in the numbers."""
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
            self.scattering.set_value(_rounded(power_law(name)))


def _rounded(law: PowerLaw) -> PowerLaw:
    """The law's two numbers as they are shown."""
    return PowerLaw(a_per_mm=round(law.a_per_mm, _POWER_LAW_DECIMALS), b=round(law.b, _POWER_LAW_DECIMALS))


def _box(names: Iterable[str], parent: QWidget) -> QComboBox:
    return ElidedComboBox(parent, characters=12, entries={"": _OWN} | {name: name for name in names})


_Numbers = tuple[float, float, float, float]


def origins(media: Iterable[Medium], wavelength_nm: float) -> tuple[dict[int, Preset | Composition], float]:
    """Return the presets that gave properties, by label, and the wavelength that most are for.

    Properties are a preset's if the numbers are, to the last digit, and the source begins with the preset's. Only the
    wavelengths of the presets' tables and the given one are searched; without a match, the given one is returned.
    """
    found = {medium.label: dict(_origins_of(medium, wavelength_nm)) for medium in media}
    votes = Counter(nm for by_wavelength in found.values() for nm in by_wavelength)
    best = max(votes, key=lambda nm: (votes[nm], nm == wavelength_nm), default=wavelength_nm)
    return {label: by_wavelength[best] for label, by_wavelength in found.items() if best in by_wavelength}, best


def _origins_of(medium: Medium, wavelength_nm: float) -> Iterator[tuple[float, Preset | Composition]]:
    """Wavelengths and presets that give a medium; of those that give the same, its namesake comes last."""
    alike = [*_in_tables().get(_numbers(medium), ()), *_at(wavelength_nm).get(_numbers(medium), ())]
    for name, nm in sorted(alike, key=lambda one: one[0].startswith(medium.name)):
        recipe = preset_recipe(name)
        source = recipe.citation if isinstance(recipe, Preset) else recipe.source
        if source and medium.source.startswith(source):
            yield nm, recipe


@cache
def _in_tables() -> dict[_Numbers, list[tuple[str, float]]]:
    """Names and wavelengths of the rows of all tables, by their numbers."""
    found: dict[_Numbers, list[tuple[str, float]]] = {}
    for name in preset_names():
        recipe = preset_recipe(name)
        for row in recipe.rows if isinstance(recipe, Preset) else ():
            found.setdefault(row[1:5], []).append((name, row.wavelength_nm))
    return found


@cache
def _at(wavelength_nm: float) -> dict[_Numbers, list[tuple[str, float]]]:
    """Names of the presets that are known at a wavelength, by their numbers."""
    found: dict[_Numbers, list[tuple[str, float]]] = {}
    for name in preset_names(wavelength_nm):
        found.setdefault(_numbers(preset_recipe(name).medium(wavelength_nm)), []).append((name, wavelength_nm))
    return found


def _numbers(medium: Medium) -> _Numbers:
    return medium.mua_per_mm, medium.mus_per_mm, medium.g, medium.n
