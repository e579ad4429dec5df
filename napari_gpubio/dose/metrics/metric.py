"""Metrics: one number that is read off a histogram, or the reason why there is none."""

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.metrics.models import MODELS, PRESCRIPTION, TARGET, Model
from napari_gpubio.dose.metrics.parameters import PERCENT, Given, dose_factor, plain, volume_factor

_GIVE_IT = "give it (reference_dose=, --reference-dose)"
_DOSES: dict[str, Callable[[Dvh], float]] = {
    "Mean": lambda dvh: dvh.mean,
    "Min": lambda dvh: dvh.least,
    "Max": lambda dvh: dvh.largest,
    "Median": lambda dvh: float(dvh.dose_at_percent(50.0)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is read off a histogram; made by `napari_gpubio.dose.metrics.parse_metric`.

    Parameters
    ----------
    kind
        ``"D"``, ``"DC"``, ``"V"``, ``"CV"``, or ``"Mean"``, ``"Min"``, ``"Max"``, ``"Median"``, ``"Volume"``,
        ``"Zero"`` (volume of no dose at all, where bins of equal ratio count it apart), or the name of a
        `napari_gpubio.dose.metrics.models.Model`.
    value, value_unit
        Volume at which a dose is read, or dose at which a volume is; % of the volume or of the reference dose.
    end
        End of a band of doses, in the same unit; None: no band.
    unit
        Of the answer; % is of the reference dose or of the volume. Empty: that of the histogram, or a mere number.
    given
        Parameters of a model.
    inner
        What is read off the histogram that a model makes (EQD2, BED).
    """

    kind: str
    unit: str = ""
    value: float = 0.0
    value_unit: str = ""
    end: float | None = None
    given: tuple[Given, ...] = ()
    inner: "Metric | None" = None

    def __str__(self) -> str:
        unit = f" {self.value_unit}" if self.value_unit.startswith("1") else self.value_unit  # 3 1/mm2 is not 31/mm2
        at = f"{plain(self.value)}{unit}" if unit else ""
        band = f"-{plain(self.end)}{unit}" if self.end is not None else ""
        given = [str(one) for one in (self.inner, *self.given) if one is not None]
        named = f"({', '.join(given)})" if given else ""
        return f"{self.kind}{at}{band}{named}{f'[{self.unit}]' if self.unit and self.inner is None else ''}"

    @property
    def needs_everything(self) -> bool:
        """Whether it needs the histogram of all that is irradiated."""
        return self._model is not None and self._model.of_plan is not None

    @property
    def is_dose(self) -> bool:
        """Whether the answer is a dose."""
        if self.inner is not None:
            return self.inner.is_dose
        return self.kind in (*_DOSES, "D", "DC") or (self._model is not None and self._model.is_dose)

    @property
    def target(self) -> str:
        """The one structure that it is for, or nothing."""
        return next((one.text for one in self.given if one.name == TARGET), "")

    @property
    def units(self) -> tuple[tuple[str, bool], ...]:
        """Units of the value at which it is read and of the answer, if they have one; each with whether of a volume."""
        at_volume = self.kind in ("D", "DC")
        pairs = ((self.value_unit, at_volume), (self.unit, not self.is_dose))
        return tuple(pair for pair in pairs if pair[0])

    def in_unit(self, unit: str) -> "Metric":
        """The same with this unit of dose, where it is a dose and names none."""
        is_open = self.is_dose and not self.unit and self.inner is None
        return dataclasses.replace(self, unit=unit) if is_open else self

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
        if self._model is not None:
            return self._of_model(self._model, dvh, reference_dose, everything)
        if self.kind == "Volume":
            return self._as_volume(dvh, dvh.volume_cc)
        if self.kind == "Zero":
            return float("nan") if dvh.zero_cc is None else self._as_volume(dvh, dvh.zero_cc)
        if self.kind in _DOSES:
            return self._as_dose(dvh, _DOSES[self.kind](dvh), reference_dose)
        if self.kind in ("D", "DC"):
            volume = self._volume_cc(dvh)
            volume_cc = volume if self.kind == "D" else dvh.volume_cc - volume
            return self._as_dose(dvh, float(dvh.dose_at(volume_cc)) if volume_cc >= 0 else float("nan"), reference_dose)
        return self._as_volume(dvh, self._volume_at_doses(dvh, reference_dose))

    # -- of volumes and doses -------------------------------------------------------------------------------------

    def _volume_cc(self, dvh: Dvh) -> float:
        if self.value_unit == PERCENT:
            return 0.01 * self.value * dvh.volume_cc
        return self.value * volume_factor(self.value_unit)

    def _volume_at_doses(self, dvh: Dvh, reference_dose: float | None) -> float:
        scale = _dose_scale(dvh, self.value_unit, reference_dose, str(self))
        if self.end is not None:
            return dvh.band_volume(self.value * scale, self.end * scale)
        above = float(dvh.volume_at(self.value * scale))
        return above if self.kind == "V" else dvh.volume_cc - above

    def _as_dose(self, dvh: Dvh, dose: float, reference_dose: float | None) -> float:
        return dose / _dose_scale(dvh, self.unit, reference_dose, str(self))

    def _as_volume(self, dvh: Dvh, volume_cc: float) -> float:
        if self.unit != PERCENT:
            return volume_cc / volume_factor(self.unit)
        return 100.0 * (volume_cc / dvh.volume_cc) if dvh.volume_cc > 0 else float("nan")

    # -- of models ------------------------------------------------------------------------------------------------

    @property
    def _model(self) -> Model | None:
        return MODELS.get(self.kind)

    def _of_model(self, model: Model, dvh: Dvh, reference_dose: float | None, everything: Dvh | None) -> float:
        scaled = {one.name: one.value * _dose_scale(dvh, one.unit, reference_dose, str(self)) for one in self.given}
        if model.changed is not None and self.inner is not None:
            return self.inner.of(model.changed(_in_gray(dvh), scaled))
        if model.of_plan is not None:
            if self.target and self.target.casefold() != dvh.name.casefold():
                return float("nan")
            prescription = scaled.get(PRESCRIPTION, reference_dose)
            return model.of_plan(dvh, *self._plan(model, dvh, prescription, everything))
        assert model.value is not None
        found = model.value(dvh, scaled)
        if model.is_dose:
            return self._as_dose(dvh, found, reference_dose)
        return 100.0 * found if self.unit == PERCENT else found

    def _plan(self, model: Model, dvh: Dvh, prescription: float | None, everything: Dvh | None) -> tuple[Dvh, float]:
        if prescription is None:
            raise InvalidInput(
                f"{self} needs the prescription; {_GIVE_IT} in {dvh.unit}, or write it: "
                f"{model.name}({PRESCRIPTION}=60{dvh.unit})"
            )
        if everything is None:
            raise InvalidInput(
                f"{self} needs the histogram of all that is irradiated; give it as everything=, made by whole_dose()"
            )
        return everything, prescription


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


class MetricTable(NamedTuple):
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
    if metric.kind == "Zero":
        return "volume without dose is counted apart only in logarithmic bins"
    if metric.needs_everything:
        return "no volume has the prescription"
    if "HI" in (metric.kind, metric.inner.kind if metric.inner else ""):
        return f"D50% of {dvh.name!r} is 0"
    return f"{dvh.name!r} has {short_number(dvh.volume_cc)} cc, less than {metric} needs"
