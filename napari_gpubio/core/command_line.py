"""What verbs of the command line share: a progress line, Ctrl-C, and files to write.

What they print and tell is in `napari_gpubio.core.report`.
"""

import argparse
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import check_folder, is_stream
from napari_gpubio.core.report import Report, is_quiet, print_error, running_verb
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import first_of

_WIDTH = 30
_LINE_SECONDS = 10.0  # between lines of progress where there is no terminal
_MAX_NUMBERS_IN_RANGE = 1_000_000
_MAX_FILES_NAMED = 4
_STREAMED_ENDINGS = (".csv", ".tsv", ".txt", ".json")


class Progress:
    """How far the work of a verb has come: a bar on a terminal, a line every 10 s in a file or a pipe.

    With ``--quiet``, nothing.
    """

    def __init__(self) -> None:
        self._verb: Report | None = None  # that is running
        self._due = math.inf  # when its next line is written, and infinite before its first step
        self._drawn = 0  # characters of the line on the terminal, which the next one covers

    def __call__(self, step: Step) -> None:
        """Show a step."""
        if is_quiet():
            return
        if sys.stderr.isatty():
            self._draw(step)
            return
        now, verb = time.monotonic(), running_verb()
        if verb is not self._verb:
            self._verb, self._due = verb, math.inf
        if now >= self._due:
            print_error(f"{step.message}: {100 * step.fraction:.0f} %, {step.done} of {step.total}")
        if now >= self._due or math.isinf(self._due):
            self._due = now + _LINE_SECONDS

    def _draw(self, step: Step) -> None:
        filled = int(_WIDTH * step.fraction)
        bar = "#" * filled + "." * (_WIDTH - filled)
        end = "\n" if step.done >= step.total else ""
        text = f"{step.message} [{bar}] {step.done}/{step.total}"
        sys.stderr.write(f"\r{text:{self._drawn}}{end}")
        self._drawn = 0 if end else len(text)
        sys.stderr.flush()


draw_progress = Progress()


@contextmanager
def stop_at_interrupt() -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C, or request to end, sets; the second one ends the program as always."""
    stop, usual = threading.Event(), {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def handle_as_always() -> None:
        for one, handler in usual.items():
            signal.signal(one, handler)

    def request_stop(*_: object) -> None:
        stop.set()
        handle_as_always()
        print_error("\nstopping; what was done is kept")

    if threading.current_thread() is not threading.main_thread():  # only there may signals be handled
        yield stop
        return
    for one in usual:
        signal.signal(one, request_stop)
    try:
        yield stop
    finally:
        handle_as_always()


def integer(text: str) -> int:
    """Return the integer of an option, which may be written as 1e6; ValueError if it is none."""
    if any(letter in text.lower() for letter in ".e") and float(text).is_integer():
        return int(float(text))
    return int(text)


def whole_numbers(text: str) -> list[int]:
    """Return the numbers that an option lists: ``0-2,7`` for 0, 1, 2, 7."""
    ranges = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip()) for part in text.split(",")]
    ends = [(int(found[1]), int(found[2] or found[1])) for found in ranges if found]
    if len(ends) < len(ranges) or any(last < first or last - first > _MAX_NUMBERS_IN_RANGE for first, last in ends):
        raise argparse.ArgumentTypeError(f"{text!r} lists no numbers; write numbers and ranges, as in 0-5,8")
    return sorted({number for first, last in ends for number in range(first, last + 1)})


class _StoreOnce(argparse._StoreAction):
    """Takes the path of an option; another one in the same command is refused, since one of them would be lost."""

    _seen: argparse.Namespace | None = None

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        if self.option_strings and self.type is Path and self._seen is namespace:
            raise InvalidInput(f"{option_string} is given twice, the second time as {values}; give it once")
        self._seen = namespace
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """A parser of a verb: paths are given once. ``prepare`` adds options once the arguments are known."""

    prepare: "Callable[[Parser, Sequence[str]], None] | None" = None
    add_every: "Callable[[Parser], None] | None" = None

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        for name in (None, "store"):
            self.register("action", name, _StoreOnce)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of argparse."""
        if self.prepare is not None:
            prepare, self.prepare = self.prepare, None
            prepare(self, [*(sys.argv[1:] if args is None else args)])
        return super().parse_known_args(args, namespace)


class Writing:
    """The writing of several files: one that cannot be written does not keep the others from being written."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Keep what goes wrong inside, for `finish`."""
        try:
            yield
        except (GpuBioError, OSError) as error:
            self._problems.append(str(error))

    def finish(self) -> None:
        """Raise InvalidInput if something went wrong."""
        if self._problems:
            raise InvalidInput("\n".join(self._problems))


