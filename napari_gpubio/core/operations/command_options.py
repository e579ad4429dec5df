"""The options of a verb, made from the fields of its operation, and of the settings in its parts."""

import argparse
import dataclasses
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from napari_gpubio.core.command_line import integer, whole_numbers
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.command_help import Switch, default_of, one_of, text_of
from napari_gpubio.core.operations.command_inputs import flag_of, ways_to
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.records import File, InputInfo, Operation, Words, input_infos, words_of
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.settings import Settings, alternatives, hints, is_union, kind_of, part_info, record_fields

_READ = "read"


class Option(NamedTuple):
    """A field as an option: of an operation, or of the settings in one of its parts, whose fields lead there."""

    path: tuple[str, ...]
    owner: type
    field: dataclasses.Field[Any]
    flag: str

    @property
    def is_plain(self) -> bool:
        """Whether a short help may show it, and a form outside of what is folded away."""
        info = param_info(self.field) or part_info(self.field)
        return info is None or not info.advanced

    @property
    def is_choice(self) -> bool:
        """Whether it says which alternative a part is."""
        return bool(alternatives(hints(self.owner)[self.field.name]))

    @property
    def is_needed(self) -> bool:
        """Whether it must be given."""
        info = input_infos(self.owner).get(self.field.name) if issubclass(self.owner, Operation) else None
        needed = self.field.default is dataclasses.MISSING if info is None else not info.optional
        return needed and self.path[0] != _READ and not self.is_choice

    def is_of(self, chosen: Mapping[tuple[str, ...], type]) -> bool:
        """Whether it is of the operation itself or of a chosen class, and of chosen classes around that."""
        within = self.path[:-1]
        return not within or chosen.get(within) is self.owner


def options_of(operation: type[Settings]) -> list[Option]:
    """Every option that there is, each once: of all alternatives of all parts."""
    found, places = [*_walk(operation, ())], dict[str, set[tuple[str, ...]]]()
    for path, _, field in found:
        places.setdefault(field.name, set()).add(path[:-1])
    return [  # the name of the part goes before that of a setting that several parts have
        Option(path, owner, field, flag_of("-".join(path[-2:] if len(places[field.name]) > 1 else path[-1:])))
        for path, owner, field in found
    ]


def reading_options(operation: type[Operation]) -> list[Option]:
    """Fields of the operations that open inputs, or make the first one, but for those that are options already."""
    first, taken = first_of_fields(operation), {one.flag for one in options_of(operation)}
    fields: dict[str, tuple[type[Operation], dataclasses.Field[Any]]] = {}
    for name, info in input_infos(operation).items():
        for way in ways_to(info.kind):
            if way.conversion is None or name == first:
                fields = way.fields() | fields
    found = [Option((_READ, name), owner, field, flag_of(name)) for name, (owner, field) in fields.items()]
    return [one for one in found if one.flag not in taken]


def _walk(cls: type, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], type, dataclasses.Field[Any]]]:
    for field in record_fields(cls):
        path, classes = (*before, field.name), alternatives(hints(cls)[field.name])
        if len(classes) != 1:  # of one there is nothing to choose
            yield path, cls, field
        for one in classes:
            yield from _walk(one, path)


def dest_of(name: str) -> str:
    """Return the place of a result's file among the arguments."""
    return f"out {name}"


def place_of(path: tuple[str, ...]) -> str:
    """Where the value of a field is among the arguments: under a name that nothing else has."""
    return f"field {'.'.join(path)}"


def outputs_of(operation: type[Operation]) -> dict[str, tuple[str, ...]]:
    """Flags of the results that can be written: ``--out`` of the main one, ``--noise-out`` of others."""
    names = [name for name, kind in operation.makes.items() if kind_registered(kind).write is not None]
    main = next(iter(operation.makes))
    return {name: ("--out", "-o") if name == main else (flag_of(f"{name}-out"),) for name in names}


