"""Settings as classes: their types, and parts that are one of several classes, a type for each alternative.

A part that is a union brings the settings of the chosen class only: one that would be ignored cannot be written.
"""

import dataclasses
import functools
import math
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Union

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param_info

_PART = "part"
LARGEST = 2**53  # beyond which integers are texts in JSON: other programs read them as floating-point numbers
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class PartInfo:
    """What a form and a command line must know of a part."""

    label: str
    help: str
    unit: str = ""
    advanced: bool = False


def part(label: str, help: str, *, default: Any = dataclasses.MISSING, **info: Any) -> Any:  # noqa: A002
    """Give a record a field that is no single value: settings, one of several classes of them, a file, a tuple.

    Parameters
    ----------
    label, help
        Short name and one sentence, both shown to the user.
    default
        The default, if it has one.
    **info
        ``unit``, ``advanced``; see `PartInfo`.
    """
    return dataclasses.field(default=default, metadata={_PART: PartInfo(label, help, **info)})


def record_fields(record: Any) -> tuple[dataclasses.Field[Any], ...]:
    """Fields of a record, or of a class of records."""
    return _fields(record if isinstance(record, type) else type(record))


@functools.cache
def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


@functools.cache
def _converted(cls: type) -> tuple[tuple[str, Any], ...]:
    """Names and types of the fields whose values are taken as their types have them."""
    return tuple(
        (field.name, hints(cls)[field.name])
        for field in _fields(cls)
        if part_info(field) is not None or (field.default is None and param_info(field) is not None)
    )


def field_names(cls: type) -> frozenset[str]:
    """Return the names of a class's fields; what its class says of itself (a ``ClassVar``) is none."""
    return frozenset(field.name for field in record_fields(cls))


def part_info(field: dataclasses.Field[Any]) -> PartInfo | None:
    """Return what `part` recorded for a field, or None."""
    return field.metadata.get(_PART)


class Words(NamedTuple):
    """How a command says a field for which there is no usual option, each time that its option is given.

    An operation, or settings, has them by the names of fields in its ``words``.

    Parameters
    ----------
    names
        Of the words that follow the option, as its help shows them.
    value
        Makes the value of the field of all of them: lists of words.
    """

    names: tuple[str, ...]
    value: Callable[[list[list[str]]], Any]


class Settings:
    """Base of settings: limits are checked when they are made, and NumPy's numbers and lists become Python's."""

    are_parts: ClassVar[bool] = True  # of other settings; not so operations, which are inputs
    use: ClassVar[str] = ""  # what an alternative is for, in one line of forms, help, and docs

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, hint in _converted(cls):
            object.__setattr__(self, name, converted(getattr(self, name), hint, name))
        check_params(self)
        self.check()

    def check(self) -> None:
        """Raise InvalidInput if settings do not fit each other; no data is read."""


def hints(cls: type) -> Mapping[str, Any]:
    """Types of the fields of a dataclass."""
    return _hints(cls)


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def kind_of(settings: Any) -> str:
    """Name of a class of settings among its alternatives: its ``kind``, or the name of the class in small letters."""
    cls = settings if isinstance(settings, type) else type(settings)
    kind: str = cls.__dict__.get("kind", cls.__name__.lower())
    return kind


@functools.cache
def alternatives(hint: Any) -> tuple[type, ...]:
    """Return the classes of settings that a part may have: those of a union, or one; () of another type."""
    members = typing.get_args(hint) if is_union(hint) else (hint,)
    return tuple(one for one in members if isinstance(one, type) and issubclass(one, Settings) and one.are_parts)


@functools.cache
def is_union(hint: Any) -> bool:
    """Whether a type is one of several."""
    return typing.get_origin(hint) in (Union, types.UnionType)


_SCALARS: dict[type, tuple[Any, str]] = {
    bool: ((bool, np.bool_), "True or False"),
    int: (numbers.Integral, "an integer"),
    float: (numbers.Real, "a finite number"),
    str: (str, "a text"),
}


def converted(value: Any, hint: Any, where: str) -> Any:
    """Return a value as its type has it: NumPy's numbers as Python's, lists and arrays as tuples, integers as floats.

    Raises
    ------
    InvalidInput
        If it is of another type, or a number that is not finite; ``where`` it is.
    """
    if is_union(hint):
        members = typing.get_args(hint)
        if value is None and type(None) in members:
            return None
        if classes := alternatives(hint):
            return _one_of(value, classes, where)
        return converted(value, next(one for one in members if one is not type(None)), where)
    if typing.get_origin(hint) is tuple:
        return _as_tuple(value, typing.get_args(hint), where)
    if hint not in _SCALARS:
        return _one_of(value, (hint,), where)
    kinds, words = _SCALARS[hint]
    is_truth = isinstance(value, (bool, np.bool_))
    if not isinstance(value, kinds) or (is_truth and hint is not bool):
        raise InvalidInput(f"{where} is {shown_value(value)}; give {words}")
    try:
        made = hint(value)
    except OverflowError:
        made = math.inf
    if hint is float and not math.isfinite(made):
        raise InvalidInput(f"{where} is {shown_value(value)}; give {words}")
    return made + 0.0 if hint is float else made  # -0.0 equals 0.0, and would have another id


def _as_tuple(value: Any, members: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    values = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(values, (list, tuple)):
        raise InvalidInput(f"{where} is {shown_value(value)}; give a list")
    if members[-1] is Ellipsis:
        members = (members[0],) * len(values)
    if len(values) != len(members):
        raise InvalidInput(f"{where} has {len(values)} values; give {len(members)}")
    return tuple(
        converted(one, hint, f"{where}[{n}]") for n, (one, hint) in enumerate(zip(values, members, strict=True))
    )


def _one_of(value: Any, classes: tuple[type, ...], where: str) -> Any:
    if type(value) not in classes:
        known = " or ".join(one.__name__ for one in classes)
        raise InvalidInput(f"{where} is {shown_value(value)}; give {known}")
    return value


def shown_value(value: Any) -> str:
    """Return a value as a sentence says it."""
    return type(value).__name__ if dataclasses.is_dataclass(value) else repr(value)[:_SHOWN_CHARACTERS]


def plain(value: Any) -> Any:
    """Return a value of a record as JSON holds it; settings with the name of their class."""
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if dataclasses.is_dataclass(value):
        return {**({"kind": kind_of(value)} if isinstance(value, Settings) else {}), **plain_fields(value)}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return str(value) if type(value) is int and abs(value) > LARGEST else value


def plain_fields(record: Any) -> dict[str, Any]:
    """Return every field of a record as JSON holds it."""
    return {field.name: plain(getattr(record, field.name)) for field in record_fields(record)}
