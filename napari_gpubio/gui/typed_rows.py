"""Rows whose cells are typed: their columns, what was typed so far, and what is wrong with it."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Self

from napari_gpubio.core.parameters import ParamInfo

Cell = float | str | None  # a number, a text that is no number, or nothing yet
INFINITY = "∞"
_INFINITE_TEXTS = ("inf", "infinity", "infinite", "endless", INFINITY)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    field
        What it shows of a row.
    title, help
        The text above it, and the sentence about it.
    widest
        A text that it has room for, at least.
    editable
        Whether its cells can be typed into.
    is_number, endless
        Whether they hold numbers, not words, and whether infinity is one of them.
    units
        By the unit of the table: in what its numbers are shown, and how many of that make one of the row's; the row's
        own unit first. Empty where they have none.
    """

    field: str
    title: str
    help: str = ""
    widest: str = "00.00"
    editable: bool = True
    is_number: bool = False
    endless: bool = False
    units: Mapping[str, tuple[str, Decimal]] = dataclasses.field(default_factory=dict)

    def shown_in(self, unit: str) -> tuple[str, Decimal]:
        """Return unit and factor of its numbers while the table is in a unit; an empty one is the row's own."""
        return self.units.get(unit) or next(iter(self.units.values()), ("", Decimal(1)))


def typed_number(text: str, factor: Decimal | int = 1) -> Cell:
    """Return the number that a text stands for, divided by a factor (of units), or the text where it is none.

    A comma is a point, because many keyboards have none.
    """
    if not text:
        return None
    try:
        number = Decimal(text.replace(",", ".").replace("−", "-"))
        return float(number / factor if number.is_finite() else number)
    except (ArithmeticError, ValueError):  # a number beyond all exponents is none either
        return text


def shown_number(value: float, factor: Decimal | int = 1) -> float:
    """Return a number in the unit that is shown; ``factor`` as of `typed_number`."""
    return float(Decimal(repr(value)) * factor) if math.isfinite(value) else value


class TypedRow:
    """Texts of a row in the unit on screen, and what is wrong with it.

    A subclass is a dataclass with a field or a property for each of its ``columns``; ``infos`` has the limits of its
    numbers, and ``figures`` how many of them a cell shows.
    """

    __slots__ = ()
    figures: ClassVar[int] = 5
    columns: ClassVar[tuple[Column, ...]]
    infos: ClassVar[Mapping[str, ParamInfo]]

    @property
    def title(self) -> str:
        """What the row is called in sentences."""
        raise NotImplementedError

    @classmethod
    @functools.cache
    def column(cls, name: str) -> Column:
        """Return the column of a field."""
        return next(column for column in cls.columns if column.field == name)

    @classmethod
    @functools.cache
    def numbers(cls) -> tuple[str, ...]:
        """Return the fields whose numbers the user gives."""
        return tuple(column.field for column in cls.columns if column.is_number and column.editable)

    def text(self, name: str, unit: str = "") -> str:
        """Return a field as the user would type it, with all its digits."""
        value = getattr(self, name)
        if not isinstance(value, float):
            return "" if value is None else str(value)
        _, factor = self.column(name).shown_in(unit)
        return INFINITY if value == math.inf else repr(shown_number(value, factor)).removesuffix(".0")

    def short_text(self, name: str, unit: str = "") -> str:
        """Return a field with few figures."""
        value = getattr(self, name)
        if isinstance(value, float) and math.isfinite(value):
            _, factor = self.column(name).shown_in(unit)
            text = f"{shown_number(value, factor):.{self.figures}g}"
            return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
        return self.text(name, unit)

    def with_text(self, name: str, text: str, unit: str = "") -> Self:
        """Return the row after the user typed a text into a field; what has not changed stays as it is."""
        text = text.strip()
        if text == self.text(name, unit):
            return self
        if name not in self.numbers():
            return self.with_value(name, text)
        if self.column(name).endless and text.lower() in _INFINITE_TEXTS:
            return self.with_number(name, math.inf)
        return self.with_number(name, typed_number(text, self.column(name).shown_in(unit)[1]))

    def with_value(self, name: str, value: Any) -> Self:
        """Return the row with another value."""
        changed: Self = dataclasses.replace(self, **{name: value})  # type: ignore[type-var] # subclasses are dataclasses
        return changed

    def with_number(self, name: str, value: Cell) -> Self:
        """Return the row after the user typed a number, or a text that is not one."""
        return self.with_value(name, value)

    def is_missing(self, name: str) -> bool:
        """Whether a number has yet to be given."""
        return name in self.numbers() and getattr(self, name) is None

    def problem(self, name: str, unit: str = "") -> str:
        """Return what is wrong with a field, as a sentence for the user, or an empty text."""
        if name not in self.numbers():
            return ""
        value, label = getattr(self, name), self.infos[name].label
        if value is None:
            return self.title + self._missing_text(label)
        wrong = self._wrong_with(name, value, unit)
        return f"{self.title}: {label} is {self.short_text(name, unit)}{wrong}" if wrong else ""

    def first_problem(self, unit: str = "") -> str:
        """Return the first thing that is wrong with the row, or an empty text."""
        return next((problem for name in self.numbers() if (problem := self.problem(name, unit))), "")

    def _missing_text(self, label: str) -> str:
        return f" has no {label}; type it or choose a preset"

    def _wrong_with(self, name: str, value: float | str, unit: str) -> str:
        """What is wrong with a value, as the rest of a sentence that begins with it."""
        if isinstance(value, str):
            return ", which is not a number; type one, such as 0.5"
        if not math.isfinite(value):
            return "; type a finite number"
        info, (word, factor) = self.infos[name], self.column(name).shown_in(unit)
        shown = f" {word}".rstrip()
        if info.minimum is not None and value < info.minimum:
            return f"{shown}; it must be at least {shown_number(info.minimum, factor):g}{shown}"
        if info.maximum is not None and value > info.maximum:
            return f"{shown}; it must be at most {shown_number(info.maximum, factor):g}{shown}"
        return ""
