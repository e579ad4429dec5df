"""The command line's verbs for records and sessions: run what they hold again, compare, show, and report it."""

import argparse
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import Writing, check_outputs, draw_progress
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.ome_zarr import SUFFIX
from napari_gpubio.core.operations.command_help import Formatter, commands
from napari_gpubio.core.operations.differences import difference
from napari_gpubio.core.operations.file_records import outputs_of_file
from napari_gpubio.core.operations.files import RECORD_ENDING
from napari_gpubio.core.operations.graphs import ancestry, listed_fields
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.reports import folder_sections, shown_sections, write_report
from napari_gpubio.core.operations.runs import run, write_value
from napari_gpubio.core.operations.sessions import is_session, open_session, rerun
from napari_gpubio.core.operations.states import Shown, State
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.reading import note
from napari_gpubio.core.report import DEVICES, Exit, measured, show_at_once, warn, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.core.text import one_line
from napari_gpubio.core.volumes import stem_of

VERBS = ("run", "compare", "show", "report")
_DIGITS = 12


def add_verbs(verbs: Any) -> None:
    """Add ``run``, ``compare``, ``show`` and ``report`` to the command line."""
    compares = "make a session again and say which layers differ, or where two records do"
    reports = "write a page with pictures, numbers and provenance of a session, a folder or a file"
    for name, about, do, *examples in (
        ("run", "make what a record or a session holds again, and write it", _run, "run record.json --out again"),
        ("compare", compares, _compare, "compare session.zip", "compare before.json after.json"),
        ("show", "say what a record or a session holds, without running it", _show, "show session.zip"),
        ("report", reports, _report, "report session.zip --out study.html"),
    ):
        texts = {"help": about, "description": f"{about[:1].upper()}{about[1:]}.", "epilog": commands(examples)}
        verb = verbs.add_parser(name, **texts, formatter_class=Formatter, allow_abbrev=False)
        more = ", or results: a folder or a file" if name == "report" else ", or a file that carries its record"
        verb.add_argument("file", type=Path, help=f"record ({RECORD_ENDING}), session (folder, .zip){more}")
        if name == "compare":
            verb.add_argument(
                "other", type=Path, nargs="?", help="another record; needed if the first one is a record, not a session"
            )
        about = "folder or file that a session may name though it lies elsewhere; may be repeated"
        verb.add_argument("--allow", type=Path, action="append", default=[], metavar="PATH", help=about)
        if name == "run":
            verb.add_argument("--out", type=Path, required=True, help="folder for the results")
        if name == "report":
            verb.add_argument("--out", type=Path, default=Path("report.html"), help="page for a browser (.html)")
        if name != "show":
            verb.add_argument("--device", default="auto", help=DEVICES)
        verb.set_defaults(run=do)


def _opened(options: argparse.Namespace) -> State:
    """What a file holds: a session, or a record or what carries one, whose results have no digests to compare."""
    path: Path = options.file
    is_image = path.name.lower().endswith(SUFFIX)
    if (is_image or path.is_file()) and not is_session(path) and path.suffix.lower() != ".zip":
        if options.allow:
            raise InvalidInput(f"{path.name} is no session, and its files may lie anywhere; leave --allow out")
        return State(tuple(Shown(one, f"{one.of.title} {one.name}") for one in outputs_of_file(path)))
    opened = open_session(path, STORE, allow=options.allow)
    for name, why in opened.missing.items():
        warn(f"{name}: {why}")
    return opened.state


def _run(options: argparse.Namespace) -> int:
    state = _opened(options)
    names = {path.name: one for one, path in _paths(state, options.out)}
    check_outputs({}, {"the file": options.file}, force=options.force, folders={"--out": (options.out, names)})
    options.out.mkdir(exist_ok=True)
    writing = Writing()
    for name in _left_out(state):
        note(f"{name} is written to no file")
    for one, path in _paths(state, options.out):
        with writing.attempt():
            value = run(one.output, device=options.device, progress=draw_progress)
            if value is None:
                note(f"{one_line(one.name)} is not there with these settings")
                continue
            write_value(value, path, one.output)
            wrote(path)
    writing.finish()
    return 0


