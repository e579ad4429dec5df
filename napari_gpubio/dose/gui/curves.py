"""Curves on screen, their metrics, the axes they are drawn on, and the texts of the readout. No Qt."""

import dataclasses
import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.numbers import MAX_FIGURES, figures_of, short_number
from napari_gpubio.dose.bands import HALVES, TOGETHER, DvhBand
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.metrics.metric import Metric, MetricValue, evaluate_metric

Array = npt.NDArray[np.float64]
INTERVALS = 100  # of a differential histogram
DECADES = 12.0  # of a logarithmic axis, at most
LIMIT_FIGURES = 3  # of the lowest dose counted: its bin is that wide
_BANDS = {HALVES: "from two halves of the photons", TOGETHER: "all voxels together (the widest)"}
MAX_LINES = 12  # structures in the readout
NO_REFERENCE = "enter a prescription to see doses in % of it"
SECOND_PLAN = "dashed: second plan"  # in legends
PENDING = "the whole dose is being counted"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Curve:
    """A histogram as it is scaled on screen, its color (``#rrggbb``), whether it is of the second plan, its band."""

    dvh: Dvh
    color: str
    second: bool = False
    band: DvhBand | None = None

    @property
    def title(self) -> str:
        """Name of the structure, and the plan where it is the second."""
        return f"{self.dvh.name} (2nd plan)" if self.second else self.dvh.name

    @property
    def zero_text(self) -> str:
        """The share of the volume that received nothing, or nothing where there is none or it is not known."""
        share = self.dvh.zero_percent
        return f"{short_number(share, 3)} % zero" if share else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReader:
    """Reads metrics off curves."""

    reference: float | None = None  # the prescription
    whole_doses: tuple[Dvh, ...] = ()  # histograms of the whole dose of each plan; empty while they are not known
    missing_reason: str = PENDING  # why they are not known

    def read(self, metric: Metric, curve: Curve) -> MetricValue:
        """Return the value of a metric, or the reason why it has none."""
        if metric.needs_everything and not self.whole_doses:
            return MetricValue(reason=self.missing_reason, is_refused=self.missing_reason != PENDING)
        return evaluate_metric(metric, curve.dvh, self.reference, everything=self.whole_dose(second=curve.second))

    def error(self, metric: Metric, curve: Curve) -> float:
        """Return the standard error of a metric by the curve's band; NaN where there is none."""
        if curve.band is None or metric.needs_everything:
            return math.nan
        low, high = (evaluate_metric(metric, one, self.reference).value for one in (curve.band.low, curve.band.high))
        return abs(high - low) / (2 * curve.band.errors)

    def text(self, metric: Metric, curve: Curve, found: MetricValue) -> str:
        """Return a metric's value in as many figures as count."""
        if found.is_limit:
            return below_text(found.below)
        return short_number(found.value, self.figures(metric, curve, found.value))

    def figures(self, metric: Metric, curve: Curve, value: float) -> int:
        """Return how many figures of a metric's value its bin and its error allow."""
        reads_dose = metric.is_on_curve
        dose = value if reads_dose else math.nan
        if reads_dose and metric.unit not in ("", curve.dvh.unit):
            plain = dataclasses.replace(cast("Any", metric), unit="")
            dose = evaluate_metric(plain, curve.dvh, self.reference).value
        step = curve.dvh.step_at(dose) / dose if dose > 0 else 0.0
        error = self.error(metric, curve) / abs(value) if value else 0.0
        return figures_of(max(step, 0.0 if math.isnan(error) else error))

    def whole_dose(self, *, second: bool) -> Dvh | None:
        """Return the histogram of the whole dose of a plan, or None."""
        return self.whole_doses[int(second)] if self.whole_doses else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """How histograms are drawn."""

    unit: str = ""  # unit of the dose
    quantity: str = "dose"  # what is counted
    reference: float | None = None  # the prescription, in that unit; None if there is none
    # whether the axes are in % instead of units of dose and cc; % of dose needs a prescription
    relative_dose: bool = False
    relative_volume: bool = True
    logarithmic: bool = False  # whether the dose axis is logarithmic
    differential: bool = False  # volume in dose intervals instead of volume above a dose

    @property
    def percent_reference(self) -> float | None:
        """The dose that is 100 % on the axis, or None where the axis is in units of dose."""
        return self.reference if self.relative_dose else None

    @property
    def lacks_reference(self) -> bool:
        """Whether doses should be in % of a prescription that is not known."""
        return self.relative_dose and self.reference is None

    @property
    def dose_unit(self) -> str:
        """Unit of the dose axis."""
        return "%" if self.percent_reference else self.unit

    @property
    def volume_unit(self) -> str:
        """Unit of the volume axis."""
        return "%" if self.relative_volume else "cc"

    @property
    def dose_title(self) -> str:
        """Title of the dose axis."""
        name = f"{self.quantity[:1].upper()}{self.quantity[1:]}"
        if self.percent_reference:
            return f"{name} (% of {short_number(self.percent_reference)} {self.unit})"
        return f"{name} ({self.unit})" if self.unit else name

    @property
    def volume_title(self) -> str:
        """Title of the volume axis."""
        return f"{'Per interval' if self.differential else 'Volume'} ({self.volume_unit})"

    def position_of_dose(self, dose: npt.ArrayLike) -> Any:
        """Position of a dose (in its unit) on the axis; on a logarithmic one, doses <= 0 are far to the left."""
        scaled = np.asarray(dose, np.float64) * self._factor
        if not self.logarithmic:
            return scaled[()]
        return np.log10(np.maximum(scaled, 1e-300))[()]

    def dose_at_position(self, position: npt.ArrayLike) -> Any:
        """Dose (in its unit) at a position on the axis."""
        scaled = np.asarray(position, np.float64)
        return ((10.0**scaled if self.logarithmic else scaled) / self._factor)[()]

    @property
    def _factor(self) -> float:
        return 100.0 / self.percent_reference if self.percent_reference else 1.0

    def points_of(self, dvh: Dvh, start: float, edges: Array) -> tuple[Array, Array]:
        """Positions and volumes of a curve, shape (N,) each; a differential curve has N + 1 positions.

        A logarithmic axis begins at the dose ``start``; ``edges`` are those of the intervals of a differential curve.
        """
        relative = self.relative_volume
        if self.differential:
            return self.position_of_dose(edges), dvh.differential(edges, relative_volume=relative).volumes
        doses, volumes = dvh.curve(relative_volume=relative)
        if self.logarithmic:
            later = doses > start
            first = float(dvh.volume_at(start)) * (100.0 / dvh.volume_cc if relative and dvh.volume_cc else 1.0)
            doses, volumes = np.append(start, doses[later]), np.append(first, volumes[later])
        return self.position_of_dose(doses), volumes

    def interval_text(self, edges: Array) -> str:
        """How wide the intervals of a differential histogram are, to be appended to the title of the dose axis."""
        if self.logarithmic:
            return f", {len(edges) - 1} intervals of equal ratio"
        return f", intervals of {short_number(self._factor * (edges[1] - edges[0]), 3)} {self.dose_unit}"


