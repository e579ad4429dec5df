"""The run of a verb: where its results go is checked before, and what can be written is, whatever else is refused."""

import argparse
import functools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import Writing, check_outputs, draw_progress, stop_at_interrupt
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.keeping import Keeper, left_by
from napari_gpubio.core.layer_files import sidecar_path
from napari_gpubio.core.operations.files import write_record
from napari_gpubio.core.operations.graphs import ancestry, files_of
from napari_gpubio.core.operations.kinds import Kind, kind_registered
from napari_gpubio.core.operations.records import Operation, Summary
from napari_gpubio.core.operations.runs import run_steps, write_steps, write_value
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.operations.volumes import record_beside
from napari_gpubio.core.report import Exit, measured, tell, wrote
from napari_gpubio.core.steps import drive
from napari_gpubio.core.volumes import NIFTI_SUFFIXES

_GOES_ON = "stopped early; the same command goes on"
Outputs = Mapping[str, tuple[str, Path]]  # names of results and their files, by the options that say so


def run_verb(made: Operation, outputs: Outputs, options: argparse.Namespace) -> int:
    """Do an operation and write its results; returns the exit status.

    Parameters
    ----------
    made
        The operation.
    outputs
        What is to be written.
    options
        Of the command: ``device``, ``force`` and ``record``.

    Raises
    ------
    InvalidInput
        If files cannot be written, or the operation refuses its inputs.
    """
    for flag, (name, path) in outputs.items():
        if not made.has(name):
            raise InvalidInput(f"{flag} is {path.name}, and there is no {name} with these settings; leave it out")
    goal = next((path for name, path in outputs.values() if name == made.continues), None)
    kept = None if goal is None else _kind(made, made.continues).kept_at(goal)
    known = _left(made, kept)
    _check_files(made, outputs, options, kept, goes_on=known is not None)
    if not (outputs or options.json or made.needs_no_file or _writable(made)):
        return _recorded(made, options, {})  # what takes the record does it
    device, streamed = choose_device(options.device), dict(outputs.values()) if made.writes_files() else {}
    with stop_at_interrupt() as stop:
        how: dict[str, Any] = {"device": device, "stop": stop}
        steps = write_steps(made, streamed, **how) if streamed else run_steps(made, known=known, **how)
        keep = functools.partial(_keep, made)
        keeper = Keeper(kept, keep, draw_progress, goes_on=known is not None)
        result = drive(steps, keeper)
    if result is None:
        return Exit.STOPPED
    is_whole = getattr(result, "complete", True)
    if not is_whole and made.keeps_parts:
        return _stopped(made, result, kept)
    _tell_notes(made, result, device)
    writing, summary = Writing(), Summary()
    with writing.attempt():
        summary = made.summary(result)
        for line in summary.lines:
            sys.stdout.write(f"{line}\n")
        measured(**summary.numbers)
    for path in streamed.values():
        wrote(path)
    files = {name: path for name, path in outputs.values() if name not in streamed}
    if kept is not None and not is_whole and not _kind(made, made.continues).is_folder:
        files[made.continues] = kept
    _write(made, result, files, writing)
    _recorded(made, options, files)
    writing.finish()
    if kept not in (None, goal) and is_whole and (keeper.has_saved or known is not None):
        kept.unlink(missing_ok=True)
    if not is_whole and kept is not None:
        tell([_GOES_ON])
    return summary.status if is_whole else Exit.STOPPED


def _kind(made: Operation, name: str) -> Kind[Any]:
    """What a result of an operation can do."""
    return kind_registered(made.makes[name])


def _writable(made: Operation) -> bool:
    """Whether there are files for one of its results."""
    return any(kind_registered(kind).write is not None for kind in made.makes.values())


def _recorded(made: Operation, options: argparse.Namespace, files: Mapping[str, Path]) -> int:
    """Write the record, where one is wanted; what describes an image holds it already."""
    described = _described(files.values(), options)
    if described is not None and record_beside(described) is not None:
        tell([f"{options.record.name} says what {described.name} is, and holds its record"])
    elif options.record is not None:
        write_record(options.record, made)
        wrote(options.record)
    return 0


def _described(paths: Iterable[Path], options: argparse.Namespace) -> Path | None:
    """The image that the file of the record describes, too, if it is named so."""
    named = options.record.absolute() if options.record else None
    images = (path for path in paths if path.name.lower().endswith(NIFTI_SUFFIXES))
    return next((path for path in images if sidecar_path(path).absolute() == named), None)


def _check_files(
    made: Operation, outputs: Outputs, options: argparse.Namespace, kept: Path | None, *, goes_on: bool
) -> None:
    """Find out before the run where files go, and whether they would replace others."""
    folders = {flag: (path, None) for flag, (name, path) in outputs.items() if _kind(made, name).is_folder}
    files = {flag: path for flag, (_, path) in outputs.items() if flag not in folders}
    beside = {
        f"{what} of {flag}": other
        for flag, (name, path) in outputs.items()
        for what, other in _kind(made, name).beside(path).items()
    }
    if kept is not None and kept not in files.values() and not _kind(made, made.continues).is_folder:
        beside["what a stopped run has done"] = kept
    read = {Path(one.path).name: Path(one.path) for one in files_of(made)}
    record = None if _described(files.values(), options) else options.record
    wanted = {**files, **beside, "--record": record}
    check_outputs(wanted, read, force=options.force, folders=folders, continued=kept if goes_on else None)


def _left(made: Operation, path: Path | None) -> Any:
    """What an earlier run has left in the file of a result, if it did not come to its end."""
    load = _kind(made, made.continues).unfinished if made.continues else None
    return None if load is None else left_by(path, load)


def _keep(made: Operation, path: Path, value: Any) -> None:
    """Write what is done."""
    write_value(value, path, made.output(made.continues), draw_progress)


def _stopped(made: Operation, result: Any, kept: Path | None) -> int:
    """Keep what was done of a run that goes on later; else say why nothing was written."""
    if not made.continues:
        tell([f"nothing was written, since {made.keeps_parts}"])
    elif kept is None:
        tell(["stopped early; nothing was kept"])
    else:
        _keep(made, kept, made.output(made.continues).value_in(result))
        tell([_GOES_ON])
    return Exit.STOPPED


def _tell_notes(made: Operation, result: Any, device: Device) -> None:
    """Tell what is to be known of the result, and of all that it was made from."""
    for one in ancestry(made):
        tell(getattr(result if one == made else STORE.result(one, device.kind), "notes", ()))


def _write(made: Operation, result: Any, files: Mapping[str, Path], writing: Writing) -> None:
    """Write results; one that cannot be written keeps no other from being written."""
    for name, path in files.items():
        with writing.attempt():
            write_value(made.output(name).value_in(result), path, made.output(name), draw_progress)
            for one in (path, *_kind(made, name).beside(path).values()):
                if one.exists():
                    wrote(one)
