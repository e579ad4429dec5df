"""What a verb of the command line tells: text, numbers and files on stdout; notes, warnings and errors on stderr.

A verb prints its results as text, and gives the same numbers to `measured`, for ``--json``. Both are held back until it
has ended, so that its files are written before anything can go wrong with a pipe. What is to be known of its input and
results goes through `napari_gpubio.core.reading.note`, and is written at once.
"""

import argparse
import enum
import errno
import io
import json
import logging
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note, noted
from napari_gpubio.core.text import one_line

DEVICES = "auto, cpu, cuda:0, cuda:all"  # what --device may be
WARNING = "warning: "
_STATUSES = (WARNING, "ok: ", "error: ")  # a note that begins with one of them is no mere note
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
_READERS_GONE = (errno.EPIPE, errno.EINVAL)  # the latter on Windows


class Exit(enum.IntEnum):
    """Status that the program ends with; ``meaning`` says of each when, for its help and documentation.

    Examples
    --------
    >>> int(Exit.REFUSED), Exit.STOPPED.meaning
    (2, 'stopped by Ctrl-C or a request to end; what was done is kept')
    """

    meaning: str

    DONE = 0, "done"
    NOT_PASSED = 1, "done, and a check, comparison, constraint or compilation did not pass"
    REFUSED = 2, "nothing done, or not all of it: a sentence on stderr says what is wrong, and what to do"
    DEFECT = 70, "a defect of the program, whose traceback is on stderr"
    STOPPED = 130, "stopped by Ctrl-C or a request to end; what was done is kept"
    PIPE_CLOSED = 141, "nobody reads what it prints any more"

    def __new__(cls, status: int, meaning: str) -> "Exit":
        """Make a status that has its meaning."""
        made = int.__new__(cls, status)
        made._value_, made.meaning = status, meaning
        return made


@dataclass(eq=False)
class Report:
    """What one run of a verb writes.

    Parameters
    ----------
    out
        Where its results go in the end.
    has_text
        Whether they go there as text; not with ``--json`` and ``--quiet``.
    is_quiet
        Whether nothing but errors goes to stderr.
    numbers, files, notes
        For ``--json``.
    """

    out: TextIO
    has_text: bool = True
    is_quiet: bool = False
    numbers: dict[str, Any] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def hear(self, text: str) -> None:
        """Tell a note, once: what a reader said of a file may come again with the result, without the file's name."""
        if any(known == text or known.endswith(f": {text}") for known in self.notes):
            return
        self.notes.append(text)
        if not self.is_quiet:
            print_error(one_line(text if text.startswith(_STATUSES) else f"note: {text}"))

    def json(self) -> str:
        """All of it as JSON; what is not finite is null."""
        content = {**self.numbers, "files": self.files, "notes": self.notes}
        return json.dumps(_plain(content), indent=2, default=str) + "\n"


_report: ContextVar[Report | None] = ContextVar("report", default=None)


def add_common(verbs: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add to verbs, by their names, the options that all of them have, but for those that do so themselves."""
    for verb in verbs.values():
        if getattr(verb, "prepare", None) is None:
            add_common_to(verb, verb.add_argument_group("every verb has"))


def add_common_to(verb: argparse.ArgumentParser, group: argparse._ArgumentGroup) -> list[argparse.Action]:
    """Add to a verb, within a group, the options that all verbs have; returns them."""
    texts = {
        "force": "replace files that are there",
        "json": "print numbers, files and notes as JSON",
        "quiet": "print nothing but errors (and JSON)",
        "verbose": "tell more on stderr",
    }
    options = [group.add_argument(f"--{one}", action="store_true", help=text) for one, text in texts.items()]
    if not verb.add_help:
        options.append(group.add_argument("-h", "--help", action="help", help="show what is needed most"))
    return [*options, group.add_argument("--help-all", action="help", help="show all options, in full")]


def measured(**numbers: Any) -> None:
    """Add to what ``--json`` prints: plain values, arrays, lists and mappings, whose names or rows have the units."""
    if (report := _report.get()) is not None:
        report.numbers |= numbers


def wrote(path: str | os.PathLike[str], text: str = "") -> None:
    """Tell a file that was written: its path, or a text with it."""
    sys.stdout.write(f"{text or path}\n")
    if (report := _report.get()) is not None:
        report.files.append(os.fspath(path))


def tell(notes: Iterable[str]) -> None:
    """Tell the notes of a result on stderr; those of its input were written when it was read."""
    for text in notes:
        note(text)


def warn(text: str) -> None:
    """Warn on stderr of a result."""
    note(WARNING + text)


def show_at_once(text: str) -> None:
    """Print a line of a verb that writes no files, before it has ended; not with ``--json`` or ``--quiet``."""
    report = _report.get()
    if report is None or report.has_text:
        show(text + "\n", sys.stdout if report is None else report.out)


def is_quiet() -> bool:
    """Whether nothing but errors is to go to stderr."""
    report = _report.get()
    return report is not None and report.is_quiet


def running_verb() -> Report | None:
    """What the running verb writes, which no other one shares; None outside of one."""
    return _report.get()


@contextmanager
def reporting(options: argparse.Namespace) -> Iterator[None]:
    """Run a verb with the options of `add_common` inside; its results are printed when it has ended, also in an error.

    Raises
    ------
    BrokenPipeError
        If nobody reads them any more.
    InvalidInput
        If they cannot be written, for instance to a full disk.
    """
    as_json = options.json is True
    report = Report(sys.stdout, has_text=not (as_json or options.quiet), is_quiet=options.quiet)
    held, token = io.StringIO(), _report.set(report)
    try:
        with noted(report.hear), _logging(options), redirect_stdout(held):
            yield
    except BaseException:
        with suppress(OSError, InvalidInput):  # the first problem is the one to be reported
            show(held.getvalue() if report.has_text else "", report.out)
        raise
    finally:
        _report.reset(token)
    show(report.json() if as_json else held.getvalue() if report.has_text else "", report.out)


class _OneLine(logging.Formatter):
    """Writes a message as one line, whatever names are in it; a traceback follows in its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))


@contextmanager
def _logging(options: argparse.Namespace) -> Iterator[None]:
    """Let this package's log tell warnings on stderr, or more of it, or only errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine("%(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    ours = logging.getLogger("napari_gpubio")
    before = ours.level
    ours.setLevel(logging.INFO if options.verbose else logging.ERROR if options.quiet else logging.WARNING)
    try:
        yield
    finally:
        ours.setLevel(before)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- streams ----------------------------------------------------------------------------------------------------------


def take_any_text(*streams: TextIO | None) -> None:
    """Have streams write what their encoding lacks by its number in Unicode, instead of failing."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def open_nowhere() -> TextIO:
    """Return a stream for what nobody reads, where a program was started without one."""
    return Path(os.devnull).open("w", encoding="utf-8")


def show(text: str, stream: TextIO) -> None:
    """Write a text to a stream at once; the errors are those of `reporting`."""
    try:
        stream.write(text.translate(_CONTROLS))
        stream.flush()
    except OSError as error:
        _abandon(stream)
        if error.errno in _READERS_GONE:
            raise BrokenPipeError(error.errno, error.strerror) from error
        raise InvalidInput(f"what was found cannot be printed ({error.strerror})") from error


def print_error(text: str) -> None:
    """Write a line to stderr; where nobody reads that any more, the work goes on."""
    try:
        sys.stderr.write(f"{text.translate(_CONTROLS)}\n")
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)


def _abandon(stream: TextIO) -> None:
    """Let what a stream still holds go nowhere, also when Python ends."""
    with suppress(OSError, ValueError), Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
