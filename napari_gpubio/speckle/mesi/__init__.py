"""Multi-exposure speckle imaging: correlation times and static fractions from contrast at several exposures."""

from napari_gpubio.speckle.mesi.calibration import BetaMeasurement, measure_beta
from napari_gpubio.speckle.mesi.files import write_fit
from napari_gpubio.speckle.mesi.model import (
    FittedBeta,
    GivenBeta,
    MesiRecipe,
    MesiSettings,
    exposure_contrast,
    squared_contrast,
)
from napari_gpubio.speckle.mesi.result import MesiResult
from napari_gpubio.speckle.mesi.run import fit_mesi, fit_mesi_steps, static_fraction

__all__ = [
    "BetaMeasurement",
    "FittedBeta",
    "GivenBeta",
    "MesiRecipe",
    "MesiResult",
    "MesiSettings",
    "exposure_contrast",
    "fit_mesi",
    "fit_mesi_steps",
    "measure_beta",
    "squared_contrast",
    "static_fraction",
    "write_fit",
]
