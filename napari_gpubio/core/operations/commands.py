"""The command line's verb of an operation, made from its fields.

Inputs are files, or records of operations (``.json``). A part that is one of several classes of settings is chosen by
its name, and brings the options of that class only: the arguments are looked through for the choices first.
"""

import argparse
import dataclasses
import functools
import inspect
import re
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.command_line import (
    STOPPED,
    Parser,
    check_endings,
    check_outputs,
    draw_progress,
    integer,
    stop_at_interrupt,
    whole_numbers,
)
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.files import read_record, write_record
from napari_gpubio.core.operations.records import (
    File,
    InputInfo,
    Operation,
    Output,
    input_infos,
    words_of,
)
from napari_gpubio.core.operations.sessions import files_of
from napari_gpubio.core.operations.stores import file, kind_registered, run_steps, write_steps, write_value
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.report import measured, tell, wrote
from napari_gpubio.core.settings import Settings, alternatives, hints, is_union, kind_of, part_info, record_fields
from napari_gpubio.core.steps import drive

RECORD_ENDING = ".json"
_RECORD, _READ = "record", "read"


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


def add_verbs(verbs: Any, module: Any) -> None:
    """Add the verbs of all operations of a module to the command line; see `add_verb`."""
    for one in vars(module).values():
        if isinstance(one, type) and issubclass(one, Operation) and one.verb and one.__module__ == module.__name__:
            add_verb(verbs, one)


def add_verb(verbs: Any, operation: type[Operation]) -> None:
    """Add the verb of an operation to the command line's parser of verbs; its options are made when it is used."""
    verb = verbs.add_parser(
        operation.verb,
        help=_paragraphs(operation)[0].rstrip("."),
        usage=f"%(prog)s {_first(operation).upper()} [options]",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    verb.prepare = functools.partial(_prepare, operation)


def _paragraphs(operation: type[Operation]) -> list[str]:
    return [" ".join(one.split()) for one in inspect.cleandoc(operation.__doc__ or "").split("\n\n")]


def _prepare(operation: type[Operation], verb: Parser, arguments: Sequence[str]) -> None:
    """Add the options that a command with these arguments has."""
    shows_all = "--help-all" in arguments
    chosen, most = _chosen(operation, arguments), None if shows_all else 1
    verb.description = "\n\n".join(_paragraphs(operation)[:most])
    verb.epilog = "\n".join(f"example: napari-gpubio {one}" for one in operation.examples[:most])
    verb.add_argument("--help-all", action="help", help="show this with all options, in full")
    every = [*_options(operation)]
    strange = {one.flag for one in every} - {one.flag for one in every if _is_chosen(one, chosen)}
    for argument in arguments:
        if (flag := argument.partition("=")[0]) in strange:
            owners = ", ".join(dict.fromkeys(kind_of(one.owner) for one in every if one.flag == flag))
            raise InvalidInput(f"{flag} is an option of {owners}, which is not chosen; leave it out, or choose it")
    first = _first(operation)
    for option in every:
        if _is_chosen(option, chosen):
            _add_option(verb, option, first, shows_all=shows_all)
    if reads := _reading_options(operation):
        how = verb.add_argument_group(f"how {_first(operation).upper()} is read")
        for option in reads:
            _add_option(how, option, "", shows_all=shows_all)
    files = verb.add_argument_group(f"results, to files (inputs may be files, or records {RECORD_ENDING})")
    for name, flags in _outputs(operation).items():
        words = words_of(operation.makes[name])
        text = name.replace("_", " ") if operation.makes[name] is Volume else f"{name.replace('_', ' ')}, {words}"
        files.add_argument(*flags, dest=_dest(name), type=Path, metavar="FILE", help=text)
    files.add_argument("--record", type=Path, metavar="FILE", dest=_RECORD, help="what was done, as JSON")
    verb.add_argument("--device", default="auto", help="auto, cpu, cuda:0, cuda:all")
    verb.set_defaults(run=functools.partial(_run, operation, chosen))


# -- options ----------------------------------------------------------------------------------------------------------


def _options(operation: type[Operation]) -> list[_Option]:
    """Every option that there is, each once: of all alternatives of all parts."""
    found, places = [*_walk(operation, ())], dict[str, set[tuple[str, ...]]]()
    for path, _, field in found:
        places.setdefault(field.name, set()).add(path[:-1])
    return [  # the name of the part goes before that of a setting that several parts have
        _Option(path, owner, field, _flag("-".join(path[-2:] if len(places[field.name]) > 1 else path[-1:])))
        for path, owner, field in found
    ]


def _reading_options(operation: type[Operation]) -> list[_Option]:
    """Fields of the operation that opens the first input, but for its file and what lies beside that."""
    info = input_infos(operation).get(_first(operation))
    opens: Any = None if info is None else kind_registered(info.kind).opens
    fields = [] if opens is None else [field for field in record_fields(opens) if field.name not in ("file", "beside")]
    return [_Option((_READ, field.name), opens, field, _flag(field.name)) for field in fields]


def _walk(cls: type, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], type, dataclasses.Field[Any]]]:
    for field in record_fields(cls):
        path, classes = (*before, field.name), alternatives(hints(cls)[field.name])
        if len(classes) != 1:  # of one there is nothing to choose
            yield path, cls, field
        for one in classes:
            yield from _walk(one, path)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _dest(name: str) -> str:
    return f"out {name}"


