"""Choose optical properties for rows of a table: a tissue from the literature, or a composition of chromophores."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDialog, QDialogButtonBox, QTabWidget, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import Label, row_of
from napari_gpubio.gui.plots import ThemedPlot
from napari_gpubio.optics.gui.optical_rows import COEFFICIENT, PropertyRow
from napari_gpubio.optics.gui.preset_tissues import CompositionForm, TissueList
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.tissue import Composition, Preset, preset_names

COLORS = {"µa": "WARNING", "µs′": "ACCENT"}  # of the theme
_STEP_NM, _MARGIN_NM = 5.0, 15.0
_EMPTY_NM, _EMPTY_DECADES = (400.0, 1000.0), (-3, 1)


class PresetPlot(ThemedPlot):
    """µa and µs′ of a recipe, with a line at the wavelength and dots at tabulated wavelengths."""

    grid = False

    def __init__(self, unit: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._factor = float(COEFFICIENT[unit][1])
        self.setMinimumHeight(150)
        self.setMouseEnabled(x=False, y=False)
        self.setLogMode(x=False, y=True)
        colors = {name: getattr(theme, color) for name, color in COLORS.items()}
        names = " and ".join(f'<span style="color: {color}">{name}</span>' for name, color in colors.items())
        self.setTitle(f"{names} ({unit}) over the wavelength (nm)", size="9pt", color=theme.TEXT)
        self.curves = [self._curve(color) for color in colors.values()]
        self.line = pyqtgraph.InfiniteLine(pen=pyqtgraph.mkPen(theme.MUTED, style=Qt.PenStyle.DashLine))
        self.addItem(self.line)

    def show_recipe(self, recipe: Preset | Composition | None, wavelength_nm: float) -> None:
        """Draw a recipe, or nothing but the wavelength."""
        self.line.setValue(wavelength_nm)
        at = sample_wavelengths(recipe)
        values = np.empty((2, 0)) if recipe is None else self._factor * spectra(recipe, at)
        is_row = np.isin(at, table_wavelengths(recipe))
        for curve, one in zip(self.curves, values, strict=True):
            curve.setData(at, one, connect="finite", symbolSize=np.where(is_row, 6, 0))
        self._set_range([*at, wavelength_nm], values[np.isfinite(values)])

    def _set_range(self, wavelengths_nm: list[float], values: npt.NDArray[np.float64]) -> None:
        """Show whole decades, so that the axis has few and round numbers."""
        across = wavelengths_nm if len(wavelengths_nm) > 1 else [*wavelengths_nm, *_EMPTY_NM]
        low, high = _EMPTY_DECADES
        if len(values):
            low, high = math.floor(math.log10(values.min())), math.ceil(math.log10(values.max()) + 1e-9)
        high = max(high, low + 1)
        self.setXRange(min(across) - _MARGIN_NM, max(across) + _MARGIN_NM, padding=0)
        self.setYRange(low, high, padding=0.04)
        self.getAxis("left").setTicks(decade_ticks(int(low), int(high)))

    def _curve(self, color: str) -> pyqtgraph.PlotDataItem:
        return self.plot([], [], pen=pyqtgraph.mkPen(color, width=1), symbol="o", symbolBrush=color, symbolPen=None)


def decade_ticks(low: int, high: int) -> list[list[tuple[float, str]]]:
    """Ticks of a logarithmic axis: the decades with their numbers, and 2 to 9 of each without."""
    decades = range(low, high + 1)
    return [
        [(float(decade), f"{10.0**decade:g}") for decade in decades],
        [(decade + math.log10(part), "") for decade in decades[:-1] for part in range(2, 10)],
    ]


def table_wavelengths(recipe: Preset | Composition | None) -> list[float]:
    """Wavelengths at which a preset is tabulated, nm."""
    return [row.wavelength_nm for row in recipe.rows] if isinstance(recipe, Preset) else []


def sample_wavelengths(recipe: Preset | Composition | None) -> npt.NDArray[np.float64]:
    """Wavelengths at which a recipe is drawn, nm: those of its table, and steps between."""
    if recipe is None:
        return np.empty(0)
    low, high = recipe.range_nm
    return np.unique([*np.arange(low, high, _STEP_NM), high, *table_wavelengths(recipe)])


def spectra(recipe: Preset | Composition, wavelengths_nm: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """mu_a and mu_s' in 1/mm, shape (2, wavelengths); NaN where they are not known, or 0, which has no logarithm."""
    found = np.full((2, len(wavelengths_nm)), math.nan)
    for index, wavelength in enumerate(wavelengths_nm):
        with contextlib.suppress(InvalidInput):  # a table may have gaps
            medium = recipe.medium(float(wavelength))
            found[:, index] = medium.mua_per_mm, medium.musp_per_mm
    return np.where(found > 0, found, math.nan)