def thin_points(x: Array, y: Array, steps: int) -> tuple[Array, Array]:
    """Return fewer points that look like the whole curve: one in each small step along it, and both ends of edges.

    There are as many steps along its width as along its height. Drawing all points of 30 curves takes longer than
    everything else that follows a stroke of the brush.
    """
    if len(x) != len(y) or len(x) <= steps:
        return x, y
    along = np.abs(np.diff(x)) / (np.ptp(x) or 1.0) + np.abs(np.diff(y)) / (np.ptp(y) or 1.0)
    number = np.floor(steps * np.concatenate([[0.0], np.cumsum(along)]))
    further = np.diff(number)
    kept = np.append(True, further > 0) | np.append(further > 1, True)
    return x[kept], y[kept]


def largest_dose(curves: Iterable[Curve]) -> float:
    """Return the largest dose of all curves, or 0."""
    return max((one.dvh.largest for one in curves if not one.dvh.is_empty), default=0.0)


def log_start(dvhs: Sequence[Dvh]) -> float:
    """Return the dose at which a logarithmic axis begins: the least positive one, at most `DECADES` below the top.

    Returns
    -------
    float
        1 if no dose is positive.
    """
    positive = [float(dvh.doses[dvh.doses > 0][0]) for dvh in dvhs if (dvh.doses > 0).any()]
    top = max((dvh.largest for dvh in dvhs if not dvh.is_empty), default=0.0)
    return max(min(positive), top * 10**-DECADES) if positive else 1.0


def interval_edges(dvhs: Sequence[Dvh], axes: Axes) -> Array:
    """Return the edges of dose intervals that all histograms share, shape (`INTERVALS` + 1,)."""
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


def named_curves(curves: Sequence[Curve]) -> list[tuple[int, Curve]]:
    """Return the curves that a legend names, with their numbers: no empty ones, and each structure once.

    A curve of the second plan is named where the first plan has none of that name.
    """
    drawn = [(number, curve) for number, curve in enumerate(curves) if not curve.dvh.is_empty]
    firsts = {curve.dvh.name for _, curve in drawn if not curve.second}
    return [(number, curve) for number, curve in drawn if not curve.second or curve.dvh.name not in firsts]


