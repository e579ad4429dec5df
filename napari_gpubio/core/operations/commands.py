"""The command line's verb of an operation, made from its fields.

Inputs are files, or records of operations (``.json``). A part that is one of several classes of settings is chosen by
its name, and brings the options of that class only: the arguments are looked through for the choices first.
"""

import argparse
import dataclasses
import functools
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.command_line import (
    Parser,
    check_endings,
    integer,
    whole_numbers,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.command_help import (
    Formatter,
    Switch,
    commands,
    default_of,
    one_of,
    paragraphs,
    text_of,
    uses,
)
from napari_gpubio.core.operations.command_inputs import (
    InputReader,
    files_named,
    flag_of,
    setting_of,
    ways_to,
)
from napari_gpubio.core.operations.command_runs import run_verb
from napari_gpubio.core.operations.graphs import replaced_fields
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.records import (
    File,
    Held,
    InputInfo,
    Operation,
    Reading,
    Words,
    input_infos,
    words_of,
)
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.report import DEVICES, add_common_to
from napari_gpubio.core.settings import Settings, alternatives, hints, is_union, kind_of, part_info, record_fields

_RECORD, _READ = "record", "read"
_INPUTS, _RESULTS, _SETTINGS = "inputs: files, or records of verbs (.json)", "results, to files", "settings"
_MAX_SHOWN, _MAX_RESULTS = 12, 6  # inputs and settings, and results, in a short help, which has to fit on a screen


class _Option(NamedTuple):
    """A field as an option: of an operation, or of the settings in one of its parts, whose fields lead there."""

    path: tuple[str, ...]
    owner: type
    field: dataclasses.Field[Any]
    flag: str


def add_verbs(verbs: Any, module: Any) -> None:
    """Add the verbs of all operations in the module, or package, of an engine that are its own; see `add_verb`."""
    engine = module.__name__.removesuffix("operations")
    for one in vars(module).values():
        is_verb = isinstance(one, type) and issubclass(one, Operation) and one.verb
        if is_verb and one.__module__.startswith(engine) and not _takes_held(one):
            add_verb(verbs, one)


def _takes_held(operation: type[Operation]) -> bool:
    """Whether it is of arrays that no file holds."""
    return any(Held in (hint, *typing.get_args(hint)) for hint in hints(operation).values())


def add_verb(verbs: Any, operation: type[Operation]) -> None:
    """Add the verb of an operation to the command line's parser of verbs; its options are made when it is used."""
    is_listed = {} if issubclass(operation, Reading) else {"help": paragraphs(operation)[0].rstrip(".")}
    verb = verbs.add_parser(  # those that open files are not listed: all others do that, too
        operation.verb, **is_listed, formatter_class=Formatter, allow_abbrev=False, add_help=False
    )
    verb.prepare = functools.partial(_prepare, operation)
    verb.add_every = functools.partial(_add_every, operation)


def _prepare(operation: type[Operation], verb: Parser, arguments: Sequence[str]) -> None:
    """Add the options that a command with these arguments has."""
    chosen, every = _chosen(operation, arguments), _options(operation)
    given = [one for one in every if _is_chosen(one, chosen)]
    strange = {one.flag for one in every} - {one.flag for one in given}
    for argument in arguments:
        if (flag := argument.partition("=")[0]) in strange:
            owners = ", ".join(dict.fromkeys(kind_of(one.owner) for one in every if one.flag == flag))
            raise InvalidInput(f"{flag} is an option of {owners}, which is not chosen; leave it out, or choose it")
    _add_options(operation, verb, given, chosen, shows_all="--help-all" in arguments)
    verb.set_defaults(run=functools.partial(_run, operation, chosen))


def _add_every(operation: type[Operation], verb: Parser) -> None:
    """Add the options of all alternatives, for a shell that completes them."""
    once = {one.flag: one for one in reversed(_options(operation))}
    _add_options(operation, verb, [*once.values()], {}, shows_all=True)


def _add_options(
    operation: type[Operation],
    verb: Parser,
    given: Sequence[_Option],
    chosen: Mapping[tuple[str, ...], type],
    *,
    shows_all: bool,
) -> None:
    """Add options in groups; a short help has those that `_shown` tells."""
    reads, first = _reading_options(operation), _first(operation)
    shown = {one.path for one in ([*given, *reads] if shows_all else _shown(given, reads))}
    needed = [f"{one.flag} ..." for one in given if one.path != (first,) and _is_needed(one)]
    verb.usage = " ".join(["%(prog)s", *([first.upper()] if first else []), *needed, "[options]"])
    verb.description = "\n\n".join(paragraphs(operation)[: None if shows_all else 1])
    groups = {title: verb.add_argument_group(title) for title in (_INPUTS, _RESULTS, _SETTINGS)}
    for option in given:
        title = _group_of(option, operation, chosen, shows_all=shows_all)
        if title not in groups:
            classes = alternatives(hints(operation)[option.path[0]])
            groups[title] = verb.add_argument_group(title, uses(classes) or None if shows_all else None)
        _add_option(groups[title], option, first, shows_all=shows_all, hides=option.path not in shown)
    how = verb.add_argument_group("how files are read")
    for option in reads:
        _add_option(how, option, "", shows_all=shows_all, hides=option.path not in shown)
    hidden = len(given) + len(reads) - len(shown)
    hidden += _add_results(operation, groups[_RESULTS], None if shows_all else _MAX_RESULTS)
    running = verb.add_argument_group("every verb has")
    record = "what was done, as JSON, which other verbs take as an input"
    every = [running.add_argument("--record", type=Path, metavar="FILE", dest=_RECORD, help=record)]
    every += [running.add_argument("--device", default="auto", help=DEVICES), *add_common_to(verb, running)]
    verb.epilog = commands(operation.examples[: None if shows_all else 1])
    if not shows_all:
        flags = " ".join(one.option_strings[-1] for one in every)
        verb.epilog += f"\n\nAll options in full, and {hidden} more: --help-all. Every verb has {flags}"
        for action in every:
            action.help = argparse.SUPPRESS


def _shown(given: Sequence[_Option], reads: Sequence[_Option]) -> list[_Option]:
    """What a short help shows: what must be given, choices, and as many of the settings that are not advanced as fit.

    An operation's own come first, then those of its parts by turns, and at last how files are read.
    """
    plain = [one for one in given if _is_plain(one)]
    firsts = [one for one in plain if len(one.path) == 1 or _is_choice(one)]
    places = dict[tuple[str, ...], int]()
    turns = {}
    for one in plain:
        places[one.path[:-1]] = turns[one.path] = places.get(one.path[:-1], 0) + 1
    rest = sorted((one for one in plain if one not in firsts), key=lambda one: turns[one.path])
    rest += [one for one in reads if _is_plain(one)]
    return firsts + rest[: max(0, _MAX_SHOWN - len(firsts))]


def _group_of(
    option: _Option, operation: type[Operation], chosen: Mapping[tuple[str, ...], type], *, shows_all: bool
) -> str:
    """Heading under which a help has an option: of inputs, of settings, or of one part of these."""
    name = option.path[0]
    if name in input_infos(operation) or hints(operation)[name] is File:
        return _INPUTS
    classes = len(alternatives(hints(operation)[name]))
    if classes == 0 or (classes == 1 and not shows_all):
        return _SETTINGS
    kind = chosen.get((name,))
    return name.replace("_", " ") + (f": {kind_of(kind)}" if kind is not None and classes > 1 else "")


def _add_results(operation: type[Operation], group: Any, most: int | None) -> int:
    """Add options for the files that results go to; a help shows so many. Returns how many it does not show."""
    outputs = _outputs(operation)
    for name, flags in outputs.items():
        kind, text = kind_registered(operation.makes[name]), name.replace("_", " ")
        text += f" ({', '.join(kind.endings)})" if any(kind.endings) else ""
        text = text if name in [*outputs][:most] else argparse.SUPPRESS
        word = "FOLDER" if kind.is_folder else "FILE"
        group.add_argument(*flags, dest=_dest(name), type=Path, metavar=word, help=text)
    return len(outputs) - len([*outputs][:most])


# -- options ----------------------------------------------------------------------------------------------------------


def _options(operation: type[Settings]) -> list[_Option]:
    """Every option that there is, each once: of all alternatives of all parts."""
    found, places = [*_walk(operation, ())], dict[str, set[tuple[str, ...]]]()
    for path, _, field in found:
        places.setdefault(field.name, set()).add(path[:-1])
    return [  # the name of the part goes before that of a setting that several parts have
        _Option(path, owner, field, flag_of("-".join(path[-2:] if len(places[field.name]) > 1 else path[-1:])))
        for path, owner, field in found
    ]


def _reading_options(operation: type[Operation]) -> list[_Option]:
    """Fields of the operations that open inputs, or make the first one, but for those that are options already."""
    first, taken = _first(operation), {one.flag for one in _options(operation)}
    fields: dict[str, tuple[type[Operation], dataclasses.Field[Any]]] = {}
    for name, info in input_infos(operation).items():
        for way in ways_to(info.kind):
            if way.conversion is None or name == first:
                fields = way.fields() | fields
    found = [_Option((_READ, name), owner, field, flag_of(name)) for name, (owner, field) in fields.items()]
    return [one for one in found if one.flag not in taken]


def _walk(cls: type, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], type, dataclasses.Field[Any]]]:
    for field in record_fields(cls):
        path, classes = (*before, field.name), alternatives(hints(cls)[field.name])
        if len(classes) != 1:  # of one there is nothing to choose
            yield path, cls, field
        for one in classes:
            yield from _walk(one, path)


