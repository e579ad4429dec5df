"""A small plot of mu_a and mu_s' over the wavelength."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.tissue import Composition, Preset
from napari_gpubio.light.widget.property_rows import UNITS

TissueRecipe = Preset | Composition
COLOURS = {"µa": "#ffb454", "µs′": "#4cc9f0"}
_STEP_NM = 5.0


class PresetPlot(pyqtgraph.PlotWidget):
    """mu_a and mu_s' of a recipe, with a mark at the wavelength and dots where a table has its rows.

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
        self.setLabel("bottom", "wavelength (nm)")
        self.setLabel("left", f"{unit}, logarithmic")
        self.getAxis("left").enableAutoSIPrefix(False)
        self.getAxis("bottom").enableAutoSIPrefix(False)
        legend = self.addLegend(offset=(-6, 6))
        self._curves = {name: self._curve(name, colour) for name, colour in COLOURS.items()}
        legend.setBrush(None)
        self._mark = pyqtgraph.InfiniteLine(pen=pyqtgraph.mkPen("#9a9da5", style=pyqtgraph.QtCore.Qt.PenStyle.DashLine))
        self.addItem(self._mark)

    def show_recipe(self, recipe: TissueRecipe | None, wavelength_nm: float) -> None:
        """Draw a recipe, or nothing but the wavelength."""
        self._mark.setValue(wavelength_nm)
        at = np.empty(0) if recipe is None else sample_wavelengths(recipe)
        rows = recipe.rows if isinstance(recipe, Preset) else ()
        is_row = np.isin(at, [row.wavelength_nm for row in rows])
        for curve, values in zip(self._curves.values(), spectra(recipe, at), strict=True):
            curve.setData(at, values * self._factor, connect="finite", symbolSize=np.where(is_row, 6, 0))

    def _curve(self, name: str, colour: str) -> pyqtgraph.PlotDataItem:
        return self.plot([], [], name=name, pen=pyqtgraph.mkPen(colour, width=1), symbol="o", symbolSize=0,
                         symbolBrush=colour, symbolPen=None)  # fmt: skip


def sample_wavelengths(recipe: TissueRecipe) -> npt.NDArray[np.float64]:
    """Wavelengths at which a recipe is drawn, nm: those of its table, and steps between."""
    low, high = recipe.range_nm
    rows: Sequence[float] = [row.wavelength_nm for row in recipe.rows] if isinstance(recipe, Preset) else []
    return np.unique(np.concatenate([np.arange(low, high + _STEP_NM / 2, _STEP_NM), rows]))


def spectra(recipe: TissueRecipe | None, wavelengths_nm: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """mu_a and mu_s' in 1/mm, shape (2, wavelengths); NaN where the recipe has none, or 0, which has no logarithm."""
    found = np.full((2, len(wavelengths_nm)), math.nan)
    for index, wavelength in enumerate(wavelengths_nm if recipe is not None else ()):
        try:
            medium = recipe.medium(float(wavelength))
        except InvalidInput:
            continue
        found[:, index] = medium.mua_per_mm, medium.musp_per_mm
    return np.where(found > 0, found, math.nan)
