"""Processes killed while they save: the old or the new file is there, whole, and what is left over goes.

A process writes over a file of an older version and is killed (SIGKILL) at a random moment of that, which it is told
to have begun; then the file is read and compared with both versions, all of its parts; then the next save must leave
nothing but the file. Moments between two renamings of one save are too short to be met at random, so that a save is
also ended before and after each of its renamings and removals.
"""

import argparse
import logging
import os
import random
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, line, publish, table

from napari_gpubio.core.errors import InvalidInput
from robustness.writers import WRITERS, Parts, Writer

OUTCOMES = ("old", "new", "part, warned", "wrong")
_OVER = 1.15  # kills are spread over the duration of a save and somewhat more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--kills", type=int, default=100, help="of each writer")
    parser.add_argument("--writers", nargs="+", choices=WRITERS, default=list(WRITERS), metavar="WRITER")


def run(arguments: argparse.Namespace) -> None:
    facts = header(quick=arguments.kills < 100)
    rows = []
    for name in arguments.writers:
        rows.append({"writer": name, **campaign(WRITERS[name], arguments.kills)})
        print(rows[-1], flush=True)
    path = arguments.json or RESULTS / f"robustness_saving_{facts['date']}.json"
    publish(path, {**facts, "kills": arguments.kills, "rows": rows}, report_text(facts, rows, arguments.kills))


def campaign(writer: Writer, kills: int) -> dict[str, Any]:
    """Kill a writer at random moments, and at each of its renamings; returns how often each came out."""
    versions = [writer.make(1), writer.make(2)]
    with tempfile.TemporaryDirectory(prefix="saving-") as folder:
        path = Path(folder, writer.file)
        parts = []
        for version in versions:
            writer.write(path, version)
            parts.append(writer.read(path))
        if parts[0] == parts[1]:
            raise RuntimeError(f"both versions of {writer.file} read the same")
        expected = _names(path)
        seconds = statistics.median(_killed(writer, path, versions[1], None) for _ in range(5))
        at_random, at_renamings, ended, leftovers, stayed = Counter(), Counter(), 0, 0, 0

        def once(die: Callable[[], None], outcomes: Counter[str]) -> None:
            nonlocal leftovers, stayed
            writer.write(path, versions[0])
            stayed += _names(path) != expected
            die()
            leftovers += _names(path) != expected
            outcomes[_outcome(writer, path, parts)] += 1

        for _ in range(kills):
            moment = random.uniform(0.0, _OVER * seconds)
            once(lambda moment=moment: _killed(writer, path, versions[1], moment), at_random)
        for place in range(2 * _changes(writer, path, versions[1])):
            once(lambda place=place: _ended_at(writer, path, versions[1], place), at_renamings)
            ended += 1
        writer.write(path, versions[0])
        stayed += _names(path) != expected
    return {
        "milliseconds": 1e3 * seconds, "kills": kills, **{o: at_random[o] for o in OUTCOMES}, "places": ended,
        "at_renamings": {o: at_renamings[o] for o in OUTCOMES}, "leftovers": leftovers, "stayed": stayed,
    }  # fmt: skip


def _names(path: Path) -> set[str]:
    return {entry.name for entry in path.parent.iterdir()}


def _killed(writer: Writer, path: Path, version: Any, moment: float | None) -> float:
    """Save in a process of its own, killed some seconds after it began; None: at its end. Returns how long it lived."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b".")
        _saved_and_gone(writer, path, version)
    os.read(reading, 1)
    begun = time.perf_counter()
    if moment is not None:
        while time.perf_counter() - begun < moment:
            time.sleep(min(0.001, max(0.0, moment - (time.perf_counter() - begun))))
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    return time.perf_counter() - begun


def _saved_and_gone(writer: Writer, path: Path, version: Any) -> None:
    try:
        writer.write(path, version)
    finally:
        os._exit(0)


@contextmanager
def _watched(seen: Callable[[], None]) -> Iterator[None]:
    """Call a function before and after whatever renames or removes a file."""
    kept = {name: getattr(os, name) for name in ("replace", "rename", "unlink", "remove")}

    def watched(work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any, **options: Any) -> Any:
            seen()
            found = work(*arguments, **options)
            seen()
            return found

        return done

    for name, work in kept.items():
        setattr(os, name, watched(work))
    try:
        yield
    finally:
        for name, work in kept.items():
            setattr(os, name, work)


def _changes(writer: Writer, path: Path, version: Any) -> int:
    """How many files a save renames or removes."""
    count = 0

    def seen() -> None:
        nonlocal count
        count += 1

    with _watched(seen):
        writer.write(path, version)
    return count // 2


def _ended_at(writer: Writer, path: Path, version: Any, place: int) -> None:
    """Save in a process that is killed before (even places) or after one of its renamings and removals."""
    child = os.fork()
    if child == 0:
        left = place + 1

        def seen() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        with _watched(seen):
            _saved_and_gone(writer, path, version)
    os.waitpid(child, 0)


def _outcome(writer: Writer, path: Path, versions: list[Parts]) -> str:
    """Which of `OUTCOMES` a file is."""
    warnings = _Warnings()
    logger = logging.getLogger("napari_gpubio")
    logger.addHandler(warnings)
    try:
        found = writer.read(path)
    except InvalidInput:
        return "part, warned"
    except Exception as error:  # noqa: BLE001 - whatever a reader raises beside InvalidInput is an answer
        print(f"{writer.file}: {error!r}")
        return "wrong"
    finally:
        logger.removeHandler(warnings)
    for name, version in zip(("old", "new"), versions, strict=True):
        if found == version:
            return name
    is_part = any(found.items() <= version.items() for version in versions)
    return "part, warned" if is_part and warnings.count else "wrong"


class _Warnings(logging.Handler):
    """Counts warnings, which a user sees."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, _: logging.LogRecord) -> None:
        self.count += 1


def report_text(facts: dict[str, Any], rows: list[dict[str, Any]], kills: int) -> str:
    """The results to read."""
    columns = ("writer", "save [ms]", *OUTCOMES, "places", *OUTCOMES, "leftovers", "stayed")
    lines = [
        line(
            r["writer"], f"{r['milliseconds']:.0f}", *(r[o] for o in OUTCOMES), r["places"],
            *(r["at_renamings"][o] for o in OUTCOMES), r["leftovers"], r["stayed"],
        )
        for r in rows
    ]  # fmt: skip
    meaning = (
        f"{kills} kills of each writer at random moments of a save over an older file, and one before and after each "
        "of its renamings and removals (*places*, and the columns after it). *Old*, *new*: all parts are those of the "
        "one or of the other. *Part, warned*: all that was read is of one version, a warning says what was left out. "
        "*Wrong*: anything else. *Leftovers*: kills that left other files behind; *stayed*: after the next save."
    )
    return "\n".join(["# Killed while saving", "", *header_lines(facts), "", meaning, "", *table(columns, lines), ""])
