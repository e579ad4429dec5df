"""What is on the axes of the plot: units, logarithm, cumulative or differential. It knows no Qt."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.metrics.curve import Dvh

Array = npt.NDArray[np.float64]
INTERVALS = 100  # of a differential histogram
DECADES = 6.0  # of a logarithmic axis, at most
NO_REFERENCE = "give a prescription to see doses in % of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """How histograms are drawn.

    Parameters
    ----------
    unit
        Of the dose.
    reference
        The prescription, in that unit; None: there is none.
    relative_dose, relative_volume
        In % instead of units of the dose and cc.
    logarithmic
        The dose.
    differential
        Volume in dose intervals, instead of volume above a dose.
    """

    unit: str = ""
    reference: float | None = None
    relative_dose: bool = False
    relative_volume: bool = True
    logarithmic: bool = False
    differential: bool = False

    @property
    def percent_reference(self) -> float | None:
        """What doses are shown in % of; None: in units."""
        return self.reference if self.relative_dose else None

    @property
    def dose_unit(self) -> str:
        """Of the dose axis."""
        return "%" if self.percent_reference else self.unit

    @property
    def volume_unit(self) -> str:
        """Of the volume axis."""
        return "%" if self.relative_volume else "cc"

    @property
    def dose_text(self) -> str:
        """What stands below the plot."""
        if self.percent_reference:
            return f"Dose (% of {self.percent_reference:.4g} {self.unit})"
        return f"Dose ({self.unit})" if self.unit else "Dose"

    @property
    def volume_text(self) -> str:
        """What stands beside the plot."""
        return f"{'Per interval' if self.differential else 'Volume'} ({self.volume_unit})"

    def place_of_dose(self, dose: npt.ArrayLike) -> Any:
        """Where a dose (in its unit) is on the axis; doses without logarithm are far to the left."""
        shown = np.asarray(dose, np.float64) * self._factor
        if not self.logarithmic:
            return shown[()]
        return np.log10(np.maximum(shown, 1e-300))[()]

    def dose_at_place(self, place: npt.ArrayLike) -> Any:
        """The dose (in its unit) at a place on the axis."""
        shown = np.asarray(place, np.float64)
        return ((10.0**shown if self.logarithmic else shown) / self._factor)[()]

    @property
    def _factor(self) -> float:
        return 100.0 / self.percent_reference if self.percent_reference else 1.0

    def curve(self, dvh: Dvh, start: float, edges: Array) -> tuple[Array, Array]:
        """Places and volumes of a curve; of a differential one, one place more than volumes.

        Parameters
        ----------
        dvh
            The histogram.
        start
            Dose at which a logarithmic axis begins.
        edges
            Of the dose intervals of a differential histogram.
        """
        relative = self.relative_volume
        if self.differential:
            return self.place_of_dose(edges), dvh.differential(edges, relative_volume=relative).volumes
        doses, volumes = dvh.curve(relative_volume=relative)
        if self.logarithmic:
            later = doses > start
            first = float(dvh.volume_at(start)) * (100.0 / dvh.volume_cc if relative and dvh.volume_cc else 1.0)
            doses, volumes = np.append(start, doses[later]), np.append(first, volumes[later])
        return self.place_of_dose(doses), volumes


def thinned(x: Array, y: Array, steps: int) -> tuple[Array, Array]:
    """Points of a curve that look like all of them: one in each small step along it, both ends of larger ones.

    There are as many steps along its width, and along its height. Drawing all points of 30 curves takes longer than all
    else that follows a stroke of the brush.
    """
    if len(x) != len(y) or len(x) <= steps:
        return x, y
    along = np.abs(np.diff(x)) / (np.ptp(x) or 1.0) + np.abs(np.diff(y)) / (np.ptp(y) or 1.0)
    number = np.floor(steps * np.concatenate([[0.0], np.cumsum(along)]))
    further = np.diff(number)
    kept = np.append(True, further > 0) | np.append(further > 1, True)
    return x[kept], y[kept]


def interval_words(edges: Array, axes: Axes) -> str:
    """How wide the intervals of a differential histogram are, for the dose axis."""
    if axes.logarithmic:
        return f", {len(edges) - 1} intervals of equal ratio"
    factor = 100.0 / axes.percent_reference if axes.percent_reference else 1.0
    return f", intervals of {factor * (edges[1] - edges[0]):.3g} {axes.dose_unit}"


def log_start(dvhs: Sequence[Dvh]) -> float:
    """The dose at which a logarithmic axis begins: the least that is positive, but not too many decades below the top.

    Returns
    -------
    float
        1 if no dose is positive.
    """
    positive = [float(dvh.doses[dvh.doses > 0][0]) for dvh in dvhs if (dvh.doses > 0).any()]
    top = max((dvh.largest for dvh in dvhs if not dvh.is_empty), default=0.0)
    return max(min(positive), top * 10**-DECADES) if positive else 1.0


def interval_edges(dvhs: Sequence[Dvh], axes: Axes) -> Array:
    """Edges of the same dose intervals for all histograms."""
    used = [dvh for dvh in dvhs if not dvh.is_empty]
    top = max((dvh.largest for dvh in used), default=1.0)
    least = min((dvh.least for dvh in used), default=0.0)
    if axes.logarithmic and top > 0:
        first = math.log10(log_start(used))
        edges = np.logspace(first, max(math.log10(top), first + 1e-6), INTERVALS + 1)
    else:
        edges = np.linspace(min(0.0, least), top if top > least else least + 1.0, INTERVALS + 1)
    edges[-1] = max(edges[-1], np.nextafter(top, np.inf))  # the last interval holds the largest dose
    return np.asarray(edges, np.float64)