# -- the readout ------------------------------------------------------------------------------------------------------


def describe_dose(dose: float, axes: Axes, figures: int = MAX_FIGURES) -> str:
    """A dose with its unit, and in % of the prescription where there is one."""
    percent = f" ({short_number(100 * dose / axes.reference, 3)} %)" if axes.reference else ""
    return f"{short_number(dose, figures)} {axes.unit}{percent}"


def describe_above(curves: Sequence[Curve], dose: float, axes: Axes) -> str:
    """V_x: how much of each structure receives at least a dose."""
    rows = [(curve, *_share_above(curve.dvh, dose)) for curve in curves]
    return _share_list(f"at least {describe_dose(dose, axes)}", rows)


def describe_interval(curves: Sequence[Curve], low: float, high: float, axes: Axes) -> str:
    """V_[low, high]: how much of each structure receives a dose in an interval."""
    rows = [(curve, curve.dvh.band_volume(low, high), curve.dvh.volume_cc) for curve in curves]
    return _share_list(
        f"{describe_dose(low, axes)} to {describe_dose(high, axes)}",
        [(curve, 100 * volume / whole if whole else math.nan, volume) for curve, volume, whole in rows],
    )


def describe_dose_at_volume(curves: Sequence[Curve], volume: float, axes: Axes) -> str:
    """D_x: the dose that a volume (in % or cc, as on the axis) of each structure receives at least."""
    parts = []
    for curve in curves:
        dvh = curve.dvh
        dose = float(dvh.dose_at_percent(volume) if axes.relative_volume else dvh.dose_at(volume))
        if dose == 0 and dvh.zero_cc and dvh.least_positive > 0:
            text = f"< {describe_dose(dvh.least_positive, axes, LIMIT_FIGURES)}"
        elif math.isfinite(dose):
            text = describe_dose(dose, axes, figures_of(dvh.step_at(dose) / dose if dose > 0 else 0.0))
        else:
            text = "smaller than that"
        parts.append(_part(curve, text))
    return _list(f"D at {short_number(volume)} {axes.volume_unit}", parts)


def describe_point(curve: Curve, dose: float, axes: Axes) -> str:
    """V_x of the curve under the mouse."""
    percent, volume = _share_above(curve.dvh, dose)
    share = f"{short_number(percent)} % = {short_number(volume)} cc"
    return f"{_part(curve, share)} receive ≥ {html.escape(describe_dose(dose, axes))}"


def describe_voxel(curves: Sequence[Curve], dose: float, inside: Sequence[str], axes: Axes) -> str:
    """The dose of a clicked voxel, and how much of the structures it lies in receives as much or more."""
    where = "voxel in no structure" if not inside else f"voxel in {', '.join(inside)}"
    rows = [(curve, *_share_above(curve.dvh, dose)) for curve in curves if curve.dvh.name in inside]
    return _share_list(f"{where}: {describe_dose(dose, axes)}; at least as much in", rows)


def below_text(limit: float) -> str:
    """What is shown of a dose that is only known to be less than a limit."""
    return f"< {short_number(limit, LIMIT_FIGURES)}"


def band_text(curves: Sequence[Curve]) -> str:
    """What the shading about the curves means; nothing where there is none."""
    bases = dict.fromkeys(curve.band.basis for curve in curves if curve.band is not None)
    return f"shaded: ± 1 standard error, {' or '.join(_BANDS[basis] for basis in bases)}" if bases else ""


def _share_above(dvh: Dvh, dose: float) -> tuple[float, float]:
    return float(dvh.percent_at(dose)), float(dvh.volume_at(dose))


def _share_list(title: str, rows: Sequence[tuple[Curve, float, float]]) -> str:
    """Shares (%) and volumes (cc); structures with none of it are left out."""
    parts = [
        _part(curve, f"{short_number(percent)} % = {short_number(volume)} cc")
        for curve, percent, volume in rows
        if volume > 0
    ]
    return _list(title, parts or ["nothing"])


def _list(title: str, parts: Sequence[str]) -> str:
    more = [f"… and {len(parts) - MAX_LINES} more"] if len(parts) > MAX_LINES else []
    return f"<b>{html.escape(title)}</b>: {' &nbsp;'.join([*parts[:MAX_LINES], *more])}"


def _part(curve: Curve, text: str) -> str:
    """The text about one structure, kept on one line."""
    words = html.escape(f"{curve.title} {text}").replace(" ", "&nbsp;")
    return f'<span style="color:{curve.color}">●</span>&nbsp;{words}'
