"""Dose-surface histograms as curves."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.dose.metrics.curve import Dvh

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class SurfaceHistogram(ShortRepr):
    """The cumulative dose-surface histogram of one structure.

    Parameters
    ----------
    name
        Of the structure.
    unit
        Of the dose.
    doses, areas_cm2
        The curve: ``areas_cm2`` receives at least ``doses``; ascending dose, falling area, shape (N,) each. Both are
        empty for a structure without a surface.
    mean
        Mean dose of the surface, NaN without one.
    outside_cm2
        Area outside the dose grid, treated as the settings say.
    color
        Red, green, blue, 0 to 255, where it is known.
    resolution_mm
        Width of the Gaussian: details of the surface that are smaller are lost.
    notes
        In sentences.
    """

    name: str
    unit: str
    doses: Array
    areas_cm2: Array
    mean: float
    outside_cm2: float = 0.0
    color: tuple[int, int, int] | None = None
    resolution_mm: float = 0.0
    notes: tuple[str, ...] = ()
    _curve: Dvh = field(init=False, repr=False)

    def __post_init__(self) -> None:
        curve = Dvh(name=self.name, unit=self.unit, doses=self.doses, volumes_cc=self.areas_cm2, mean=self.mean)
        object.__setattr__(self, "_curve", curve)

    @property
    def area_cm2(self) -> float:
        """All of the area of the curve."""
        return self._curve.volume_cc

    @property
    def least(self) -> float:
        """Least dose; NaN for a structure without a surface."""
        return self._curve.least

    @property
    def largest(self) -> float:
        """Largest dose; NaN for a structure without a surface."""
        return self._curve.largest

    def area_at(self, dose: npt.ArrayLike) -> Array:
        """Area that receives at least a dose, cm²."""
        return np.asarray(self._curve.volume_at(dose))

    def percent_at(self, dose: npt.ArrayLike) -> Array:
        """Area that receives at least a dose, in % of all."""
        return np.asarray(self._curve.percent_at(dose))

    def dose_at_percent(self, percent: npt.ArrayLike) -> Array:
        """Dose that a share of the area receives at least."""
        return np.asarray(self._curve.dose_at_percent(percent))
