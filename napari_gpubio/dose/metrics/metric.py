"""Metrics: one number that is read off a histogram, or the reason why there is none."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.numbers import short_number
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.metrics.models import PRESCRIPTION, TARGET, DoseModel, Model, PlanModel, ValueModel
from napari_gpubio.dose.metrics.parameters import PERCENT, Given, dose_factor, plain, volume_factor

_GIVE_IT = "give it (reference_dose=, --reference-dose, or by --plan)"
STATISTICS: dict[str, Callable[[Dvh], float]] = {
    "Mean": lambda dvh: dvh.mean,
    "Min": lambda dvh: dvh.least,
    "Max": lambda dvh: dvh.largest,
    "Median": lambda dvh: float(dvh.dose_at_percent(50.0)),
}


class Metric:
    """What is read off a histogram; made by `napari_gpubio.dose.metrics.parse_metric`, and written by ``str``."""

    is_dose: ClassVar[bool] = False  # whether the answer is a dose
    is_on_curve: ClassVar[bool] = False  # whether it is the dose of a point of the curve, as fine as its bin
    needs_everything: ClassVar[bool] = False  # whether it needs the histogram of all that is irradiated
    target: str = ""  # the one structure that it is for, or nothing

    @property
    def unit(self) -> str:
        """Of the answer; % is of the reference dose or of the volume. Empty: the histogram's, or a mere number."""
        return ""

    @property
    def units(self) -> tuple[tuple[str, bool], ...]:
        """Units of the value at which it is read and of the answer, if they have one; each with whether of a volume."""
        return ((self.unit, not self.is_dose),) if self.unit else ()

    def in_unit(self, unit: str) -> "Metric":  # noqa: ARG002 - for doses
        """The same with this unit of dose, where it is a dose and names none."""
        return self

    def of(self, dvh: Dvh, reference_dose: float | None = None, *, everything: Dvh | None = None) -> float:
        """Read the metric off a histogram; NaN if it has no value.

        That is so if the structure is empty, smaller than the metric's volume, or another than the target. A dose of 0
        where ``dvh.zero_cc`` is not 0 means "less than the lowest dose counted"; `evaluate_metric` tells what that is.

        Parameters
        ----------
        dvh
            The histogram.
        reference_dose
            What % of dose are of (the prescription), in the histogram's unit.
        everything
            Histogram of all that is irradiated, see `napari_gpubio.dose.whole_dose`, where `needs_everything`.

        Raises
        ------
        InvalidInput
            If the units do not go together, or % of dose come without a reference, or ``everything`` is
            missing.
        """
        del everything  # which only indices of a plan need
        return self._read(dvh, reference_dose)

    def _read(self, dvh: Dvh, reference_dose: float | None) -> float:
        raise NotImplementedError

    def _in_brackets(self) -> str:
        return f"[{self.unit}]" if self.unit else ""


@dataclass(frozen=True, kw_only=True)
class _InUnit(Metric):
    """A metric that is read in a unit."""

    unit: str = ""

    def in_unit(self, unit: str) -> "Metric":
        """The same with this unit of dose, where it is a dose and names none."""
        return dataclasses.replace(self, unit=unit) if self.is_dose and not self.unit else self

    def _as_dose(self, dvh: Dvh, dose: float, reference_dose: float | None) -> float:
        return dose / _dose_scale(dvh, self.unit, reference_dose, str(self))

    def _as_volume(self, dvh: Dvh, volume_cc: float) -> float:
        if self.unit != PERCENT:
            return volume_cc / volume_factor(self.unit)
        return 100.0 * (volume_cc / dvh.volume_cc) if dvh.volume_cc > 0 else float("nan")


@dataclass(frozen=True, kw_only=True)
class DoseAtVolume(_InUnit):
    """D: the least dose in the hottest part of a volume (% of the structure, cc, mm3)."""

    sign: ClassVar[str] = "D"
    is_dose, is_on_curve = True, True
    volume: float
    volume_unit: str

    def __str__(self) -> str:
        return f"{self.sign}{_with_unit(self.volume, self.volume_unit)}{self._in_brackets()}"

    @property
    def units(self) -> tuple[tuple[str, bool], ...]:
        """As of `Metric`."""
        return (self.volume_unit, True), *super().units

    def _read(self, dvh: Dvh, reference_dose: float | None) -> float:
        volume_cc = self._part(dvh, self._volume_cc(dvh))
        return self._as_dose(dvh, float(dvh.dose_at(volume_cc)) if volume_cc >= 0 else float("nan"), reference_dose)

    def _volume_cc(self, dvh: Dvh) -> float:
        if self.volume_unit == PERCENT:
            return 0.01 * self.volume * dvh.volume_cc
        return self.volume * volume_factor(self.volume_unit)

    def _part(self, dvh: Dvh, volume_cc: float) -> float:  # noqa: ARG002 - of the cold side
        return volume_cc


