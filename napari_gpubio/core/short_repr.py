"""The `repr` of dataclasses with arrays: in a line, their shapes and types, never what is in them."""

import dataclasses
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

_FEW, _SHOWN = 6, 100  # values that are printed, and characters of one that is not of this package
_LINE = 120  # characters that are aimed at


class ShortRepr:
    """Base of dataclasses with arrays, of which `repr` shows shapes and types, not what is in them.

    ``Transform(matrix=4 x 4 float64, complete=True)``: fields with nothing in them are left out. What would be longer
    than a line leaves out usual numbers, too, shows of parts the first array only, and then fewer of its arrays:
    ``DenoisedScan(denoised=DiffusionScan(96 x 96 x 60 x 28 float32), noise=96 x 96 x 60 float32, ...)``.
    """

    __slots__ = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__repr__" not in cls.__dict__:  # `dataclass` keeps one that stands in the class itself
            cls.__repr__ = short_repr  # type: ignore[method-assign]


def short_repr(value: Any) -> str:
    """Return the text of a `ShortRepr`; of one that is no dataclass that of any object."""
    if not dataclasses.is_dataclass(value):
        return object.__repr__(value)
    fields = [(one, getattr(value, one.name)) for one in dataclasses.fields(value) if one.repr]
    text = _joined(value, {one.name: _field_text(part) for one, part in fields})
    return text if len(text) <= _LINE else _in_a_line(value, fields)


def _in_a_line(value: Any, fields: Sequence[tuple[Any, Any]]) -> str:
    """The text of a dataclass whose fields are too long for a line: without the last ones that are no plain numbers."""
    shown = {one.name: part for one, part in fields if not _is_usual(one, part)}
    texts = {name: _in_a_word(part) for name, part in shown.items()}
    parts = [name for name, part in shown.items() if texts[name] and not isinstance(part, int | float | str | Path)]
    rest = ""
    while len(text := _joined(value, texts, rest)) > _LINE and len(parts) > 1:
        del texts[parts.pop()]
        rest = "..."
    return text


def _joined(value: Any, texts: Mapping[str, str], rest: str = "") -> str:
    fields = [f"{name}={text}" for name, text in texts.items() if text]
    return f"{type(value).__name__}({', '.join([*fields, *filter(None, [rest])])})"


def _field_text(value: Any) -> str:
    """What `repr` shows of a field; nothing of None and of what is empty."""
    if _is_array(value):
        return _shape_text(value) if value.shape else repr(value.item())
    if value is None or (isinstance(value, Sized) and not isinstance(value, ShortRepr) and len(value) == 0):
        return ""
    if _is_collection(value) and (len(value) > _FEW or len(repr(value)) > _SHOWN):
        return f"<{len(value):,} items>"
    text = repr(value)
    return text if len(text) <= _SHOWN or isinstance(value, ShortRepr) else f"{text[:_SHOWN]}..."


def _in_a_word(value: Any) -> str:
    """What is shown of a field where all of them are too long for a line."""
    text = _field_text(value)
    if isinstance(value, Path):
        return repr(value.name)
    if _is_part(value):
        parts = (getattr(value, one.name) for one in dataclasses.fields(value) if one.repr)
        return f"{type(value).__name__}({next((_shape_text(part) for part in parts if _is_array(part)), '...')})"
    if _is_collection(value) and text:
        return f"<{len(value):,} items>"
    return text


def _is_usual(field: "dataclasses.Field[Any]", value: Any) -> bool:
    return isinstance(value, int | float | str) and bool(value == field.default)


def _is_part(value: Any) -> bool:
    return isinstance(value, ShortRepr) and dataclasses.is_dataclass(value)


def _is_array(value: Any) -> bool:
    return isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype")


def _shape_text(array: Any) -> str:
    return " ".join(filter(None, (" x ".join(map(str, array.shape)), str(array.dtype))))


def _is_collection(value: Any) -> bool:
    return isinstance(value, tuple | list | set | frozenset | Mapping)