def _dest(name: str) -> str:
    return f"out {name}"


def _place(path: tuple[str, ...]) -> str:
    """Where the value of a field is among the arguments: under a name that nothing else has."""
    return f"field {'.'.join(path)}"


def _outputs(operation: type[Operation]) -> dict[str, tuple[str, ...]]:
    """Flags of the results that can be written: ``--out`` of the main one, ``--noise-out`` of others."""
    names = [name for name, kind in operation.makes.items() if kind_registered(kind).write is not None]
    main = next(iter(operation.makes))
    return {name: ("--out", "-o") if name == main else (flag_of(f"{name}-out"),) for name in names}


def _chosen(cls: type, arguments: Sequence[str], before: tuple[str, ...] = ()) -> dict[tuple[str, ...], type]:
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
            found |= {path: by_kind[known], **_chosen(by_kind[known], arguments, path)}
    return found


def _is_chosen(option: _Option, chosen: Mapping[tuple[str, ...], type]) -> bool:
    """Whether an option is of the operation itself or of a chosen class, and of chosen classes around that."""
    within = option.path[:-1]
    return not within or chosen.get(within) is option.owner


def _first(operation: type[Operation]) -> str:
    """The field that is given without its name: the first input, or file."""
    fields = record_fields(operation)
    inputs = input_infos(operation)
    return next((f.name for f in fields if f.name in inputs or hints(operation)[f.name] is File), "")


