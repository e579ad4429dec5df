"""Metrics as texts: ``D95%[Gy]``, ``V20Gy[%]``, ``Mean[Gy]``, ``gEUD(a=8)[Gy]``, ``EQD2(D2cc[Gy], alpha_beta=3, ...)``.

The notation of AAPM Task Group 263 (Mayo et al. 2018, Int. J. Radiat. Oncol. 100:1057): what is evaluated, at which
value with its unit, and in brackets the unit of the answer. CV and DC are the complement, the cold side. Additions of
ours are a band of doses, ``V20Gy-30Gy[cc]``, and metrics with named parameters (`napari_gpubio.dose.metrics.models`);
`napari_gpubio.dose.metrics.short_text` reads what is written in short, such as ``D95``.
"""

import re

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.quantity import is_unit
from napari_gpubio.dose.metrics.metric import Metric, ModelValue, OfChangedDose, PlanIndex, VolumeBetweenDoses
from napari_gpubio.dose.metrics.models import (
    MODELS,
    DoseModel,
    Model,
    PlanModel,
    ShareModel,
    ValueModel,
    clearer_name,
    model_named,
)
from napari_gpubio.dose.metrics.parameters import PERCENT, Given, check_length, is_volume_unit, parts, read_value
from napari_gpubio.dose.metrics.short_text import DOSES_AT_VOLUME, VOLUMES_AT_DOSE, plain_metric, short_metric

_NUMBER = r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_UNIT = r"([^\W\d_][^\[\]\-\s]*|[%°µ][^\[\]\-\s]*|(?<=\s)1/[^\[\]\-\s]+)"  # the last one after a blank: V1e-6 1/mm2
# A run of blanks matches at once or not at all (\s*+), so that many of them cost no more than linear time
_AT_VALUE = re.compile(rf"(DC|CV|D|V)\s*+{_NUMBER}\s*+{_UNIT}(?:\s*+-\s*+{_NUMBER}\s*+{_UNIT})?+\s*+\[([^\]]+)\]")
_PLAIN = re.compile(r"(Mean|Min|Max|Median|Volume|Zero)\s*+\[([^\]]+)\]", re.IGNORECASE)
_WORDS = r"[A-Za-z][\w/]*+(?:\s++[\w/]++)*+"
_MODEL = re.compile(rf"(?P<name>{_WORDS})\s*+(?P<given>\(.*\))?\s*+(?:\[(?P<unit>[^\[\]]+)\])?", re.DOTALL)
_EXAMPLES = (
    "D95%[Gy], D0.03cc[Gy], V20Gy[%], V20Gy-30Gy[cc], CV20Gy[cc], DC1cc[Gy], Mean[Gy], Volume[cc], gEUD(a=8)[Gy], HI"
)
_GRAY = "Gy"


def parse_metrics(text: str) -> tuple[Metric, ...]:
    """Read metrics that are separated by commas or semicolons (those inside brackets separate nothing).

    Raises
    ------
    InvalidInput
        If one of them is none, or a bracket has no end.
    """
    return tuple(parse_metric(part) for part in parts(text))


def parse_metric(text: str) -> Metric:
    """Read a metric from a text such as ``D95%[Gy]`` or ``NTCP(n=0.35, m=0.1, TD50=46Gy)``.

    Letter case of names does not matter where it means nothing. Doses among parameters may have a unit; without one
    they are in that of the histogram. `Metric.__str__` writes what this reads.

    Raises
    ------
    InvalidInput
        If it is none; the sentence names the parameter that is wrong, and how the metric is written.
    """
    stripped = text.strip()
    check_length(stripped, "metric")
    if plain_one := _PLAIN.fullmatch(stripped):
        kind, unit = plain_one[1].capitalize(), plain_one[2].strip()
        _require_unit(text, unit, is_volume=kind in ("Volume", "Zero"))
        return plain_metric(kind, unit)
    if found := _AT_VALUE.fullmatch(stripped):
        return _at_value(text, *found.groups())
    if short := short_metric(stripped):
        for unit, is_volume in short.units:
            _require_unit(text, unit, is_volume=is_volume)
        return short
    if found := _MODEL.fullmatch(stripped):
        if model := model_named(found["name"]):
            return _of_model(model, found["given"] or "", (found["unit"] or "").strip())
        if clearer := clearer_name(found["name"]):
            raise InvalidInput(f"{found['name']!r} can mean several; write {clearer}")
        if found["given"]:
            examples = ", ".join(model.example for model in MODELS.values())
            raise InvalidInput(f"there is no metric {found['name']!r} with parameters; write one of {examples}")
    parts(stripped)  # its error names the bracket that is missing
    raise InvalidInput(f"{text!r} is no dose-volume metric; write for instance {_EXAMPLES}")