def chosen_by(cls: type, arguments: Sequence[str], before: tuple[str, ...] = ()) -> dict[tuple[str, ...], type]:
    """Which class of settings each part has, by the fields that lead to it."""
    found: dict[tuple[str, ...], type] = {}
    for field in dataclasses.fields(cls):
        if classes := alternatives(hints(cls)[field.name]):
            by_kind = {kind_of(one): one for one in classes}
            default = classes[0] if field.default is dataclasses.MISSING else type(field.default)
            known = "" if field.default is None else kind_of(default)
            if len(classes) > 1:
                parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
                parser.add_argument(flag_of(field.name), dest="kind", default=known)
                known = parser.parse_known_args([*arguments])[0].kind
            if field.default is None and not known:
                continue
            if known not in by_kind:
                raise InvalidInput(f"{flag_of(field.name)} is {known[:60]!r}; choose one of {', '.join(by_kind)}")
            path = (*before, field.name)
            found |= {path: by_kind[known], **chosen_by(by_kind[known], arguments, path)}
    return found


def first_of_fields(operation: type[Operation]) -> str:
    """The field that is given without its name: the first input, or file."""
    fields = record_fields(operation)
    inputs = input_infos(operation)
    return next((f.name for f in fields if f.name in inputs or hints(operation)[f.name] is File), "")


def add_option(group: Any, option: Option, first: str, *, shows_all: bool, hides: bool = False) -> None:
    """Add an option to a group of a parser; that of the field ``first`` is given without its name."""
    field, hint = option.field, hints(option.owner)[option.field.name]
    inputs = input_infos(option.owner) if issubclass(option.owner, Operation) else {}
    how = _how(field, hint, inputs.get(field.name), shows_all=shows_all, words=_words_of(option))
    dest, needed = place_of(option.path), option.is_needed
    how |= {"help": argparse.SUPPRESS} if hides else {}
    if option.path == (first,):
        how["nargs"] = {(True, True): "+", (True, False): "*", (False, False): "?"}.get(("nargs" in how, needed))
        how.pop("action", None)
        group.add_argument(dest, **{**how, "metavar": first.upper()})
        return
    group.add_argument(option.flag, dest=dest, required=needed, **how)


def _words_of(option: Option) -> Words | None:
    """How a command says the field of an operation, if not in the usual way."""
    owner: Any = option.owner
    return getattr(owner, "words", {}).get(option.field.name)


def _how(
    field: dataclasses.Field[Any], hint: Any, info: InputInfo | None, *, shows_all: bool, words: Words | None = None
) -> dict[str, Any]:
    """Keywords of argparse for a field."""
    if info is not None:
        kind = f" [{words_of(info.kind)}]" if shows_all and info.kind is not Volume else ""
        text = text_of(info.help, kind, shows_all=shows_all)
        many = {"nargs": "+", "action": "extend"} if info.many else {}
        return {"metavar": "FILE", "help": text, **many}
    setting = param_info(field) or part_info(field)
    if setting is None:
        raise TypeError(f"{field.name} has neither param nor part, so that nobody knows what it is")
    text = text_of(setting.help, default_of(field), shows_all=shows_all)
    if words is not None:
        return {"action": "append", "nargs": len(words.names), "metavar": words.names, "help": text}
    kinds: Sequence[str] = [kind_of(one) for one in alternatives(hint)] or getattr(setting, "choices", None) or ()
    if kinds:
        return {"choices": kinds, "metavar": "WORD", "help": one_of(setting.help, kinds, field, shows_all=shows_all)}
    hint = next((one for one in typing.get_args(hint) if one is not type(None)), hint) if is_union(hint) else hint
    if hint is bool:
        return {"action": Switch, "usual": field.default is True, "help": text}
    if hint is File:
        return {"metavar": "FILE", "help": text}
    if hint in _WORDS:
        return {"type": integer if hint is int else hint, "metavar": setting.unit.upper() or _WORDS[hint], "help": text}
    members = typing.get_args(hint)
    count = "+" if members[-1:] == (Ellipsis,) else len(members)
    if members == (int, Ellipsis):
        return {"type": whole_numbers, "metavar": "NUMBERS", "help": text}
    if typing.get_origin(hint) is tuple and members[0] in _WORDS:
        word = setting.unit.upper() or _WORDS[members[0]]
        metavar = word if count == "+" else (word,) * len(members)
        return {"type": members[0], "nargs": count, "metavar": metavar, "help": text}
    if typing.get_origin(hint) is tuple and members[0] is File:
        return {"metavar": "FILE", "nargs": "*", "help": text}
    raise TypeError(f"{field.name} is {hint}, which no option can say")


_WORDS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}
