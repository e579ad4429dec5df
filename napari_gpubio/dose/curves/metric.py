"""Dose-volume metrics as texts: ``D95%[Gy]``, ``V20Gy[%]``, ``D0.03cc[Gy]``, ``Mean[Gy]``.

The notation of AAPM Task Group 263 (Mayo et al. 2018, Int. J. Radiat. Oncol. 100:1057): what is asked, at which value
with its unit, and in brackets the unit of the answer. CV and DC ask for the complement, the cold side. A band of doses,
``V20Gy-30Gy[cc]``, is an addition of ours.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.curves.dvh import Dvh
from napari_gpubio.dose.curves.units import PERCENT, dose_factor, is_volume_unit, volume_factor

_NUMBER = r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_UNIT = r"([%A-Za-z][^\[\]\-\s]*|%)"
_AT_VALUE = re.compile(rf"(DC|CV|D|V)\s*{_NUMBER}\s*{_UNIT}(?:\s*-\s*{_NUMBER}\s*{_UNIT})?\s*\[([^\]]+)\]")
_PLAIN = re.compile(r"(Mean|Min|Max|Median|Volume)\s*\[([^\]]+)\]", re.IGNORECASE)
_EXAMPLES = "D95%[Gy], D0.03cc[Gy], V20Gy[%], V20Gy-30Gy[cc], CV20Gy[cc], DC1cc[Gy], Mean[Gy], Volume[cc]"
_DOSES: dict[str, Callable[[Dvh], float]] = {
    "Mean": lambda dvh: dvh.mean,
    "Min": lambda dvh: dvh.least,
    "Max": lambda dvh: dvh.largest,
    "Median": lambda dvh: float(dvh.dose_at_percent(50.0)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What is asked of a histogram; made by `parse_metric`.

    Parameters
    ----------
    kind
        ``"D"``, ``"DC"``, ``"V"``, ``"CV"``, or ``"Mean"``, ``"Min"``, ``"Max"``, ``"Median"``, ``"Volume"``.
    value, value_unit
        Volume at which a dose is asked for, or dose at which a volume is; % of the volume or of the reference dose.
    end
        End of a band of doses, in the same unit; None: no band.
    unit
        Of the answer; % is of the reference dose or of the volume.
    """

    kind: str
    unit: str
    value: float = 0.0
    value_unit: str = ""
    end: float | None = None

    def __str__(self) -> str:
        at = f"{self.value:g}{self.value_unit}" if self.value_unit else ""
        band = f"-{self.end:g}{self.value_unit}" if self.end is not None else ""
        return f"{self.kind}{at}{band}[{self.unit}]"

    def of(self, dvh: Dvh, reference_dose: float | None = None) -> float:
        """Read the metric off a histogram; NaN if the structure is empty or smaller than a volume that is asked for.

        Parameters
        ----------
        dvh
            The histogram.
        reference_dose
            What % of dose are of (the prescription), in the histogram's unit.

        Raises
        ------
        InvalidInput
            If the units do not go together, or % of dose are asked for without a reference.
        """
        if self.kind == "Volume":
            return self._as_volume(dvh, dvh.volume_cc)
        if self.kind in _DOSES:
            return self._as_dose(dvh, _DOSES[self.kind](dvh), reference_dose)
        if self.kind in ("D", "DC"):
            volume = self._volume_cc(dvh)
            wanted = volume if self.kind == "D" else dvh.volume_cc - volume
            return self._as_dose(dvh, float(dvh.dose_at(wanted)) if wanted >= 0 else float("nan"), reference_dose)
        return self._as_volume(dvh, self._volume_at_doses(dvh, reference_dose))

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


def parse_metric(text: str) -> Metric:
    """Read a metric from a text such as ``D95%[Gy]``.

    Raises
    ------
    InvalidInput
        If it is none.
    """
    stripped = text.strip()
    if plain := _PLAIN.fullmatch(stripped):
        kind, unit = plain[1].capitalize(), plain[2].strip()
        _require_unit(text, unit, is_volume=kind == "Volume")
        return Metric(kind=kind, unit=unit)
    found = _AT_VALUE.fullmatch(stripped)
    if found is None:
        raise InvalidInput(f"{text!r} is no dose-volume metric; write for instance {_EXAMPLES}")
    kind, value, value_unit, end, end_unit, unit = found.groups()
    asks_dose = kind in ("D", "DC")
    _require_unit(text, value_unit, is_volume=asks_dose)
    _require_unit(text, unit.strip(), is_volume=not asks_dose)
    if end is not None and (kind != "V" or end_unit != value_unit or float(end) < float(value)):
        raise InvalidInput(f"the band in {text!r} must be of doses, ascending and in one unit: V20Gy-30Gy[cc]")
    return Metric(
        kind=kind, value=float(value), value_unit=value_unit, unit=unit.strip(), end=None if end is None else float(end)
    )


def _require_unit(text: str, unit: str, *, is_volume: bool) -> None:
    if unit != PERCENT and is_volume_unit(unit) != is_volume:
        what = "a volume (%, cc, mm3)" if is_volume else "a dose"
        raise InvalidInput(f"{unit!r} in {text!r} must be {what}; write for instance {_EXAMPLES}")


def _dose_scale(dvh: Dvh, unit: str, reference_dose: float | None, what: str) -> float:
    """How many of the histogram's units one ``unit`` of dose is."""
    if unit != PERCENT:
        try:
            return dose_factor(unit, dvh.unit)
        except InvalidInput:  # which speaks of the other direction
            raise InvalidInput(f"{what} asks for {unit} and the dose is in {dvh.unit}; use {dvh.unit}") from None
    if reference_dose is None or not reference_dose > 0:
        raise InvalidInput(f"{what} is in % of the prescription; give it (reference_dose) in {dvh.unit}")
    return 0.01 * reference_dose
