"""The command line's verb of an operation, made from its fields.

Inputs are files, or records of operations (``.json``). A part that is one of several classes of settings is chosen by
its name, and brings the options of that class only: the arguments are looked through for the choices first.
"""

import argparse
import dataclasses
import functools
import inspect
import itertools
import re
import textwrap
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
from napari_gpubio.core.operations.command_inputs import (
    RECORD_ENDING,
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
from napari_gpubio.core.settings import Settings, alternatives, hints, is_union, kind_of, part_info, record_fields

_RECORD, _READ = "record", "read"
_MAX_SHOWN, _MAX_READ = (
    18,
    5,
)  # options in a short help, and of reading: of more, these, and all but the first of parts


class _Option(NamedTuple):
    """A field as an option: of an operation, or of the settings in one of its parts, whose fields lead there."""

    path: tuple[str, ...]
    owner: type
    field: dataclasses.Field[Any]
    flag: str


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """A column of options that is wide enough for most."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=27)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, argparse.BooleanOptionalAction):  # what changes the default
            return action.option_strings[bool(action.default)]
        return super()._format_action_invocation(action)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == argparse.ONE_OR_MORE:  # argparse writes the word twice
            return f"{action.metavar or default_metavar} ..."
        return super()._format_args(action, default_metavar)


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
    named = {} if issubclass(operation, Reading) else {"help": _paragraphs(operation)[0].rstrip(".")}
    verb = verbs.add_parser(  # those that open files are not listed: all others do that, too
        operation.verb,
        **named,
        usage=f"%(prog)s {_first(operation).upper()} [options]",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    verb.prepare = functools.partial(_prepare, operation)


def _paragraphs(operation: type[Operation]) -> list[str]:
    return [" ".join(one.split()) for one in inspect.cleandoc(operation.__doc__ or "").split("\n\n")]


def _uses(operation: type[Operation]) -> list[str]:
    """What the alternatives of each part are for, as far as their classes say it."""
    lines = list[str]()
    for field in record_fields(operation):
        classes: tuple[Any, ...] = alternatives(hints(operation)[field.name])
        told = {kind_of(one): one.use for one in classes if one.use}
        if told:
            each = (textwrap.wrap(f"  {kind:16} {use}", 79, subsequent_indent=" " * 19) for kind, use in told.items())
            lines += [f"{field.name}:", *itertools.chain.from_iterable(each), ""]
    return lines


def _prepare(operation: type[Operation], verb: Parser, arguments: Sequence[str]) -> None:
    """Add the options that a command with these arguments has."""
    shows_all = "--help-all" in arguments
    chosen, most = _chosen(operation, arguments), None if shows_all else 1
    verb.description = "\n\n".join(_paragraphs(operation)[:most])
    examples = (f"example: napari-gpubio {one}" for one in operation.examples[:most])
    verb.epilog = "\n".join([*_uses(operation), *examples])
    verb.add_argument("--help-all", action="help", help="show this with all options, in full")
    every = [*_options(operation)]
    strange = {one.flag for one in every} - {one.flag for one in every if _is_chosen(one, chosen)}
    for argument in arguments:
        if (flag := argument.partition("=")[0]) in strange:
            owners = ", ".join(dict.fromkeys(kind_of(one.owner) for one in every if one.flag == flag))
            raise InvalidInput(f"{flag} is an option of {owners}, which is not chosen; leave it out, or choose it")
    first, reads = _first(operation), _reading_options(operation)
    given = [one for one in every if _is_chosen(one, chosen)]
    is_long = not shows_all and sum(map(_is_plain, [*given, *reads])) > _MAX_SHOWN
    firsts = {option.path[:-1]: option for option in reversed([one for one in given if _is_plain(one)])}
    for option in given:
        is_shown = len(option.path) == 1 or option in firsts.values() or _is_choice(option)
        _add_option(verb, option, first, shows_all=shows_all, hides=is_long and not is_shown)
    hides_reads = is_long and sum(map(_is_plain, reads)) > _MAX_READ
    if reads:
        how = verb.add_argument_group("how files are read" + ": see --help-all" * hides_reads)
        for option in reads:
            _add_option(how, option, "", shows_all=shows_all, hides=hides_reads)
    files = verb.add_argument_group(f"results, to files (inputs may be files, or records {RECORD_ENDING})")
    for name, flags in _outputs(operation).items():
        kind, text = kind_registered(operation.makes[name]), name.replace("_", " ")
        text += f" ({', '.join(kind.endings)})" if any(kind.endings) else ""
        word = "FOLDER" if kind.is_folder else "FILE"
        files.add_argument(*flags, dest=_dest(name), type=Path, metavar=word, help=text)
    files.add_argument("--record", type=Path, metavar="FILE", dest=_RECORD, help="what was done, as JSON")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.set_defaults(run=functools.partial(_run, operation, chosen))


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
            known = kind_of(default)
            if len(classes) > 1:
                parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
                parser.add_argument(flag_of(field.name), dest="kind", default=known)
                known = parser.parse_known_args([*arguments])[0].kind
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


def _is_choice(option: _Option) -> bool:
    """Whether it says which alternative a part is."""
    return bool(alternatives(hints(option.owner)[option.field.name]))


def _add_option(verb: Any, option: _Option, first: str, *, shows_all: bool, hides: bool = False) -> None:
    field, hint = option.field, hints(option.owner)[option.field.name]
    inputs = input_infos(option.owner) if issubclass(option.owner, Operation) else {}
    how = _how(field, hint, inputs.get(field.name), shows_all=shows_all, words=_words_of(option))
    dest = _place(option.path)
    how |= {"help": argparse.SUPPRESS} if hides else {}
    if option.path == (first,):
        needed = how.pop("required", False)
        how["nargs"] = {(True, True): "+", (True, False): "*", (False, False): "?"}.get(("nargs" in how, needed))
        how.pop("action", None)
        verb.add_argument(dest, **{**how, "metavar": first.upper()})
        return
    verb.add_argument(option.flag, dest=dest, **how)


def _words_of(option: _Option) -> Words | None:
    """How a command says the field of an operation, if not in the usual way."""
    owner: Any = option.owner
    return getattr(owner, "words", {}).get(option.field.name)


def _how(
    field: dataclasses.Field[Any], hint: Any, info: InputInfo | None, *, shows_all: bool, words: Words | None = None
) -> dict[str, Any]:
    """Keywords of argparse for a field."""
    needed = field.default is dataclasses.MISSING
    if info is not None:
        kind = f" [{words_of(info.kind)}]" if shows_all and info.kind is not Volume else ""
        text = _help(info.help, kind, shows_all=shows_all)
        many = {"nargs": "+", "action": "extend"} if info.many else {}
        return {"metavar": "FILE", "required": not info.optional, "help": text, **many}
    setting = param_info(field) or part_info(field)
    if setting is None:
        raise TypeError(f"{field.name} has neither param nor part, so that nobody knows what it is")
    text = _help(setting.help, _default(field), shows_all=shows_all)
    text = argparse.SUPPRESS if setting.advanced and not shows_all else text
    if words is not None:
        return {"action": "append", "nargs": len(words.names), "metavar": words.names, "help": text}
    if classes := alternatives(hint):
        return {"choices": [kind_of(one) for one in classes], "help": text}
    hint = next((one for one in typing.get_args(hint) if one is not type(None)), hint) if is_union(hint) else hint
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction, "help": text}
    if hint is File:
        return {"metavar": "FILE", "required": needed, "help": text}
    if hint in _WORDS:
        choices = getattr(setting, "choices", None)
        named = {} if choices else {"metavar": setting.unit.upper() or _WORDS[hint]}
        return {"type": integer if hint is int else hint, "choices": choices, "help": text, **named}
    members = typing.get_args(hint)
    count = "+" if members[-1:] == (Ellipsis,) else len(members)
    if members == (int, Ellipsis):
        return {"type": whole_numbers, "metavar": "NUMBERS", "help": text}
    if typing.get_origin(hint) is tuple and members[0] in _WORDS:
        word = setting.unit.upper() or _WORDS[members[0]]
        metavar = word if count == "+" else (word,) * len(members)
        return {"type": members[0], "nargs": count, "metavar": metavar, "required": needed, "help": text}
    if typing.get_origin(hint) is tuple and members[0] is File:
        return {"metavar": "FILE", "nargs": "*", "help": text}
    raise TypeError(f"{field.name} is {hint}, which no option can say")


_WORDS: dict[Any, str] = {int: "N", float: "X", str: "TEXT"}


def _help(text: str, default: str, *, shows_all: bool) -> str:
    """All that is to be said of an option, or its first sentence, or clause."""
    first = re.split(r"(?<! al)[.:;] ", text, maxsplit=1)[0].rstrip(".")
    return f"{text if shows_all else first}{default}".replace("%", "%%")


def _default(field: dataclasses.Field[Any]) -> str:
    nothing = (dataclasses.MISSING, None, False)  # by identity, since 0.0 == False
    if field.default in ((), "") or any(field.default is one for one in nothing):
        return ""
    value = kind_of(field.default) if isinstance(field.default, Settings) else field.default
    return f" (default: {' '.join(map(str, value)) if isinstance(value, tuple) else value})"


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
