"""Indices of a plan, and two plans compared."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.curves.dvh import Dvh
from napari_gpubio.dose.curves.metric import Metric


def homogeneity_index(dvh: Dvh) -> float:
    """(D2% - D98%) / D50% of a target, 0 at best (ICRU Report 83); NaN without volume or with D50% = 0."""
    hot, cold, middle = (float(dvh.dose_at_percent(percent)) for percent in (2.0, 98.0, 50.0))
    return (hot - cold) / middle if middle else math.nan


def paddick_index(target: Dvh, everything: Dvh, prescription: float) -> float:
    """Conformity, TV_PIV^2 / (TV PIV), 1 at best (Paddick 2000, J. Neurosurg. 93 Suppl 3:219).

    Parameters
    ----------
    target
        Histogram of the target: TV is its volume, TV_PIV what of it has the prescription.
    everything
        Histogram of all that is irradiated, for instance of `napari_gpubio.dose.whole_grid`: PIV is its volume with
        the prescription.
    prescription
        In units of the dose.

    Returns
    -------
    float
        NaN if the target is empty or no volume has the prescription.
    """
    if not (math.isfinite(prescription) and prescription > 0):
        raise InvalidInput(f"the prescription is {prescription!r}; give a positive dose in {target.unit}")
    if target.unit != everything.unit:
        raise InvalidInput(f"the target's doses are in {target.unit} and the others in {everything.unit}")
    inside, isodose = float(target.volume_at(prescription)), float(everything.volume_at(prescription))
    product = target.volume_cc * isodose
    return inside**2 / product if product > 0 else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two histograms of one structure.

    Parameters
    ----------
    name
        Of the structure.
    first, second
        Metrics of both, in the order that was asked for.
    largest_percent
        Largest distance of the curves in % of volume: second minus first.
    at_dose
        Where that is.
    """

    name: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    largest_percent: float
    at_dose: float

    @property
    def change(self) -> tuple[float, ...]:
        """Second minus first."""
        return tuple(b - a for a, b in zip(self.first, self.second, strict=True))


def compare(
    first: Iterable[Dvh], second: Iterable[Dvh], metrics: Sequence[Metric], *, reference_dose: float | None = None
) -> tuple[Difference, ...]:
    """Compare two plans, structure by structure; those that only one of them has are left out.

    Parameters
    ----------
    first, second
        Histograms of both plans, in one unit of dose.
    metrics
        What is compared besides the curves.
    reference_dose
        What % of dose are of, in the histograms' unit.
    """
    others = {dvh.name: dvh for dvh in second}
    return tuple(_difference(a, others[a.name], metrics, reference_dose) for a in first if a.name in others)


def _difference(a: Dvh, b: Dvh, metrics: Sequence[Metric], reference_dose: float | None) -> Difference:
    if a.unit != b.unit:
        raise InvalidInput(f"{a.name!r} is in {a.unit} in one plan and in {b.unit} in the other; scale one of them")
    largest, dose = math.nan, math.nan
    if not (a.is_empty or b.is_empty):
        doses = np.union1d(a.doses, b.doses)
        doses = np.concatenate([doses, np.nextafter(doses, np.inf)])  # and just beyond steps
        apart = b.percent_at(doses) - a.percent_at(doses)
        worst = int(np.abs(apart).argmax())
        largest, dose = float(apart[worst]), float(doses[worst])
    return Difference(
        name=a.name,
        first=tuple(metric.of(a, reference_dose) for metric in metrics),
        second=tuple(metric.of(b, reference_dose) for metric in metrics),
        largest_percent=largest,
        at_dose=dose,
    )