@dataclass(frozen=True, kw_only=True)
class DoseAtColdVolume(DoseAtVolume):
    """DC: the largest dose in the coldest part of a volume."""

    sign: ClassVar[str] = "DC"

    def _part(self, dvh: Dvh, volume_cc: float) -> float:
        return dvh.volume_cc - volume_cc


@dataclass(frozen=True, kw_only=True)
class VolumeAtDose(_InUnit):
    """V: the volume with at least a dose, in units of it or % of the reference dose."""

    sign: ClassVar[str] = "V"
    dose: float
    dose_unit: str

    def __str__(self) -> str:
        return f"{self.sign}{_with_unit(self.dose, self.dose_unit)}{self._in_brackets()}"

    @property
    def units(self) -> tuple[tuple[str, bool], ...]:
        """As of `Metric`."""
        return (self.dose_unit, False), *super().units

    def _read(self, dvh: Dvh, reference_dose: float | None) -> float:
        scale = _dose_scale(dvh, self.dose_unit, reference_dose, str(self))
        return self._as_volume(dvh, self._found_cc(dvh, scale))

    def _found_cc(self, dvh: Dvh, scale: float) -> float:
        return float(dvh.volume_at(self.dose * scale))


@dataclass(frozen=True, kw_only=True)
class VolumeBelowDose(VolumeAtDose):
    """CV: the volume with less than a dose."""

    sign: ClassVar[str] = "CV"

    def _found_cc(self, dvh: Dvh, scale: float) -> float:
        return dvh.volume_cc - super()._found_cc(dvh, scale)


@dataclass(frozen=True, kw_only=True)
class VolumeBetweenDoses(VolumeAtDose):
    """V of a band of doses, whose end is in the same unit."""

    end: float

    def __str__(self) -> str:
        ends = (_with_unit(one, self.dose_unit) for one in (self.dose, self.end))
        return f"{self.sign}{'-'.join(ends)}{self._in_brackets()}"

    def _found_cc(self, dvh: Dvh, scale: float) -> float:
        return dvh.band_volume(self.dose * scale, self.end * scale)


@dataclass(frozen=True, kw_only=True)
class DoseStatistic(_InUnit):
    """The mean, the least, the largest or the median dose."""

    is_dose = True
    name: str

    def __str__(self) -> str:
        return f"{self.name}{self._in_brackets()}"

    @property
    def is_on_curve(self) -> bool:  # type: ignore[override]
        """As of `Metric`."""
        return self.name == "Median"

    def _read(self, dvh: Dvh, reference_dose: float | None) -> float:
        return self._as_dose(dvh, STATISTICS[self.name](dvh), reference_dose)


@dataclass(frozen=True, kw_only=True)
class StructureVolume(_InUnit):
    """All of the volume."""

    sign: ClassVar[str] = "Volume"

    def __str__(self) -> str:
        return f"{self.sign}{self._in_brackets()}"

    def _read(self, dvh: Dvh, reference_dose: float | None) -> float:  # noqa: ARG002 - as of the others
        return self._as_volume(dvh, self._volume_cc(dvh))

    def _volume_cc(self, dvh: Dvh) -> float:
        return dvh.volume_cc


@dataclass(frozen=True, kw_only=True)
class ZeroVolume(StructureVolume):
    """The volume of no dose at all, where bins of equal ratio count it apart."""

    sign: ClassVar[str] = "Zero"

    def _volume_cc(self, dvh: Dvh) -> float:
        return float("nan") if dvh.zero_cc is None else dvh.zero_cc


