"""What a metric says of a histogram, or in a sentence why it says nothing."""

import math
from dataclasses import dataclass

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """The value of a metric.

    Parameters
    ----------
    value
        In the metric's unit; NaN if there is none.
    reason
        Why there is none.
    is_refused
        Whether the question cannot be asked so: its unit is another one, or something that it needs is missing.
    """

    value: float = math.nan
    reason: str = ""
    is_refused: bool = False

    def __str__(self) -> str:
        return f"not evaluated: {self.reason}" if self.reason else f"{self.value:.5g}"

    @property
    def cell(self) -> str:
        """For a file: all digits of the value, or why there is none."""
        return str(self) if self.reason else repr(self.value)


def evaluate(
    metric: Metric, dvh: Dvh, reference_dose: float | None = None, *, everything: Dvh | None = None
) -> MetricValue:
    """Read a metric off a histogram; what `napari_gpubio.dose.Metric.of` refuses is told in the answer.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dvh, evaluate, parse_metric
    >>> heart = Dvh(name="Heart", unit="Gy", doses=np.array([0.0, 20.0]), volumes_cc=np.array([5.0, 0.0]), mean=10.0)
    >>> print(evaluate(parse_metric("D50%[Gy]"), heart))
    10
    >>> print(evaluate(parse_metric("D9cc[Gy]"), heart))
    not evaluated: 'Heart' has 5 cc, less than D9cc[Gy] asks for
    """
    try:
        value = metric.of(dvh, reference_dose, everything=everything)
    except InvalidInput as error:
        return MetricValue(reason=str(error), is_refused=True)
    return MetricValue(value=value) if not math.isnan(value) else MetricValue(reason=_why_not(metric, dvh))


def _why_not(metric: Metric, dvh: Dvh) -> str:
    if metric.target and metric.target.casefold() != dvh.name.casefold():
        return f"{metric} is of {metric.target!r}, not of {dvh.name!r}"
    if dvh.is_empty:
        return f"{dvh.name!r} is empty"
    if metric.needs_everything:
        return "no volume has the prescription"
    if "HI" in (metric.kind, metric.inner.kind if metric.inner else ""):
        return f"D50% of {dvh.name!r} is 0"
    return f"{dvh.name!r} has {dvh.volume_cc:.4g} cc, less than {metric} asks for"
