"""A small plot of mu_a and mu_s' over the wavelength."""

import math

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.gui.property_rows import UNITS
from napari_gpubio.light.tissue import Composition, Preset

COLORS = {"µa": "#ffb454", "µs′": "#4cc9f0"}
_STEP_NM, _MARGIN_NM = 5.0, 15.0
_EMPTY_NM, _EMPTY_DECADES = (400.0, 1000.0), (-3, 1)


class PresetPlot(pyqtgraph.PlotWidget):
    """mu_a and mu_s' of a recipe, with a line at the wavelength and dots where a table has its rows.

    Parameters
    ----------
    unit
        Of the coefficients, a key of `UNITS`.
    """

    def __init__(self, unit: str, parent: QWidget | None = None) -> None:
        super().__init__(parent, background=None)
        self._factor = UNITS[unit]
        self.setMinimumHeight(150)
        self.setMouseEnabled(x=False, y=False)
        self.setMenuEnabled(False)
        self.hideButtons()
        self.setLogMode(x=False, y=True)
        names = " and ".join(f'<span style="color: {color}">{name}</span>' for name, color in COLORS.items())
        self.setTitle(f"{names} ({unit}) over the wavelength (nm)", size="9pt")
        self._curves = [self._curve(color) for color in COLORS.values()]
        self._line = pyqtgraph.InfiniteLine(pen=pyqtgraph.mkPen("#8b8e95", style=Qt.PenStyle.DashLine))
        self.addItem(self._line)

    def show_recipe(self, recipe: Preset | Composition | None, wavelength_nm: float) -> None:
        """Draw a recipe, or nothing but the wavelength."""
        self._line.setValue(wavelength_nm)
        at = sample_wavelengths(recipe)
        values = spectra(recipe, at) * self._factor
        is_row = np.isin(at, table_wavelengths(recipe))
        for curve, one in zip(self._curves, values, strict=True):
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


def spectra(recipe: Preset | Composition | None, wavelengths_nm: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """mu_a and mu_s' in 1/mm, shape (2, wavelengths); NaN where they are not known, or 0, which has no logarithm."""
    found = np.full((2, len(wavelengths_nm)), math.nan)
    for index, wavelength in enumerate(wavelengths_nm):
        found[:, index] = _pair(recipe, float(wavelength))
    return np.where(found > 0, found, math.nan)


def _pair(recipe: Preset | Composition | None, wavelength_nm: float) -> tuple[float, float]:
    try:
        medium = None if recipe is None else recipe.medium(wavelength_nm)
    except InvalidInput:
        medium = None
    return (math.nan, math.nan) if medium is None else (medium.mua_per_mm, medium.musp_per_mm)
