"""How files that a command names become inputs: what opens them, or makes the input of what they hold."""

import dataclasses
import glob
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.files import RECORD_ENDING, is_record, read_outputs
from napari_gpubio.core.operations.kinds import Conversion, conversion_to, kind_registered
from napari_gpubio.core.operations.records import (
    File,
    InputInfo,
    Operation,
    Output,
    Reading,
    file,
    input_infos,
    words_of,
)
from napari_gpubio.core.report import tell
from napari_gpubio.core.settings import alternatives, hints, is_union, record_fields


def flag_of(name: str) -> str:
    """Return the option that says a field."""
    return "--" + name.replace("_", "-")


class Way(NamedTuple):
    """How a file becomes an input: what opens it, and what makes the input of that."""

    opens: type[Reading]
    conversion: Conversion | None = None

    def fields(self) -> dict[str, tuple[type[Operation], dataclasses.Field[Any]]]:
        """What can be said of it, but for the file, what lies beside it, and settings in parts."""
        opens: type[Operation] = self.opens
        found = {field.name: (opens, field) for field in record_fields(opens)}
        if self.conversion is not None:
            cls = self.conversion.operation
            parts = [field for field in record_fields(cls) if not alternatives(hints(cls)[field.name])]
            found |= {field.name: (cls, field) for field in parts if field.name != self.conversion.field}
        return {name: one for name, one in found.items() if name not in ("file", "beside")}

    def made(self, path: Path, options: Mapping[str, Any]) -> Operation:
        """The operation that makes the input of a file."""
        values: dict[type, dict[str, Any]] = {}
        for name, (cls, field) in self.fields().items():
            if name in options:
                info, value = input_infos(cls).get(name), options[name]
                made = (
                    InputReader({}).opened(value, info)
                    if info is not None
                    else setting_of(value, hints(cls)[field.name])
                )
                values.setdefault(cls, {})[name] = cls.words[name].value(value) if name in cls.words else made
        opens: Any = self.opens
        opened: Operation = opens.at(opens.found_in(path), **values.get(self.opens, {}))
        if self.conversion is None:
            return opened
        cls = self.conversion.operation
        source, made = (words_of(one) for one in (opened.output().kind, next(iter(cls.makes.values()))))
        settings = "" if len(record_fields(cls)) == len(input_infos(cls)) else "; that verb has all of its settings"
        tell([f"{path.name} is a {source}, of which {cls.verb} makes the {made}{settings}"])
        return cls(**{self.conversion.field: opened}, **values.get(cls, {}))


def ways_to(kind: type) -> list[Way]:
    """Return all ways to an input of a kind; those that make it of another kind come last."""
    ways, conversion = [Way(one) for one in kind_registered(kind).opening], conversion_to(kind)
    if conversion is not None:
        source = kind_registered(input_infos(conversion.operation)[conversion.field].kind)
        ways += [Way(one, conversion) for one in source.opening]
    return ways


def files_named(word: str) -> list[str]:
    """Return the file, or those that a pattern names where the shell has not done so, as on Windows."""
    if not any(one in word for one in "*?") or Path(word).exists():
        return [word]
    if not (found := sorted(glob.glob(word, recursive=True))):  # noqa: PTH207 - absolute ones, too
        raise InvalidInput(f"no file is called {word!r}; check the path")
    return found


def setting_of(value: Any, hint: Any) -> Any:
    """Return the value of an option as a field of a type holds it."""
    if hint is File or (is_union(hint) and File in typing.get_args(hint)):
        return file(value)
    if isinstance(value, list):
        return tuple(map(file, value)) if File in typing.get_args(hint) else tuple(value)
    return value


class InputReader:
    """Opens inputs as options say; each option must be of use for one of them."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options, self._unused = options, set(options)
        self._records: list[str] = []

    def opened(self, path: str, info: InputInfo, *, is_first: bool = False) -> Operation | Output[Any]:
        """Return the operation that opens a file, or makes the input of it, or that a record describes."""
        every = ways_to(info.kind)
        if path.lower().endswith(RECORD_ENDING) and (not every or is_record(path)):
            self._records.append(Path(path).name)
            every_made = read_outputs(path)
            return every_made[0] if len(every_made) == 1 else every_made[0].of
        plain = [way for way in every if way.conversion is None and way.opens.opens(path)][:1]
        ways = plain + [way for way in every if way.conversion is not None]
        if not ways:
            raise InvalidInput(
                f"{info.label.lower()} is {Path(path).name}; give the record ({RECORD_ENDING}) of an operation that "
                f"makes {words_of(info.kind)}"
            )
        asked = ways if is_first or not plain else plain
        options = {name: value for name, value in self._options.items() if any(name in way.fields() for way in asked)}
        fitting = [way for way in ways if options.keys() <= way.fields().keys()]
        if not fitting:
            flags = " and ".join(map(flag_of, options))
            raise InvalidInput(f"{flags} are of files of different kinds; give those of one kind")
        self._unused -= options.keys()
        first, last = fitting[0], fitting[-1]
        is_last = last is not first and last.conversion is not None and last.conversion.takes(Path(path))
        return (last if is_last else first).made(Path(path), options)

    def check(self) -> None:
        """Raise InvalidInput if an option is of no use."""
        if not self._unused:
            return
        flags = ", ".join(flag_of(name) for name in sorted(self._unused))
        why = f"{self._records[0]} is a record, which says how it is read" if self._records else "no file is read so"
        raise InvalidInput(f"{why}; leave {flags} out")
