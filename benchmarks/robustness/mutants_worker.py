"""A reader on many mutants, in a process of its own with limits of time and memory (POSIX)."""

import logging
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import psutil

from napari_gpubio.core.reading import ReadingNote
from robustness.mutants_changes import change_bytes
from robustness.mutants_readers import READERS, Reader

SECONDS, MEGABYTES = 5.0, 1000.0  # which reading a mutant may take
_MB = 2**20
_CONTEXT = multiprocessing.get_context("fork")
_READ, _REFUSED, _OTHER, _SLOWEST, _MOST, _CURRENT, _SINCE = range(7)  # of the numbers that both processes see
_NOT_VALID = 3  # exit status
_UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # which Python does not print
_MEANT = (*_UNSEEN, ReadingNote)  # notes are for the user


class Samples:
    """The valid files of a reader in a folder, and mutants of one of them by their number."""

    def __init__(self, name: str, folder: Path) -> None:
        self.reader, self.name, self.folder = READERS[name], name, folder
        self.path = folder / self.reader.name
        maker = _CONTEXT.Process(target=self.reader.write, args=(self.path,))  # whose threads are not inherited
        maker.start()
        maker.join()
        if maker.exitcode:
            raise RuntimeError(f"the valid file of {name} could not be made")
        self.valid = self.path.read_bytes()

    def mutant(self, number: int) -> bytes:
        """The same bytes for the same number."""
        random = Random(f"{self.name}:{number}")
        try:
            return self.reader.change(self.valid, random)
        except Exception:  # noqa: BLE001 - the first of several changes has broken what the next one looks into
            return change_bytes(self.valid, random)


@dataclass
class Finding:
    """What must not happen, how often it did, and the number of the first mutant that shows it."""

    what: str
    number: int
    example: str
    count: int = 1


@dataclass
class Campaign:
    """A reader's mutants, worked through by one process after another: a new one where the last was ended."""

    name: str
    count: int
    first: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self.samples = Samples(self.name, self._folder)
        self.numbers = _CONTEXT.RawArray("d", 7)
        self.numbers[_CURRENT] = self.first - 1
        self._begun = time.monotonic()
        self.seconds = 0.0
        self._start(self.first)

    def _start(self, number: int) -> None:
        self.numbers[_SINCE] = time.monotonic() + 60.0  # until it has read the valid file
        self._connection, other = _CONTEXT.Pipe(duplex=False)
        last = self.first + self.count
        self._process = _CONTEXT.Process(target=_work, args=(self.samples, range(number, last), self.numbers, other))
        self._process.start()
        other.close()

    def poll(self) -> bool:
        """Take what was found; True when all mutants are done."""
        try:
            while self._connection.poll():
                self._add(*self._connection.recv())
        except EOFError:
            self._process.join()
            return self._ended()
        if time.monotonic() - self.numbers[_SINCE] > SECONDS:
            self._process.kill()
        return False

    def _ended(self) -> bool:
        code, number = self._process.exitcode, int(self.numbers[_CURRENT])
        if code == _NOT_VALID:
            raise RuntimeError(f"the valid file of {self.name} cannot be read, or a mutant of it not be made")
        if code:
            is_late = code == -signal.SIGKILL
            what = f"takes more than {SECONDS:g} s" if is_late else f"the process ended with {code}"
            self._add(what, number, what)
            self.numbers[_OTHER] += 1
            if is_late:
                self.numbers[_SLOWEST] = SECONDS
            if number + 1 < self.first + self.count:
                self._start(number + 1)
                return False
        self.seconds = time.monotonic() - self._begun
        shutil.rmtree(self._folder, ignore_errors=True)
        return True

    def _add(self, what: str, number: int, example: str) -> None:
        if what in self.findings:
            self.findings[what].count += 1
        else:
            self.findings[what] = Finding(what, number, example)

    def row(self) -> dict[str, Any]:
        """What the table has of it."""
        read, refused, other, slowest, most = self.numbers[:5]
        return {
            "name": self.name, "mutants": self.count, "first": self.first, "read": int(read), "refused": int(refused),
            "others": int(other), "slowest_s": slowest, "most_mb": most, "seconds": self.seconds,
            "findings": [vars(finding) for finding in self.findings.values()],
        }  # fmt: skip