# -- of models --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ModelValue(_InUnit):
    """What a model makes of a histogram, from its parameters."""

    model: ValueModel
    given: tuple[Given, ...] = ()

    def __str__(self) -> str:
        return f"{_called(self.model, self.given)}{self._in_brackets()}"

    @property
    def is_dose(self) -> bool:  # type: ignore[override]
        """As of `Metric`."""
        return self.model.is_dose

    def _read(self, dvh: Dvh, reference_dose: float | None) -> float:
        found = self.model.value(dvh, _scaled(self.given, dvh, reference_dose, str(self)))
        if self.is_dose:
            return self._as_dose(dvh, found, reference_dose)
        return 100.0 * found if self.unit == PERCENT else found


@dataclass(frozen=True, kw_only=True)
class OfChangedDose(Metric):
    """What is read off the histogram of an effective dose (EQD2, BED)."""

    model: DoseModel
    inner: Metric
    given: tuple[Given, ...] = ()

    def __str__(self) -> str:
        return _called(self.model, (self.inner, *self.given))

    @property
    def is_dose(self) -> bool:  # type: ignore[override]
        """As of `Metric`."""
        return self.inner.is_dose

    @property
    def unit(self) -> str:
        """As of `Metric`."""
        return self.inner.unit

    def _read(self, dvh: Dvh, reference_dose: float | None) -> float:
        return self.inner.of(self.model.changed(_in_gray(dvh), _scaled(self.given, dvh, reference_dose, str(self))))


@dataclass(frozen=True, kw_only=True)
class PlanIndex(Metric):
    """An index of a plan, which needs the histogram of all that is irradiated."""

    needs_everything = True
    model: PlanModel
    given: tuple[Given, ...] = ()

    def __str__(self) -> str:
        return _called(self.model, self.given)

    @property
    def target(self) -> str:  # type: ignore[override]
        """As of `Metric`."""
        return next((one.text for one in self.given if one.name == TARGET), "")

    def of(self, dvh: Dvh, reference_dose: float | None = None, *, everything: Dvh | None = None) -> float:
        """Read it; see `Metric.of`."""
        if self.target and self.target.casefold() != dvh.name.casefold():
            return float("nan")
        scaled = _scaled(self.given, dvh, reference_dose, str(self))
        prescription = scaled.get(PRESCRIPTION, reference_dose)
        if prescription is None:
            raise InvalidInput(
                f"{self} needs the prescription; {_GIVE_IT} in {dvh.unit}, or write it: "
                f"{self.model.name}({PRESCRIPTION}=60{dvh.unit})"
            )
        if everything is None:
            raise InvalidInput(
                f"{self} needs the histogram of all that is irradiated; give it as everything=, made by whole_dose()"
            )
        return self.model.of_plan(dvh, everything, prescription)


def _with_unit(value: float, unit: str) -> str:
    return f"{plain(value)}{' ' * unit.startswith('1')}{unit}"  # 3 1/mm2 is not 31/mm2


def _called(model: Model, inside: Sequence[object]) -> str:
    return f"{model.name}({', '.join(map(str, inside))})" if inside else model.name


def _scaled(given: Iterable[Given], dvh: Dvh, reference_dose: float | None, what: str) -> dict[str, float]:
    """Values of parameters by their names, doses in the unit of the histogram."""
    return {one.name: one.value * _dose_scale(dvh, one.unit, reference_dose, what) for one in given}


def _in_gray(dvh: Dvh) -> Dvh:
    """The histogram in Gy, if its unit is a multiple of it."""
    try:
        factor = dose_factor(dvh.unit, "Gy")
    except InvalidInput:  # the model's error names what it needs
        return dvh
    return dvh if dvh.unit == "Gy" else dataclasses.replace(dvh.scaled(factor), unit="Gy")