def check_endings(outputs: Mapping[str, Path | None], endings: Sequence[str]) -> None:
    """Check before a run that files, by what they are, have one of some endings; InvalidInput if not."""
    may_stream = not {*endings}.isdisjoint(_STREAMED_ENDINGS)
    for name, path in outputs.items():
        if path is not None and not path.name.lower().endswith(tuple(endings)) and not (may_stream and is_stream(path)):
            known = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
            raise InvalidInput(f"{name} is {path.name}, which does not end in {known}; give it such an ending")


def check_outputs(
    outputs: Mapping[str, Path | None],
    inputs: Mapping[str, Path | None],
    *,
    force: bool,
    folders: Mapping[str, tuple[Path | None, Iterable[str] | None]] | None = None,
    continued: Path | None = None,
) -> None:
    """Check before a run that its files can be written without replacing each other, what they are made from, or more.

    Parameters
    ----------
    outputs, inputs
        Files by what they are, as a sentence names them; None for those that are not wanted.
    force
        Whether files that are there may be replaced, ``--force``.
    folders
        Folders that are made where they are missing, likewise, each with the names of the files that come into it; None
        where these are known later only.
    continued
        File of an earlier run that this one goes on with, which may be replaced; it may lie in such a folder.

    Raises
    ------
    InvalidInput
        If two of them are the same file, an output lies in a folder that is an input, the folder of an output is
        missing or may not be written, an output is a folder, or files are there and ``force`` is not given, or a folder
        for files that are known later only.
    """
    made = {name: (folder, files) for name, (folder, files) in (folders or {}).items() if folder is not None}
    wanted = {name: path for name, path in outputs.items() if path is not None}
    try:
        for name, path in wanted.items():
            _check_place(name, path)
        for name, (folder, files) in made.items():
            if folder.exists() and not folder.is_dir():
                raise InvalidInput(f"{name} is {folder}, which is a file; name a folder")
            if files is None:
                _check_writable(name, folder)
            wanted |= {f"{file} of {name}": folder / file for file in files or ()}
        whole = {name: folder for name, (folder, files) in made.items() if files is None}
        _check_apart(wanted | {name: folder for name, (folder, _) in made.items()}, inputs)
        _check_outside(wanted, inputs)
        _check_none_inside(whole, inputs)
        there = [path for path in wanted.values() if path.exists() and not is_stream(path)]
        there += [folder for folder in whole.values() if folder.is_dir() and any(folder.iterdir())]
        own = () if continued is None else (continued, continued.parent)
        kept = [path for path in there if not any(is_same_file(path, one) for one in own)]
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise InvalidInput(f"{str(error.filename)[:200]} cannot be written ({error.strerror})") from error
    if kept and not force:
        named, them = first_of(kept, _MAX_FILES_NAMED), "it" if len(kept) == 1 else "them"
        do = "write into" if kept[0].is_dir() else "replace"
        raise InvalidInput(f"there is already {named}; choose another name, or give --force to {do} {them}")


def _check_place(name: str, path: Path) -> None:
    if path.is_dir():
        raise InvalidInput(f"{name} is {path}, which is a folder; give the name of a file")
    _check_writable(name, path)


def _check_writable(name: str, path: Path) -> None:
    """Of a file, the folder where it is to be is written; of a folder that is there, itself."""
    check_folder(path)
    if not os.access(path if is_stream(path) or path.is_dir() else path.parent, os.W_OK):
        raise InvalidInput(f"nothing can be written into {path.parent}; choose another folder for {name}")


def _check_apart(outputs: Mapping[str, Path], inputs: Mapping[str, Path | None]) -> None:
    taken = {_identity(path): name for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if (other := taken.setdefault(_identity(path), name)) != name:
            raise InvalidInput(f"{name} and {other} are the same file, {path}; choose another name for {name}")


def _check_outside(outputs: Mapping[str, Path], inputs: Mapping[str, Path | None]) -> None:
    folders = {_identity(path): path for path in inputs.values() if path is not None and path.is_dir()}
    for name, path in outputs.items():
        if not is_stream(path) and (folder := folders.get(_identity(path.resolve().parent))) is not None:
            raise InvalidInput(f"{name} is {path}, in the folder {folder.name}, which is read; choose another folder")


def _check_none_inside(folders: Mapping[str, Path], inputs: Mapping[str, Path | None]) -> None:
    for name, folder in folders.items():
        if read := next((one for one in inputs.values() if one is not None and is_same_file(folder, one.parent)), None):
            raise InvalidInput(f"{name} is {folder}, where {read.name} lies, which is read; choose another folder")


def is_same_file(path: Path, other: Path | None) -> bool:
    """Whether two paths, of which the second may be missing, lead to the same file."""
    return other is not None and _identity(path) == _identity(other)


def _identity(path: Path) -> tuple[Any, ...]:
    """What all paths of a file have in common; names that only case tells apart are one, as they are on most systems.

    Of files that are there, the system knows it.
    """
    path = path.resolve()
    if path.exists() or path == path.parent:
        return path.stat().st_dev, path.stat().st_ino
    return _identity(path.parent), path.name.casefold()
