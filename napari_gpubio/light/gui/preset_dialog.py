"""Choose optical properties for rows of the table: a tissue of the literature, or what a tissue is made of."""

from collections.abc import Sequence
from typing import Any

from qtpy.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.light.gui.preset_composition import CompositionForm
from napari_gpubio.light.gui.preset_plot import PresetPlot
from napari_gpubio.light.gui.preset_tissues import TissueList
from napari_gpubio.light.gui.property_rows import PropertyRow
from napari_gpubio.light.model import Medium
from napari_gpubio.light.tissue import Composition, Preset, preset_names

SHORTEST_NM, LONGEST_NM = 300.0, 1100.0
CHOOSE = "Choose a tissue."
_GOOD, _BAD = "", "color: #d6942a;"


def wavelength_box(wavelength_nm: float, parent: QWidget) -> NumberBox:
    """Make an input of a wavelength in nm."""
    return NumberBox(SHORTEST_NM, LONGEST_NM, wavelength_nm, 1, parent, step=10.0, unit="nm", arrows=True)


class PresetDialog(QDialog):
    """Two tabs, what is chosen in numbers, and its spectrum.

    Parameters
    ----------
    rows
        The rows that will be filled; the dialog opens at what fills them now, or at a tissue of their name.
    wavelength_nm
        The wavelength to begin with.
    unit
        Of the coefficients on screen, ``1/mm`` or ``1/cm``.
    """

    def __init__(
        self, rows: Sequence[PropertyRow], wavelength_nm: float, unit: str = "1/mm", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._unit = unit
        self.setWindowTitle("Optical properties of " + (rows[0].title if len(rows) == 1 else f"{len(rows)} labels"))
        self._wavelength = wavelength_box(wavelength_nm, self)
        self.tissues = TissueList(unit, self)
        self.composition = CompositionForm(self)
        self._tabs = QTabWidget(self)
        self._tabs.addTab(self.tissues, "Tissue")
        self._tabs.addTab(self.composition, "From chromophores")
        self._plot = PresetPlot(unit, self)
        self._text = QLabel(self)
        self._text.setWordWrap(True)
        self._buttons = QDialogButtonBox(self)
        self._use = self._buttons.addButton(f"Use for {_labels(rows)}", QDialogButtonBox.ButtonRole.AcceptRole)
        self._buttons.addButton("Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        self._build()
        self._connect()
        self.tissues.show_wavelength(self.wavelength_nm)
        self._open_at(rows[0])
        self._show_choice()

    @property
    def wavelength_nm(self) -> float:
        """The chosen wavelength."""
        return self._wavelength.value()

    @property
    def recipe(self) -> Preset | Composition | None:
        """What is chosen, or None while nothing is that has properties at the wavelength."""
        recipe, medium, _ = self._choice()
        return None if medium is None else recipe

    @property
    def text(self) -> str:
        """What is said of the choice."""
        return self._text.text()

    def show_tab(self, *, chromophores: bool) -> None:
        """Show one of the two tabs."""
        self._tabs.setCurrentWidget(self.composition if chromophores else self.tissues)

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        shared = QLabel("of every row that comes from a preset", self)
        shared.setStyleSheet("color: #8b8e95;")
        top = QHBoxLayout()
        top.addWidget(QLabel("Wavelength", self))
        top.addWidget(self._wavelength)
        top.addWidget(shared)
        top.addStretch(1)
        layout = QVBoxLayout(self)
        layout.addLayout(top)
        layout.addWidget(self._tabs, 3)
        layout.addWidget(self._text)
        layout.addWidget(self._plot, 2)
        layout.addWidget(self._buttons)
        self.resize(780, 660)

    def _connect(self) -> None:
        self._wavelength.valueChanged.connect(self.tissues.show_wavelength)
        for part in (self.tissues.changed, self.composition.changed, self._tabs.currentChanged):
            part.connect(self._show_choice)
        self.tissues.accepted.connect(self._use.click)
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)

    def _open_at(self, row: PropertyRow) -> None:
        if isinstance(row.recipe, Composition):
            self.composition.set_value(row.recipe)
            self.show_tab(chromophores=row.recipe.name not in preset_names())
        if isinstance(row.recipe, Preset | Composition):
            self.tissues.choose(row.recipe.name)
        elif row.name:
            like = (name for name in preset_names(self.wavelength_nm) if row.name.lower() in name.lower())
            self.tissues.choose(next(like, ""))

    def _choice(self) -> tuple[Preset | Composition | None, Medium | None, str]:
        """What is chosen, its properties at the wavelength, and why there are none."""
        recipe = None
        try:
            by_tissue = self._tabs.currentWidget() is self.tissues
            recipe = self.tissues.recipe if by_tissue else self.composition.value()
            return (None, None, CHOOSE) if recipe is None else (recipe, recipe.medium(self.wavelength_nm), "")
        except InvalidInput as error:
            return recipe, None, str(error)

    def _show_choice(self, *_: Any) -> None:
        recipe, medium, problem = self._choice()
        self._use.setEnabled(medium is not None)
        self._text.setStyleSheet(_BAD if medium is None else _GOOD)
        self._text.setText(problem if medium is None else medium_text(medium, self._unit))
        self._plot.show_recipe(recipe, self.wavelength_nm)


def medium_text(medium: Medium, unit: str) -> str:
    """Return properties and their source in two lines."""
    row = PropertyRow.of(medium)
    names = {"mua_per_mm": "µa", "mus_per_mm": "µs", "musp_per_mm": "µs′"}
    coefficients = "   ".join(f"{name} {row.short_text(field, unit)} {unit}" for field, name in names.items())
    return f"{coefficients}   g {row.short_text('g')}   n {row.short_text('n')}\n{medium.source}"


def _labels(rows: Sequence[PropertyRow]) -> str:
    return f"label {rows[0].label}" if len(rows) == 1 else f"{len(rows)} labels"