def _dose_scale(dvh: Dvh, unit: str, reference_dose: float | None, what: str) -> float:
    """How many of the histogram's units one ``unit`` of dose is; without a unit it is one of them."""
    if not unit:
        return 1.0
    if unit != PERCENT:
        try:
            return dose_factor(unit, dvh.unit)
        except InvalidInput:  # whose message is about the other direction
            raise InvalidInput(f"{what} is in {unit} and the dose is in {dvh.unit}; use {dvh.unit}") from None
    if reference_dose is None or not reference_dose > 0:
        raise InvalidInput(f"{what} is in % of the prescription; {_GIVE_IT} in {dvh.unit}")
    return 0.01 * reference_dose


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """The value of a metric.

    Parameters
    ----------
    value
        In the metric's unit; NaN if there is none.
    below
        Where the value is 0 because no dose was counted in that part of the volume (``Dvh.zero_cc``): what it is less
        than, read off the lowest dose counted in the structure. NaN elsewhere.
    reason
        Why there is none.
    is_refused
        Whether it cannot be evaluated at all: its unit is another one, or something that it needs is missing.
    """

    value: float = math.nan
    below: float = math.nan
    reason: str = ""
    is_refused: bool = False

    def __str__(self) -> str:
        if self.reason:
            return f"not evaluated: {self.reason}"
        return f"<{self.below:.5g}" if self.is_limit else f"{self.value:.5g}"

    @property
    def is_limit(self) -> bool:
        """Whether all that is known is what the value is less than."""
        return not math.isnan(self.below)

    @property
    def cell(self) -> str:
        """For a file: all digits of the value or, as ``<3.1e-09``, of what it is below, or why there is none."""
        if self.reason:
            return str(self)
        return f"<{self.below!r}" if self.is_limit else repr(self.value)


def evaluate_metric(
    metric: Metric, dvh: Dvh, reference_dose: float | None = None, *, everything: Dvh | None = None
) -> MetricValue:
    """Read a metric off a histogram; what `napari_gpubio.dose.metrics.Metric.of` refuses becomes the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dvh
    >>> from napari_gpubio.dose.metrics import evaluate_metric, parse_metric
    >>> heart = Dvh(name="Heart", unit="Gy", doses=np.array([0.0, 20.0]), volumes_cc=np.array([5.0, 0.0]), mean=10.0)
    >>> print(evaluate_metric(parse_metric("D50%[Gy]"), heart))
    10
    >>> print(evaluate_metric(parse_metric("D9cc[Gy]"), heart))
    not evaluated: 'Heart' has 5 cc, less than D9cc[Gy] needs
    """
    try:
        value = metric.of(dvh, reference_dose, everything=everything)
    except InvalidInput as error:
        return MetricValue(reason=str(error), is_refused=True)
    if math.isnan(value):
        return MetricValue(reason=_why_not(metric, dvh))
    is_unlit = value == 0 and metric.is_dose and bool(dvh.zero_cc)
    below = metric.of(_raised(dvh), reference_dose, everything=everything) if is_unlit else math.nan
    return MetricValue(value=value, below=below)


@dataclass(frozen=True, eq=False)
class MetricTable(Tabular):
    """Metrics of structures: a row for each, with a value for each metric."""

    metrics: tuple[Metric, ...]
    rows: tuple[tuple[str, tuple[MetricValue, ...]], ...]


def metric_table(
    dvhs: Iterable[Dvh],
    metrics: Iterable[Metric],
    *,
    reference_dose: float | None = None,
    everything: Dvh | None = None,
) -> MetricTable:
    """Evaluate metrics of all structures of a plan, in the unit of its dose; see `evaluate_metric`."""
    known = tuple(dvhs)
    asked = tuple(metric.in_unit(known[0].unit if known else "") for metric in metrics)
    rows = (tuple(evaluate_metric(m, one, reference_dose, everything=everything) for m in asked) for one in known)
    return MetricTable(asked, tuple(zip((one.name for one in known), rows, strict=True)))


def _raised(dvh: Dvh) -> Dvh:
    """The histogram as if the volume without dose had the lowest dose counted."""
    return dataclasses.replace(dvh, doses=np.where(dvh.doses == 0, dvh.least_positive, dvh.doses))


def _why_not(metric: Metric, dvh: Dvh) -> str:
    if metric.target and metric.target.casefold() != dvh.name.casefold():
        return f"{metric} is of {metric.target!r}, not of {dvh.name!r}"
    if dvh.is_empty:
        return f"{dvh.name!r} is empty"
    if isinstance(metric, ZeroVolume):
        return "volume without dose is counted apart only in logarithmic bins"
    if metric.needs_everything:
        return "no volume has the prescription"
    inner = metric.inner if isinstance(metric, OfChangedDose) else metric
    if isinstance(inner, ModelValue) and inner.model.name == "HI":
        return f"D50% of {dvh.name!r} is 0"
    return f"{dvh.name!r} has {short_number(dvh.volume_cc)} cc, less than {metric} needs"
