"""Units and named parameters of metrics as texts: ``a=8``, ``TD50=46Gy``, ``target=PTV``; texts of several metrics."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.quantity import unit_factor

_VOLUMES_CC = {"cc": 1.0, "cm3": 1.0, "mm3": 0.001}
PERCENT = "%"
_CLOSING = {"(": ")", "[": "]"}
_QUOTES = "'\""
_SEPARATORS = ",;"
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*)", re.DOTALL)
_PLAIN_NAME = re.compile(r"[^,;()\[\]='\"]+")
_LONGEST = 1000  # characters of a metric or a constraint
NUMBER, POSITIVE, WHOLE, DOSE, NAME = "number", "positive number", "integer from 1 on", "positive dose", "name"


def dose_factor(unit: str, target: str) -> float:
    """How many ``target`` one ``unit`` is; InvalidInput if one is not known to be a multiple of the other."""
    if unit == target:
        return 1.0
    if same_kind(unit, target):
        return unit_factor(unit, target)
    raise InvalidInput(f"a dose in {unit} cannot be given in {target}; use {unit}")


def same_kind(unit: str, other: str) -> bool:
    """Whether both are known units, one a multiple of the other."""
    try:
        return bool(unit_factor(unit, other))
    except InvalidInput:
        return False


def is_volume_unit(unit: str) -> bool:
    """Whether a text is a unit of volume."""
    return unit in _VOLUMES_CC


def volume_factor(unit: str) -> float:
    """How many cc one unit of volume is, or InvalidInput."""
    if unit not in _VOLUMES_CC:
        raise InvalidInput(f"{unit!r} is no unit of volume; use {', '.join(_VOLUMES_CC)}")
    return _VOLUMES_CC[unit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a metric."""

    name: str  # as it is written
    kind: str  # `NUMBER` (not 0), `POSITIVE`, `WHOLE`, `DOSE` (with its unit, or in that of the histogram) or `NAME`
    example: str  # a value as it is written
    words: str
    aliases: tuple[str, ...] = ()  # other spellings
    needed: bool = True  # whether it must be given

    def is_named(self, name: str) -> bool:
        """Whether this is how it is called; letter case does not matter."""
        return name.casefold() in (one.casefold() for one in (self.name, *self.aliases))


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A parameter's value."""

    name: str
    value: float = 0.0  # a number; 0 for a name
    unit: str = ""  # of a dose; empty: that of the histogram
    text: str = ""  # a name

    def __str__(self) -> str:
        value = _quoted(self.text) if self.text else f"{plain(self.value)}{self.unit}"
        return f"{self.name}={value}"


def plain(value: float) -> str:
    """A number in as few digits as it takes, at most 15."""
    return f"{value:.15g}"


def read_value(parameter: Parameter, text: str, metric: str, advice: str) -> Given:
    """Read the value of a metric's parameter, or raise an error with the problem and ``advice``."""
    stripped = text.strip()
    if parameter.kind == NAME:
        name = stripped[1:-1] if len(stripped) > 1 and stripped[0] == stripped[-1] in _QUOTES else stripped
        if not name:
            raise InvalidInput(f"in {metric}, {parameter.name} is empty; {advice}")
        return Given(name=parameter.name, text=name)
    found = _NUMBER.fullmatch(stripped)
    may_have_unit = parameter.kind == DOSE or (
        parameter.name == "alpha_beta" and found is not None and found[2] == "Gy"
    )
    if found is None or (found[2] and not may_have_unit):
        raise InvalidInput(f"in {metric}, {parameter.name} is {stripped!r}; give {_in_words(parameter.kind)}: {advice}")
    value, unit = float(found[1]), found[2] if parameter.kind == DOSE else ""
    if not _is_allowed(value, parameter.kind):
        raise InvalidInput(f"in {metric}, {parameter.name} is {stripped}; give {_in_words(parameter.kind)}: {advice}")
    return Given(name=parameter.name, value=value, unit=unit)


def _is_allowed(value: float, kind: str) -> bool:
    if value in (float("inf"), float("-inf")):
        return False
    if kind == NUMBER:
        return value != 0
    return value > 0 and (kind != WHOLE or value == int(value))


def _in_words(kind: str) -> str:
    if kind == NUMBER:
        return "a number other than 0"
    return f"{'an' if kind == WHOLE else 'a'} {kind}"


def _quoted(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name == name.strip():
        return name
    quote = _QUOTES[1] if _QUOTES[1] not in name else _QUOTES[0]
    return f"{quote}{name}{quote}"


def check_length(text: str, what: str) -> None:
    """Refuse a text that is too long to be a metric or a constraint (``what``) with InvalidInput."""
    if len(text) > _LONGEST:
        raise InvalidInput(
            f"{text[:40]!r}... has {len(text)} characters and a {what} has {_LONGEST} at most; write one in each line"
        )


def spans(text: str, *, is_inside: bool = False) -> Iterator[tuple[int, int]]:
    """Where the parts of a text begin and end that commas or semicolons separate outside brackets and quotes.

    What stands inside brackets (``is_inside``) has names of structures, which may be quoted. InvalidInput if a bracket
    or a quote has no end.
    """
    start, quote = 0, ""
    expected: list[str] = []
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in _QUOTES and (expected or is_inside):
            quote = letter
        elif letter in _CLOSING:
            expected.append(_CLOSING[letter])
        elif expected and letter == expected[-1]:
            expected.pop()
        elif letter in _SEPARATORS and not expected:
            yield start, at
            start = at + 1
    if expected or quote:
        what = text[start:].strip()
        raise InvalidInput(f"{what!r} lacks a {quote or expected[-1]}; write for instance gEUD(a=8)")
    yield start, len(text)


def parts(text: str, *, is_inside: bool = False) -> list[str]:
    """The parts of a text, see `spans`; those that are empty are left out."""
    found = (text[start:end].strip() for start, end in spans(text, is_inside=is_inside))
    return [part for part in found if part]
