"""Operations together: all that one needs, and its files; one in the place of another."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from napari_gpubio.core.operations.records import File, Held, Left, Operation, Output
from napari_gpubio.core.settings import Settings, record_fields
from napari_gpubio.core.text import one_line

S = TypeVar("S", bound=Settings)


def ancestry(*operations: Operation) -> list[Operation]:
    """Return operations and all that they need, each once and after what it needs."""
    found: dict[str, Operation] = {}
    waiting = [(one, False) for one in reversed(operations)]
    while waiting:
        one, ready = waiting.pop()
        if one.id in found:
            continue
        if ready:
            found[one.id] = one
        else:
            waiting.append((one, True))
            waiting += [(ref.of, False) for _, ref in reversed([*one.inputs()])]
    return list(found.values())


def changed_fields(record: Any) -> list[dataclasses.Field[Any]]:
    """Fields of a record that differ from their defaults; those that have none are among them."""
    return [f for f in dataclasses.fields(record) if not _is_default(getattr(record, f.name), f.default)]


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(default, Left):
        return value in (None, ())
    return default is not dataclasses.MISSING and value == default


def listed_fields(record: Any, numbers: Mapping[str, int]) -> Iterator[str]:
    """Yield what a record says: inputs by their numbers, and settings that differ from their defaults."""

    def words(value: Any) -> str:
        if isinstance(value, Output):
            return f"{numbers[value.of.id]}{'' if value == value.of.output() else f' ({value.name})'}"
        if isinstance(value, tuple):
            return f"[{', '.join(map(words, value))}]"
        if isinstance(value, Settings):
            return f"{type(value).__name__}({', '.join(listed_fields(value, numbers))})"
        return one_line(getattr(value, "path", None) or repr(value))

    return (f"{field.name} {words(getattr(record, field.name))}" for field in changed_fields(record))


def replaced_fields(record: S, changes: Mapping[str, Any]) -> S:
    """Return an operation, or settings, with other values of some fields."""
    old: Any = record
    made: S = dataclasses.replace(old, **changes)
    return made


def _values(operations: Sequence[Operation], kind: type) -> Iterator[Any]:
    """Values of a type in operations and all that they need, also in their parts and in tuples."""
    return (value for one in ancestry(*operations) for value in own_values(one, kind))


def own_values(record: Any, kind: type) -> Iterator[Any]:
    """Values of a type in an operation, or settings, alone, also in parts and in tuples."""
    for field in record_fields(record):
        waiting: list[Any] = [getattr(record, field.name)]
        while waiting:
            value = waiting.pop(0)
            if isinstance(value, kind):
                yield value
            elif isinstance(value, tuple):
                waiting += value
            elif isinstance(value, Settings) and not isinstance(value, Operation):
                yield from own_values(value, kind)


def files_of(*operations: Operation) -> list[File]:
    """Return the files that operations and all that they need are made from, each once."""
    return list(dict.fromkeys(_values(operations, File)))


def held_in(operations: Sequence[Operation]) -> set[str]:
    """Checksums of the arrays that operations and all that they need are made from."""
    return {one.checksum for one in _values(operations, Held)}
