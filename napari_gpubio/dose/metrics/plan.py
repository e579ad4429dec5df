"""Two plans compared."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.metrics.metric import Metric


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
    first: Iterable[Dvh],
    second: Iterable[Dvh],
    metrics: Sequence[Metric],
    *,
    reference_dose: float | None = None,
    everything: tuple[Dvh | None, Dvh | None] = (None, None),
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
    everything
        Histograms of all that is irradiated, of both plans, where a metric needs them; see
        `napari_gpubio.dose.whole_dose`.
    """
    others = {dvh.name: dvh for dvh in second}
    return tuple(_difference(a, others[a.name], metrics, reference_dose, everything) for a in first if a.name in others)


def _difference(
    a: Dvh,
    b: Dvh,
    metrics: Sequence[Metric],
    reference_dose: float | None,
    everything: tuple[Dvh | None, Dvh | None],
) -> Difference:
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
        first=tuple(metric.of(a, reference_dose, everything=everything[0]) for metric in metrics),
        second=tuple(metric.of(b, reference_dose, everything=everything[1]) for metric in metrics),
        largest_percent=largest,
        at_dose=dose,
    )