def _is_plain(option: _Option) -> bool:
    """Whether a short help would show an option."""
    info = param_info(option.field) or part_info(option.field)
    return info is None or not info.advanced


def _is_needed(option: _Option) -> bool:
    """Whether it must be given."""
    info = input_infos(option.owner).get(option.field.name) if issubclass(option.owner, Operation) else None
    needed = option.field.default is dataclasses.MISSING if info is None else not info.optional
    return needed and option.path[0] != _READ and not _is_choice(option)


def _is_choice(option: _Option) -> bool:
    """Whether it says which alternative a part is."""
    return bool(alternatives(hints(option.owner)[option.field.name]))


def _add_option(group: Any, option: _Option, first: str, *, shows_all: bool, hides: bool = False) -> None:
    field, hint = option.field, hints(option.owner)[option.field.name]
    inputs = input_infos(option.owner) if issubclass(option.owner, Operation) else {}
    how = _how(field, hint, inputs.get(field.name), shows_all=shows_all, words=_words_of(option))
    dest, needed = _place(option.path), _is_needed(option)
    how |= {"help": argparse.SUPPRESS} if hides else {}
    if option.path == (first,):
        how["nargs"] = {(True, True): "+", (True, False): "*", (False, False): "?"}.get(("nargs" in how, needed))
        how.pop("action", None)
        group.add_argument(dest, **{**how, "metavar": first.upper()})
        return
    group.add_argument(option.flag, dest=dest, required=needed, **how)


def _words_of(option: _Option) -> Words | None:
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


# -- from options to an operation -------------------------------------------------------------------------------------


def _made(
    cls: type,
    values: Mapping[str, Any],
    chosen: Mapping[tuple[str, ...], type],
    before: tuple[str, ...] = (),
    usual: Any = None,
) -> Any:
    """An operation, or settings, of the options that were given; of the rest as ``usual``, if that is of the class."""
    read = InputReader(_read_with(cls, values)) if issubclass(cls, Operation) else None
    inputs = input_infos(cls) if issubclass(cls, Operation) else {}
    given = dict[str, Any]()
    for field in dataclasses.fields(cls):
        path = (*before, field.name)
        value = values.get(_place(path))
        if path in chosen:
            given[field.name] = _made(chosen[path], values, chosen, path, getattr(usual, field.name, field.default))
        elif value is None or value == []:
            continue
        elif info := inputs.get(field.name):
            assert read is not None
            paths = [path for one in value for path in files_named(one)] if info.many else [value]
            opened = tuple(read.opened(one, info, is_first=field.name == _first(cls)) for one in paths)
            given[field.name] = opened if info.many else opened[0]
        elif words := getattr(cls, "words", {}).get(field.name):
            given[field.name] = words.value(value)
        else:
            given[field.name] = setting_of(value, hints(cls)[field.name])
    if read is not None:
        read.check()
    if issubclass(cls, Reading) and "file" in given and "beside" not in given:
        return cls.at(given.pop("file").path, **given)
    usual = usual if type(usual) is cls else None
    return cls(**given) if usual is None else replaced_fields(usual, given)


def _read_with(operation: type[Operation], values: Mapping[str, Any]) -> dict[str, Any]:
    """What the options say of how files are read."""
    found = {one.field.name: values.get(_place(one.path)) for one in _reading_options(operation)}
    return {name: value for name, value in found.items() if value is not None}


def _run(operation: type[Operation], chosen: Mapping[tuple[str, ...], type], options: argparse.Namespace) -> int:
    """Run a verb with its options."""
    values = vars(options)
    outputs = {flags[0]: (name, values[_dest(name)]) for name, flags in _outputs(operation).items()}
    wanted = {flag: one for flag, one in outputs.items() if one[1] is not None}
    tells = operation.needs_no_file or (options.json and operation.summary is not Operation.summary)
    if outputs and not wanted and options.record is None and not tells:
        raise InvalidInput(f"nothing is to be written; give {' or '.join(outputs)}")
    for flag, (name, path) in wanted.items():
        check_endings({flag: path}, kind_registered(operation.makes[name]).endings)
    return run_verb(_made(operation, values, chosen), wanted, options)