def _outputs(operation: type[Operation]) -> dict[str, tuple[str, ...]]:
    """Flags of the results that can be written: ``--out`` of the main one, ``--noise-out`` of others."""
    names = [name for name, kind in operation.makes.items() if kind_registered(kind).write is not None]
    main = next(iter(operation.makes))
    return {name: ("--out", "-o") if name == main else (_flag(f"{name}-out"),) for name in names}


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
                parser.add_argument(_flag(field.name), dest="kind", default=known)
                known = parser.parse_known_args([*arguments])[0].kind
            if known not in by_kind:
                raise InvalidInput(f"{_flag(field.name)} is {known[:60]!r}; choose one of {', '.join(by_kind)}")
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


def _add_option(verb: Any, option: _Option, first: str, *, shows_all: bool) -> None:
    field, hint = option.field, hints(option.owner)[option.field.name]
    inputs = input_infos(option.owner) if issubclass(option.owner, Operation) else {}
    how = _how(field, hint, inputs.get(field.name), shows_all=shows_all)
    dest = ".".join(option.path)
    if option.path == (first,):
        needed = how.pop("required", False)
        how["nargs"] = {(True, True): "+", (True, False): "*", (False, False): "?"}.get(("nargs" in how, needed))
        verb.add_argument(dest, **{**how, "metavar": first.upper()})
        return
    verb.add_argument(option.flag, dest=dest, **how)


def _how(field: dataclasses.Field[Any], hint: Any, info: InputInfo | None, *, shows_all: bool) -> dict[str, Any]:
    """Keywords of argparse for a field."""
    needed = field.default is dataclasses.MISSING
    if info is not None:
        text = _help(info.help, "" if info.kind is Volume else f" [{words_of(info.kind)}]", shows_all=shows_all)
        return {"metavar": "FILE", "required": not info.optional, "help": text, **({"nargs": "+"} if info.many else {})}
    told = param_info(field) or part_info(field)
    if told is None:
        raise TypeError(f"{field.name} has neither param nor part, so that nobody knows what it is")
    text = _help(told.help, _default(field), shows_all=shows_all)
    text = argparse.SUPPRESS if told.advanced and not shows_all else text
    if classes := alternatives(hint):
        return {"choices": [kind_of(one) for one in classes], "help": text}
    hint = next((one for one in typing.get_args(hint) if one is not type(None)), hint) if is_union(hint) else hint
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction, "help": text}
    if hint is File:
        return {"metavar": "FILE", "required": needed, "help": text}
    if hint in _WORDS:
        choices = getattr(told, "choices", None)
        named = {} if choices else {"metavar": told.unit.upper() or _WORDS[hint]}
        return {"type": integer if hint is int else hint, "choices": choices, "help": text, **named}
    members = typing.get_args(hint)
    count = "+" if members[-1:] == (Ellipsis,) else len(members)
    if members == (int, Ellipsis):
        return {"type": whole_numbers, "metavar": "NUMBERS", "help": text}
    if typing.get_origin(hint) is tuple and members[0] in _WORDS:
        word = told.unit.upper() or _WORDS[members[0]]
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
    if field.default == () or any(field.default is one for one in (dataclasses.MISSING, None, False)):  # 0.0 == False
        return ""
    value = kind_of(field.default) if isinstance(field.default, Settings) else field.default
    return f" (default: {' '.join(map(str, value)) if isinstance(value, tuple) else value})"


# -- from options to an operation -------------------------------------------------------------------------------------