def _at_value(
    text: str, kind: str, value: str, value_unit: str, end: str | None, end_unit: str | None, unit: str
) -> Metric:
    is_dose = kind in ("D", "DC")
    _require_unit(text, value_unit, is_volume=is_dose)
    _require_unit(text, unit.strip(), is_volume=not is_dose)
    if end is not None and (kind != "V" or end_unit != value_unit or float(end) < float(value)):
        raise InvalidInput(f"the band in {text!r} must be of doses, ascending and in one unit: V20Gy-30Gy[cc]")
    at, answer = float(value), unit.strip()
    if is_dose:
        return DOSES_AT_VOLUME[kind](volume=at, volume_unit=value_unit, unit=answer)
    if end is not None:
        return VolumeBetweenDoses(dose=at, end=float(end), dose_unit=value_unit, unit=answer)
    return VOLUMES_AT_DOSE[kind](dose=at, dose_unit=value_unit, unit=answer)


# -- parameters -------------------------------------------------------------------------------------------------------


def _of_model(model: Model, bracket: str, unit: str) -> Metric:
    """A metric from a model, what stands in its round brackets, and the unit behind them."""
    texts = parts(bracket[1:-1], is_inside=True) if bracket else []
    if isinstance(model, DoseModel):
        is_inner = bool(texts) and not _names_a_parameter(model, texts[0])
        inner = _inner(model, texts.pop(0) if is_inner else "", unit)
        return OfChangedDose(model=model, inner=inner, given=_given(model, texts))
    is_dose = isinstance(model, ValueModel) and model.is_dose
    if unit and not is_dose and not (isinstance(model, ShareModel) and unit == PERCENT):
        raise InvalidInput(f"the metric {model.name} is a number and not in {unit!r}; write {model.example}")
    if unit and is_volume_unit(unit):
        raise InvalidInput(f"the metric {model.name} is a dose and not in {unit!r}; write {model.example}[{_GRAY}]")
    given = _given(model, texts)
    if isinstance(model, PlanModel):
        return PlanIndex(model=model, given=given)
    assert isinstance(model, ValueModel)
    return ModelValue(model=model, unit=unit, given=given)


def _names_a_parameter(model: Model, part: str) -> bool:
    """Whether a part of a bracket gives a parameter, rather than a metric that may have some itself."""
    name = part.split("=", 1)[0].strip()
    return ("=" in part and "(" not in name) or any(one.is_named(name) for one in model.parameters)


def _inner(model: Model, text: str, unit: str) -> Metric:
    """What is read off the histogram that a model makes: the mean, if nothing is given."""
    written = text or "Mean"
    if not written.endswith("]"):
        own = unit if model_named(written.split("(", 1)[0]) is not None else unit or _GRAY
        written = f"{written}[{own}]" if own else written
    inner = parse_metric(written)
    if unit and inner.unit != unit:
        raise InvalidInput(
            f"{model.name} has two units, {inner.unit!r} and {unit!r}; write one, for instance {model.example}"
        )
    if PERCENT in (unit for unit, is_volume in _all_units(inner) if not is_volume):
        raise InvalidInput(
            f"{written!r} in {model.name} is in % of a prescription, which is none of {model.name}; use Gy"
        )
    if inner.needs_everything or isinstance(inner, OfChangedDose):
        name = inner.model.name if isinstance(inner, OfChangedDose | PlanIndex) else inner
        raise InvalidInput(f"{name} cannot be read off {model.name}; write for instance {model.example}")
    return inner


def _all_units(metric: Metric) -> tuple[tuple[str, bool], ...]:
    """Units of a metric, and of the doses among its parameters; each with whether it is of a volume."""
    given = metric.given if isinstance(metric, ModelValue | OfChangedDose | PlanIndex) else ()
    is_number = isinstance(metric, ModelValue) and not metric.is_dose
    return (*(() if is_number else metric.units), *((one.unit, False) for one in given))


def _given(model: Model, texts: list[str]) -> tuple[Given, ...]:
    advice = f"write for instance {model.full_example}"
    found: dict[str, Given] = {}
    for part in texts:
        name, equals, value = part.partition("=")
        if not equals and sum(one.needed for one in model.parameters) == 1:
            name, value = model.parameters[0].name, part
        elif not equals:
            raise InvalidInput(f"{part!r} in {model.name} has no name; {advice}")
        one = next((one for one in model.parameters if one.is_named(name.strip())), None)
        if one is None:
            raise InvalidInput(f"the metric {model.name} has no parameter {name.strip()!r}; {advice}")
        if one.name in found:
            raise InvalidInput(f"in {model.name}, {one.name} is given twice; {advice}")
        found[one.name] = read_value(one, value, model.name, advice)
    missing = [one for one in model.parameters if one.needed and one.name not in found]
    if missing:
        raise InvalidInput(f"the metric {model.name} needs {missing[0].name} ({missing[0].words}); {advice}")
    return tuple(found[one.name] for one in model.parameters if one.name in found)


def _require_unit(text: str, unit: str, *, is_volume: bool) -> None:
    if not is_volume and not is_unit(unit):
        raise InvalidInput(f"{unit!r} in {text!r} is not a known unit of dose; write for instance {_EXAMPLES}")
    if unit != PERCENT and is_volume_unit(unit) != is_volume:
        what = "a volume (%, cc, mm3)" if is_volume else "a dose"
        raise InvalidInput(f"{unit!r} in {text!r} must be {what}; write for instance {_EXAMPLES}")
