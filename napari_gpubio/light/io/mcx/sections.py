"""The JSON of MCX: loading it, and its sections with checks of every value.

MCX finds keys whatever their case, and takes ``{"Domain.Dim": ...}`` at the root for ``{"Domain": {"Dim": ...}}``.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.light.io.mcx.jdata import shown

_SPECIAL = {"_nan_": math.nan, "_inf_": math.inf, "+_inf_": math.inf, "-_inf_": -math.inf}
_WHOLE_LIMIT = 2**63


def load_json(path: str | Path) -> dict[str, Any]:
    """Load a JSON file that holds an object.

    Raises
    ------
    InvalidInput
        If the file is missing, not text, no JSON, or no object.
    """
    file = existing_file(path)
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidInput(
            f"{file.name} is not text; JSON in UTF-8 is needed. Convert binary JSON (BJData, UBJSON) to JSON first"
        )
    try:
        root = json.loads(text, strict=False)  # MCX's own examples have line breaks in their texts
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{file.name} is no JSON ({error}); it is cut off or damaged: copy or write it again"
        ) from None
    if not isinstance(root, dict):
        raise InvalidInput(f"{file.name} holds {shown(root)}; an object {{...}} is needed")
    return root


@dataclass(frozen=True, eq=False)
class Section:
    """An object of the file, whose values are checked when they are taken.

    Each method takes the name of a key, and what to return where the key is absent; without that, an absent key is an
    error. Errors are `InvalidInput` with the place, the value and what is needed.

    Parameters
    ----------
    name
        Its place in the file, for errors.
    fields
        The object.
    root
        The whole file, for keys like ``Domain.Dim`` at the root.
    """

    name: str
    fields: Mapping[str, Any]
    root: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        """The value as it is, or None."""
        found = _find(self.fields, key)
        return _find(self.root, f"{self.name}.{key}") if found is None else found

    def section(self, key: str) -> "Section":
        """An object; an absent one is empty."""
        value = self.get(key)
        name = f"{self.name}.{key}" if self.name else key
        if value is not None and not isinstance(value, Mapping):
            raise InvalidInput(f"{name} is {shown(value)}; an object {{...}} is needed")
        return Section(name, value or {}, self.root or self.fields)

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self._value(key, default)
        if not _is_number(value) or not math.isfinite(number := as_float(value)):
            raise self._bad(key, "give a number")
        return number

    def whole(self, key: str, default: int | None = None) -> int:
        """An integer; 1e6 is one."""
        number = self.number(key, default)
        if number != math.floor(number) or abs(number) >= _WHOLE_LIMIT:
            raise self._bad(key, "give an integer")
        return int(self._value(key, default))

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false, or a number: 0 is false."""
        value = self._value(key, default)
        return value if isinstance(value, bool) else self.number(key) != 0

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._bad(key, "give a text")
        return value

    def numbers(self, key: str, least: int, most: int, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """A list of ``least`` to ``most`` finite numbers."""
        return checked_numbers(self._value(key, default), f"{self.name}.{key}", least, most)

    def any_numbers(self, key: str, least: int, most: int, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """A list of numbers, which may be JData's ``_NaN_``, ``_Inf_`` and ``-_Inf_``."""
        return _checked_list(self._value(key, default), f"{self.name}.{key}", least, most)

    def wholes(self, key: str, count: int) -> tuple[int, ...]:
        """A list of ``count`` integers."""
        return checked_wholes(self._value(key, None), f"{self.name}.{key}", count)

    def _value(self, key: str, default: Any) -> Any:
        value = self.get(key)
        if value is None and default is None:
            raise InvalidInput(f"{self.name}.{key} is missing; add it")
        return default if value is None else value

    def _bad(self, key: str, wanted: str) -> InvalidInput:
        return InvalidInput(f"{self.name}.{key} is {shown(self.get(key))}; {wanted}")


def checked_numbers(value: Any, place: str, least: int, most: int) -> tuple[float, ...]:
    """Return a list of ``least`` to ``most`` finite numbers, or say what stands at this place instead."""
    numbers = _checked_list(value, place, least, most)
    if not all(math.isfinite(number) for number in numbers):
        raise InvalidInput(f"{place} is {shown(value)}; give finite numbers")
    return numbers


def checked_wholes(value: Any, place: str, count: int) -> tuple[int, ...]:
    """Return a list of ``count`` integers, or say what stands at this place instead."""
    numbers = checked_numbers(value, place, count, count)
    if not all(number == math.floor(number) and abs(number) < 2**31 for number in numbers):
        raise InvalidInput(f"{place} is {shown(value)}; give integers")
    return tuple(int(number) for number in numbers)


def _checked_list(value: Any, place: str, least: int, most: int) -> tuple[float, ...]:
    wrong = InvalidInput(
        f"{place} is {shown(value)}; give a list of {least if least == most else f'{least} to {most}'} numbers"
    )
    if not isinstance(value, Sequence) or isinstance(value, str) or not least <= len(value) <= most:
        raise wrong
    numbers: list[Any] = [_SPECIAL.get(item.lower()) if isinstance(item, str) else item for item in value]
    if not all(_is_number(item) for item in numbers):
        raise wrong
    return tuple(as_float(item) for item in numbers)


def _find(fields: Mapping[str, Any], key: str) -> Any:
    if key in fields:
        return fields[key]
    return next((value for name, value in fields.items() if name.lower() == key.lower()), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(value: float) -> float:
    """The number as a float; one of more than 308 digits is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