SHORTEST_NM, LONGEST_NM = 300.0, 1100.0
CHOOSE = "Choose a tissue."


def wavelength_box(wavelength_nm: float, parent: QWidget) -> NumberBox:
    """Make an input of a wavelength in nm."""
    return NumberBox(SHORTEST_NM, LONGEST_NM, wavelength_nm, 1, parent, step=10.0, unit="nm", arrows=True)


class PresetDialog(QDialog):
    """Two tabs, the choice in numbers, and its spectrum; ``word`` is ``label`` or ``layer``.

    It opens at what fills the rows now, or at a tissue of their name.
    """

    def __init__(
        self,
        rows: Sequence[PropertyRow],
        wavelength_nm: float,
        unit: str = "1/mm",
        parent: QWidget | None = None,
        *,
        word: str = "label",
    ) -> None:
        super().__init__(parent)
        self._unit = unit
        name = f" ({rows[0].name})" if len(rows) == 1 and rows[0].name else ""
        self.setWindowTitle(f"Optical properties of {_described(rows, word)}{name}")
        self.wavelength_box = wavelength_box(wavelength_nm, self)
        self.tissues = TissueList(unit, self)
        self.composition = CompositionForm(self)
        self._tabs = QTabWidget(self)
        self._tabs.addTab(self.tissues, "Tissue")
        self._tabs.addTab(self.composition, "From chromophores")
        self._plot = PresetPlot(unit, self)
        self._text = Label(self, wordWrap=True)
        self._buttons = QDialogButtonBox(self)
        self._use = self._buttons.addButton(f"Use for {_described(rows, word)}", QDialogButtonBox.ButtonRole.AcceptRole)
        self._buttons.addButton("Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        self._build()
        self._connect()
        self.tissues.show_wavelength(self.wavelength_nm)
        self._open_at(rows[0])
        self._show_choice()

    @property
    def wavelength_nm(self) -> float:
        """The chosen wavelength."""
        return self.wavelength_box.value()

    @property
    def recipe(self) -> Preset | Composition | None:
        """What is chosen, or None while nothing is that has properties at the wavelength."""
        recipe, medium, _ = self._choice()
        return None if medium is None else recipe

    @property
    def text(self) -> str:
        """The choice in numbers, or why there are none."""
        return self._text.text()

    def show_tab(self, *, chromophores: bool) -> None:
        """Show one of the two tabs."""
        self._tabs.setCurrentWidget(self.composition if chromophores else self.tissues)

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        shared = Label("of every row that comes from a preset", self)
        shared.setStyleSheet(theme.MUTED_STYLE)
        layout = QVBoxLayout(self)
        layout.addLayout(row_of(Label("Wavelength", self), self.wavelength_box, shared, None))
        layout.addWidget(self._tabs, 3)
        layout.addWidget(self._text)
        layout.addWidget(self._plot, 2)
        layout.addWidget(self._buttons)
        self.resize(780, 660)

    def _connect(self) -> None:
        self.wavelength_box.valueChanged.connect(self.tissues.show_wavelength)
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
        self._text.setStyleSheet(theme.MISSING_STYLE if medium is None else "")
        self._text.setText(problem if medium is None else medium_text(medium, self._unit))
        self._plot.show_recipe(recipe, self.wavelength_nm)


def medium_text(medium: Medium, unit: str) -> str:
    """Return properties and their source in two lines."""
    row = PropertyRow.of(medium)
    names = {"mua_per_mm": "µa", "mus_per_mm": "µs", "musp_per_mm": "µs′"}
    coefficients = "   ".join(f"{name} {row.short_text(field, unit)} {unit}" for field, name in names.items())
    return f"{coefficients}   g {row.short_text('g')}   n {row.short_text('n')}\n{medium.source}"


def _described(rows: Sequence[PropertyRow], word: str) -> str:
    return f"{word} {rows[0].label}" if len(rows) == 1 else f"{len(rows)} {word}s"