def _left_out(state: State) -> list[str]:
    """Names of what a session shows and no file can hold."""
    return [one_line(one.name) for one in state.shown if kind_registered(one.output.kind).write is None]


def _paths(state: State, folder: Path) -> Iterator[tuple[Shown, Path]]:
    """Results that can be written, with names that no two of them share."""
    taken = set[str]()
    for one in state.shown:
        kind = kind_registered(one.output.kind)
        if kind.write is None or not one.output.of.has(one.output.name):
            continue
        plain = "".join(c if c.isalnum() or c in " -_." else "_" for c in one_line(one.name)).strip(" .") or "result"
        name, n = f"{plain}{kind.endings[-1]}", 2
        while name.casefold() in taken:
            name, n = f"{plain} {n}{kind.endings[-1]}", n + 1
        taken.add(name.casefold())
        yield one, folder / name


def _compare(options: argparse.Namespace) -> int:
    if options.other is not None:
        found = [*difference(*(outputs_of_file(path)[0].of for path in (options.file, options.other)))]
        for path, old, new in found:
            show_at_once(f"{path or 'verb'}: {_words(old)} -> {_words(new)}")
        measured(differences=[path for path, _, _ in found])
        return Exit.NOT_PASSED if found else Exit.DONE
    state, same = _opened(options), dict[str, bool]()
    if state.shown and not any(one.digest for one in state.shown):
        raise InvalidInput(
            f"{options.file.name} has no digests of results to compare with; give a second record "
            f"(compare {options.file.name} other{RECORD_ENDING}), or a session saved from the window"
        )
    for one in state.shown:
        if not one.digest or not one.complete:
            why = "without a digest" if one.complete else "when it had been stopped"
            note(f"{one_line(one.name)} was saved {why}, and is not compared")
    known = dataclasses.replace(state, shown=tuple(one for one in state.shown if one.digest))
    for one, now in rerun(known, device=options.device, progress=draw_progress):
        is_same = now == one.digest
        same[one.name] = same.get(one.name, True) and is_same  # two may have one name
        outcome = "same" if is_same else f"differs ({one.digest[:_DIGITS]}, now {now[:_DIGITS]}; {one.software})"
        show_at_once(f"{one_line(one.name)}: {outcome}")
    measured(same=same)
    return Exit.DONE if all(same.values()) else Exit.NOT_PASSED


def _report(options: argparse.Namespace) -> int:
    path: Path = options.file
    inputs = {} if path.is_dir() else {"the file": path}  # a page may lie in the folder that it is of
    check_outputs({"--out": options.out}, inputs, force=options.force)
    is_held = not path.exists() or is_session(path) or path.suffix.lower() == RECORD_ENDING
    steps = shown_sections(_opened(options).shown, device=options.device) if is_held else folder_sections(path)
    wrote(write_report(drive(steps, draw_progress), options.out, title=stem_of(path)))
    return 0


def _show(options: argparse.Namespace) -> int:
    state = _opened(options)
    numbers: dict[str, int] = {}
    for one in ancestry(*(shown.output.of for shown in state.shown), *(draft for _, draft in state.drafts)):
        numbers[one.id] = len(numbers) + 1
        show_at_once(f"{numbers[one.id]:3}  {one.verb}  {', '.join(listed_fields(one, numbers))}".rstrip())
    for shown in state.shown:
        part = "" if shown.complete else ", stopped before its end"
        where = f" on {shown.device}" if shown.device else ""
        show_at_once(f"{one_line(shown.name)}: {shown.output.name} of {numbers[shown.output.of.id]}{where}{part}")
    for panel, draft in state.drafts:
        show_at_once(f"{one_line(panel)}: draft {numbers[draft.id]}")
    measured(operations=len(numbers), layers=[one.name for one in state.shown])
    return 0


def _words(value: Any) -> str:
    return (
        f"{value.of.verb}" if isinstance(value, Output) else value.verb if isinstance(value, Operation) else repr(value)
    )
