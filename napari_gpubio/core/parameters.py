"""Parameters written once: a dataclass field that carries its label, unit and limits.

The checks of a settings class, the form that a dock widget shows and a command's options are made from these fields.
"""

import dataclasses
import functools
import math
import numbers
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput

Settings = TypeVar("Settings", bound=Any)
_KEY = "napari_gpubio"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ParamInfo:
    """What a form and a check must know of one parameter."""

    label: str
    help: str
    unit: str = ""
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str, ...] | None = None
    advanced: bool = False


def param(default: Any, label: str, help: str, *, compare: bool = True, **info: Any) -> Any:  # noqa: A002 - its word
    """Give a dataclass field with a label, a help sentence, and optionally unit, limits, choices.

    Parameters
    ----------
    default
        The default value; its type is the parameter's type.
    label, help
        Short name and one sentence, both shown to the user.
    compare
        Whether settings with another value are other ones; not so of a name, which makes no difference.
    **info
        ``unit``, ``minimum`` (allowed), ``above`` (not allowed itself), ``maximum``, ``step``, ``choices``,
        ``advanced``; see `ParamInfo`.
    """
    if "choices" in info:
        info["choices"] = tuple(info["choices"])
    metadata = {_KEY: ParamInfo(label=label, help=help, **info)}
    return dataclasses.field(default=default, compare=compare, metadata=metadata)


def param_info(field: dataclasses.Field[Any]) -> ParamInfo | None:
    """Return what `param` recorded for a field, or None for an ordinary field."""
    return field.metadata.get(_KEY)


def check_params(settings: Any) -> None:
    """Check every `param` field of a dataclass instance against its own limits; NumPy scalars become Python's.

    Raises
    ------
    InvalidInput
        With the parameter's name, its value and what is allowed.
    """
    cls: Any = type(settings)
    for name, default, info in _params(cls):
        value = getattr(settings, name)
        if value is None and default is None:
            continue
        value = _as_kind(name, value, info.unit, type(value if default is None else default))
        object.__setattr__(settings, name, value)
        _check(name, value, info)


@functools.cache
def _params(cls: type) -> tuple[tuple[str, Any, ParamInfo], ...]:
    """Names, defaults and limits of the parameters of a class."""
    found = ((field.name, field.default, param_info(field)) for field in dataclasses.fields(cls))
    return tuple((name, default, info) for name, default, info in found if info is not None)


def check_unused(settings: Any, names: Iterable[str], why: str) -> None:
    """Raise InvalidInput if one of the parameters that a run has no use for is not its default; ``why`` it has none."""
    for name in names:
        field = type(settings).__dataclass_fields__[name]
        if (value := getattr(settings, name)) != field.default:
            raise InvalidInput(f"{name} is {_with_unit(value, field)}, which has no effect: {why}; leave it out")


def _with_unit(value: Any, field: dataclasses.Field[Any]) -> str:
    info = param_info(field)
    unit = f" {info.unit}" if info is not None and info.unit else ""
    return f"{value:g}{unit}" if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)


_KINDS: dict[type, Any] = {bool: (bool, np.bool_), int: numbers.Integral, float: numbers.Real, str: str}
_KIND_NAMES = {bool: "True or False", int: "an integer", float: "a number", str: "a text"}


def _as_kind(name: str, value: Any, unit: str, kind: type) -> Any:
    """The value as the type that the default has."""
    is_truth = isinstance(value, (bool, np.bool_))
    if isinstance(value, numbers.Real) and not math.isfinite(value):
        raise InvalidInput(f"{name} is {value}; give a finite number{unit and ' in ' + unit}")
    if not isinstance(value, _KINDS[kind]) or (is_truth and kind is not bool):
        raise InvalidInput(f"{name} is {value!r}; give {_KIND_NAMES[kind]}")
    return kind(value)


def _check(name: str, value: Any, info: ParamInfo) -> None:
    if info.choices is not None:
        if value not in info.choices:
            raise InvalidInput(f"{name} is {value!r}; choose one of {', '.join(map(repr, info.choices))}")
        return
    if isinstance(value, (bool, str)):
        return
    unit = f" {info.unit}" if info.unit else ""
    if info.above is not None and value <= info.above:
        raise InvalidInput(f"{name} is {value:g}{unit}; it must be greater than {info.above:g}{unit}")
    if info.minimum is not None and value < info.minimum:
        raise InvalidInput(f"{name} is {value:g}{unit}; it must be at least {info.minimum:g}{unit}")
    if info.maximum is not None and value > info.maximum:
        raise InvalidInput(f"{name} is {value:g}{unit}; it must be at most {info.maximum:g}{unit}")
