"""Metrics in short: ``D95``, ``Dmax``, ``max``, ``V20Gy``.

D at a number without a unit is at % of the volume, V without brackets is in % of the volume, and a dose without
brackets is in the unit of the histogram. The unit of a volume's dose is never guessed: V20 may be of 20 Gy or 20 %.
"""

import re

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.metric import (
    STATISTICS,
    DoseAtColdVolume,
    DoseAtVolume,
    DoseStatistic,
    Metric,
    StructureVolume,
    VolumeAtDose,
    VolumeBelowDose,
    ZeroVolume,
)
from napari_gpubio.dose.metrics.parameters import PERCENT

_NUMBER = r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_BRACKET = r"(?:\s*+\[([^\[\]]+)\])?"
_DOSE = re.compile(rf"(DC|D)\s*+{_NUMBER}(?:\s*+(%|cc|cm3|mm3))?{_BRACKET}", re.IGNORECASE)
_VOLUME = re.compile(rf"(CV|V)\s*+{_NUMBER}([^\W\d_][^\[\]\-\s]*|%)?", re.IGNORECASE)
_NAMED = re.compile(rf"D?\s*+(mean|average|min|minimum|max|maximum|median|volume|zero){_BRACKET}", re.IGNORECASE)
_KINDS = {"average": "Mean", "minimum": "Min", "maximum": "Max"}
DOSES_AT_VOLUME = {one.sign: one for one in (DoseAtVolume, DoseAtColdVolume)}
VOLUMES_AT_DOSE = {one.sign: one for one in (VolumeAtDose, VolumeBelowDose)}
_USUAL_UNITS = {"Volume": "cc", "Zero": PERCENT}


def short_metric(text: str) -> Metric | None:
    """A metric that is written in short; None if it is none.

    Raises
    ------
    InvalidInput
        If it is a volume at a dose without a unit.
    """
    if named := _NAMED.fullmatch(text):
        kind = _KINDS.get(named[1].lower(), named[1].capitalize())
        return plain_metric(kind, (named[2] or _USUAL_UNITS.get(kind, "")).strip())
    if dose := _DOSE.fullmatch(text):
        kind, value, unit, answer = dose.groups()
        cls = DOSES_AT_VOLUME[kind.upper()]
        return cls(volume=float(value), volume_unit=(unit or PERCENT).lower(), unit=(answer or "").strip())
    if (volume := _VOLUME.fullmatch(text)) is None:
        return None
    kind, value, unit = volume.groups()
    if not unit:
        raise InvalidInput(
            f"{text!r} lacks the unit of its dose; write {kind.upper()}{value}Gy[%], or {kind.upper()}{value}%[%] for "
            "% of the prescription"
        )
    return VOLUMES_AT_DOSE[kind.upper()](dose=float(value), dose_unit=unit, unit=PERCENT)


def plain_metric(name: str, unit: str) -> Metric:
    """A metric that is read at no value: a statistic of the dose, or a volume."""
    if name in STATISTICS:
        return DoseStatistic(name=name, unit=unit)
    return (StructureVolume if name == "Volume" else ZeroVolume)(unit=unit)
