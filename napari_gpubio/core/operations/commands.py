"""The command line's verb of an operation, made from its fields.

Inputs are files, or records of operations (``.json``). A part that is one of several classes of settings is chosen by
its name, and brings the options of that class only: the arguments are looked through for the choices first.
"""

import argparse
import dataclasses
import functools
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import Parser, check_endings
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.command_help import Formatter, commands, paragraphs, uses
from napari_gpubio.core.operations.command_inputs import InputReader, files_named, setting_of
from napari_gpubio.core.operations.command_options import (
    Option,
    add_option,
    chosen_by,
    dest_of,
    first_of_fields,
    options_of,
    outputs_of,
    place_of,
    reading_options,
)
from napari_gpubio.core.operations.command_runs import run_verb
from napari_gpubio.core.operations.graphs import replaced_fields
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.records import File, Held, Operation, Reading, input_infos
from napari_gpubio.core.report import DEVICES, add_common_to
from napari_gpubio.core.settings import alternatives, hints, kind_of

_RECORD = "record"
_INPUTS, _RESULTS, _SETTINGS = "inputs: files, or records of verbs (.json)", "results, to files", "settings"
_MAX_SHOWN, _MAX_RESULTS = 12, 6  # inputs and settings, and results, in a short help, which has to fit on a screen


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
    chosen, every = chosen_by(operation, arguments), options_of(operation)
    given = [one for one in every if one.is_of(chosen)]
    strange = {one.flag for one in every} - {one.flag for one in given}
    for argument in arguments:
        if (flag := argument.partition("=")[0]) in strange:
            owners = ", ".join(dict.fromkeys(kind_of(one.owner) for one in every if one.flag == flag))
            raise InvalidInput(f"{flag} is an option of {owners}, which is not chosen; leave it out, or choose it")
    _add_options(operation, verb, given, chosen, shows_all="--help-all" in arguments)
    verb.set_defaults(run=functools.partial(_run, operation, chosen))


def _add_every(operation: type[Operation], verb: Parser) -> None:
    """Add the options of all alternatives, for a shell that completes them."""
    once = {one.flag: one for one in reversed(options_of(operation))}
    _add_options(operation, verb, [*once.values()], {}, shows_all=True)


def _add_options(
    operation: type[Operation],
    verb: Parser,
    given: Sequence[Option],
    chosen: Mapping[tuple[str, ...], type],
    *,
    shows_all: bool,
) -> None:
    """Add options in groups; a short help has those that `_shown` tells."""
    reads, first = reading_options(operation), first_of_fields(operation)
    shown = {one.path for one in ([*given, *reads] if shows_all else _shown(given, reads))}
    needed = [f"{one.flag} ..." for one in given if one.path != (first,) and one.is_needed]
    verb.usage = " ".join(["%(prog)s", *([first.upper()] if first else []), *needed, "[options]"])
    verb.description = "\n\n".join(paragraphs(operation)[: None if shows_all else 1])
    groups = {title: verb.add_argument_group(title) for title in (_INPUTS, _RESULTS, _SETTINGS)}
    for option in given:
        title = _group_of(option, operation, chosen, shows_all=shows_all)
        if title not in groups:
            classes = alternatives(hints(operation)[option.path[0]])
            groups[title] = verb.add_argument_group(title, uses(classes) or None if shows_all else None)
        add_option(groups[title], option, first, shows_all=shows_all, hides=option.path not in shown)
    how = verb.add_argument_group("how files are read")
    for option in reads:
        add_option(how, option, "", shows_all=shows_all, hides=option.path not in shown)
    hidden = len(given) + len(reads) - len(shown)
    hidden += _add_results(operation, groups[_RESULTS], None if shows_all else _MAX_RESULTS)
    of_all = _add_common(verb)
    examples = operation.examples or (f"{operation.verb} {first.upper()} --record record.json",)  # of one that reads
    verb.epilog = commands(examples[: None if shows_all else 1])
    if not shows_all:
        flags = " ".join(one.option_strings[-1] for one in of_all)
        more = f", and {hidden} more" if hidden else ""
        verb.epilog += f"\n\nAll options in full{more}: --help-all. Every verb has {flags}"
        for action in of_all:
            action.help = argparse.SUPPRESS


def _add_common(verb: Parser) -> list[argparse.Action]:
    """Add what all verbs of operations have; returns these options."""
    group = verb.add_argument_group("every verb has")
    record = "what was done, as JSON, which other verbs take as an input"
    return [
        group.add_argument("--record", type=Path, metavar="FILE", dest=_RECORD, help=record),
        group.add_argument("--device", default="auto", help=DEVICES),
        *add_common_to(verb, group),
    ]


def _shown(given: Sequence[Option], reads: Sequence[Option]) -> list[Option]:
    """What a short help shows: what must be given, choices, and as many of the settings that are not advanced as fit.

    An operation's own come first, then those of its parts by turns, and at last how files are read.
    """
    plain = [one for one in given if one.is_plain]
    firsts = [one for one in given if one.is_needed or (one in plain and (len(one.path) == 1 or one.is_choice))]
    places = dict[tuple[str, ...], int]()
    turns = {}
    for one in plain:
        places[one.path[:-1]] = turns[one.path] = places.get(one.path[:-1], 0) + 1
    rest = sorted((one for one in plain if one not in firsts), key=lambda one: turns[one.path])
    rest += [one for one in reads if one.is_plain]
    return firsts + rest[: max(0, _MAX_SHOWN - len(firsts))]


def _group_of(
    option: Option, operation: type[Operation], chosen: Mapping[tuple[str, ...], type], *, shows_all: bool
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
    outputs = outputs_of(operation)
    for name, flags in outputs.items():
        kind, text = kind_registered(operation.makes[name]), name.replace("_", " ")
        text += f" ({', '.join(kind.endings)})" if any(kind.endings) else ""
        text = text if name in [*outputs][:most] else argparse.SUPPRESS
        word = "FOLDER" if kind.is_folder else "FILE"
        group.add_argument(*flags, dest=dest_of(name), type=Path, metavar=word, help=text)
    return len(outputs) - len([*outputs][:most])


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
        value = values.get(place_of(path))
        if path in chosen:
            given[field.name] = _made(chosen[path], values, chosen, path, getattr(usual, field.name, field.default))
        elif value is None or value == []:
            continue
        elif info := inputs.get(field.name):
            assert read is not None
            paths = [path for one in value for path in files_named(one)] if info.many else [value]
            opened = tuple(read.opened(one, info, is_first=field.name == first_of_fields(cls)) for one in paths)
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
    found = {one.field.name: values.get(place_of(one.path)) for one in reading_options(operation)}
    return {name: value for name, value in found.items() if value is not None}


def _run(operation: type[Operation], chosen: Mapping[tuple[str, ...], type], options: argparse.Namespace) -> int:
    """Run a verb with its options."""
    values = vars(options)
    outputs = {flags[0]: (name, values[dest_of(name)]) for name, flags in outputs_of(operation).items()}
    wanted = {flag: one for flag, one in outputs.items() if one[1] is not None}
    tells = operation.needs_no_file or (options.json and operation.summary is not Operation.summary)
    if outputs and not wanted and options.record is None and not tells:
        raise InvalidInput(f"nothing is to be written; give {' or '.join(outputs)}")
    for flag, (name, path) in wanted.items():
        check_endings({flag: path}, kind_registered(operation.makes[name]).endings)
    return run_verb(_made(operation, values, chosen), wanted, options)