def _work(samples: Samples, numbers: range, shared: Any, connection: Connection) -> None:
    """Read mutants one by one."""
    os.setsid()
    logging.getLogger("napari_gpubio").addHandler(logging.NullHandler())  # sentences that are meant
    logging.getLogger("napari_gpubio").propagate = False
    output = tempfile.TemporaryFile()  # noqa: SIM115 - until the process ends
    os.dup2(output.fileno(), 2)
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    with _mistakes_reported():
        samples.path.write_bytes(samples.valid)
        samples.reader.read(samples.path)
    limit = psutil.Process().memory_info().vms + int(MEGABYTES * _MB)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    begun_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        with _mistakes_reported():
            samples.path.write_bytes(samples.mutant(number))
        output.seek(0)
        output.truncate()
        shared[_CURRENT], shared[_SINCE] = number, time.monotonic()
        refusal, what, example = read(samples.reader, samples.path)
        seconds = time.monotonic() - shared[_SINCE]
        shared[_SINCE] = time.monotonic()
        sys.stderr.flush()
        if not what and (length := os.fstat(output.fileno()).st_size):
            output.seek(0)
            example = output.read(min(length, 2000)).decode("utf-8", "replace")
            what = f"writes to the terminal: {_brief(example)}"
        shared[_SLOWEST] = max(shared[_SLOWEST], seconds)
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun_kb) / 1024
        shared[_MOST] = max(shared[_MOST], more)
        if what:
            connection.send((what, number, example))
        shared[_OTHER if what else _REFUSED if refusal else _READ] += 1


@contextmanager
def _mistakes_reported() -> Iterator[None]:
    """End the process, and with it the campaign, where not the reader but this benchmark is wrong."""
    try:
        yield
    except Exception:  # noqa: BLE001 - whatever it is
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        sys.exit(_NOT_VALID)


def read(reader: Reader, path: Path) -> tuple[str, str, str]:
    """Read a file: the sentence with which it was refused, what must not happen, and an example of that."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            reader.read(path)
            refusal = ""
        except Exception as error:  # noqa: BLE001 - that is the question
            if not {kind.__name__ for kind in type(error).__mro__} & set(reader.refused):
                return "", f"raises {type(error).__name__}{_place(error)}", "".join(traceback.format_exception(error))
            refusal = str(error)
            if asked := _asked_for_memory(error):
                return refusal, f"asks for too much memory{_place(asked)}", refusal
            if not reader.is_named(refusal):
                return refusal, f"refuses without the name of the file{_place(error)}", refusal
            if len(refusal) > 2000 or not refusal.strip():
                return refusal, f"refuses in {len(refusal)} characters", refusal
    for warning in warned:
        if not issubclass(warning.category, _MEANT):
            text = f"{warning.category.__name__} in {warning.filename}:{warning.lineno}: {warning.message}"
            return refusal, f"warns: {warning.category.__name__}, {_brief(str(warning.message))}", text
    return refusal, "", ""


def _brief(text: str) -> str:
    """A text without its numbers and what it quotes, so that those of one kind are counted together."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|-?\d+(\.\d+)?|\bnan\b", "...", text.splitlines()[0])[:70]


def _asked_for_memory(error: BaseException | None) -> BaseException | None:
    while error is not None and not isinstance(error, MemoryError):
        error = error.__cause__ or error.__context__
    return error


def _place(error: BaseException) -> str:
    """The last line of the package that led to it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/napari_gpubio/" in f.filename]
    return f" in {frames[-1].filename.rpartition('/napari_gpubio/')[2]}:{frames[-1].name}" if frames else ""