def _made(
    cls: type, values: Mapping[str, Any], chosen: Mapping[tuple[str, ...], type], before: tuple[str, ...] = ()
) -> Any:
    inputs = input_infos(cls) if issubclass(cls, Operation) else {}
    given = dict[str, Any]()
    for field in dataclasses.fields(cls):
        path = (*before, field.name)
        value = values.get(".".join(path))
        if path in chosen:
            given[field.name] = _made(chosen[path], values, chosen, path)
        elif value is None or value == []:
            continue
        elif info := inputs.get(field.name):
            read = _read_with(cls, values) if field.name == _first(cls) else {}
            opened = tuple(_opened(one, info, read) for one in (value if info.many else (value,)))
            given[field.name] = opened if info.many else opened[0]
        else:
            given[field.name] = _setting(value, hints(cls)[field.name])
    return cls(**given)


def _read_with(operation: type[Operation], values: Mapping[str, Any]) -> dict[str, Any]:
    """What the options say of how the first input is read."""
    found = {}
    for option in _reading_options(operation):
        if (value := values.get(".".join(option.path))) is not None:
            found[option.field.name] = _setting(value, hints(option.owner)[option.field.name])
    return found


def _setting(value: Any, hint: Any) -> Any:
    if hint is File or (is_union(hint) and File in typing.get_args(hint)):
        return file(value)
    if isinstance(value, list):
        return tuple(map(file, value)) if File in typing.get_args(hint) else tuple(value)
    return value


def _opened(path: str, info: InputInfo, read: Mapping[str, Any]) -> Operation | Output[Any]:
    """The operation that opens a file, in a way, or that a record describes."""
    if path.lower().endswith(RECORD_ENDING):
        if read:
            raise InvalidInput(f"{Path(path).name} is a record, which says how it is read; leave {', '.join(read)} out")
        return read_record(path)
    opens = kind_registered(info.kind).opens
    if opens is None:
        raise InvalidInput(
            f"{info.label.lower()} is {Path(path).name}; give the record ({RECORD_ENDING}) of an operation that makes "
            f"{words_of(info.kind)}"
        )
    opened: Operation = opens.at(Path(path), **read)
    return opened


def _run(operation: type[Operation], chosen: Mapping[tuple[str, ...], type], options: argparse.Namespace) -> int:
    """Run a verb with its options."""
    values = vars(options)
    outputs = {flags[0]: (name, values[_dest(name)]) for name, flags in _outputs(operation).items()}
    wanted = {flag: path for flag, (_, path) in outputs.items() if path is not None}
    record = options.record
    if not wanted and record is None and outputs and not options.json:
        raise InvalidInput(f"nothing is to be written; give {' or '.join(outputs)}")
    for flag, (name, path) in outputs.items():
        check_endings({flag: path}, kind_registered(operation.makes[name]).endings)
    made: Operation = _made(operation, values, chosen)
    for flag, path in wanted.items():
        if not made.has(name := outputs[flag][0]):
            raise InvalidInput(f"{flag} is {path.name}, and there is no {name} with these settings; leave it out")
    beside = {
        f"{what} of {flag}": other
        for flag, path in wanted.items()
        for what, other in kind_registered(operation.makes[outputs[flag][0]]).beside(path).items()
    }
    read = {Path(one.path).name: Path(one.path) for one in files_of(made)}
    check_outputs({**wanted, **beside, "--record": record}, read, force=options.force)
    written = {outputs[flag][0]: path for flag, path in wanted.items()} if operation.writes_files() else {}
    with stop_at_interrupt() as stop:
        how = {"device": options.device, "stop": stop}
        steps = write_steps(made, written, **how) if written else run_steps(made, **how)
        result = drive(steps, draw_progress)
    if result is None:
        return STOPPED
    if operation.keeps_parts and not result.complete:
        tell([f"nothing was written, since {operation.keeps_parts}"])
        return STOPPED
    tell(getattr(result, "notes", ()))
    told = made.told(result)
    for line in told.lines:
        sys.stdout.write(f"{line}\n")
    measured(**told.numbers)
    for name, path in outputs.values():
        if path is not None:
            if name not in written:
                write_value(result if len(made.makes) == 1 else made.result(result, name), path, made.output(name))
            for one in (path, *kind_registered(made.makes[name]).beside(path).values()):
                wrote(one)
    if record is not None:
        write_record(record, made)
        wrote(record)
    return 0 if getattr(result, "complete", True) else STOPPED
