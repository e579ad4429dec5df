"""Places that cannot be written: a full disk, a read-only folder, one that vanishes, a network folder that is gone.

Every writer writes over an older file there. It must raise InvalidInput with one sentence that names the file (or its
folder), leave the old file whole and nothing beside it, and print nothing, neither then nor when the program ends.
Needs Linux, and root for a small disk of its own.

* *full disk*: a tmpfs with some kilobytes to spare.
* *read-only*: that disk, mounted anew as read-only.
* *vanished*: the folder has been renamed before the save.
* *vanishing*: it is renamed while the file is written: when the writer first writes to it.
* *network*, *network later*: every call that touches the folder fails as on a network folder whose server has gone
  (ESTALE, "Stale file handle"): open, stat, rename, remove, list; from the beginning, or from when the writer has first
  written to it. They are made to fail inside Python, because no network file system can be mounted here.

What cannot be removed because its folder is out of reach must be gone after the next save there.
"""

import argparse
import builtins
import errno
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, line, publish, table

from napari_gpubio.core.errors import InvalidInput
from robustness.writers import WRITERS, Writer

PLACES = ("full disk", "read-only", "vanished", "vanishing", "network", "network later")
_OUT_OF_REACH = ("vanishing", "network later")
_CALLS = ("open", "stat", "lstat", "replace", "rename", "unlink", "listdir", "scandir")
_ROOM = 3000  # bytes that are left on the full disk


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--writers", nargs="+", choices=WRITERS, default=list(WRITERS), metavar="WRITER")
    parser.add_argument("--one", nargs=2, metavar=("WRITER", "PLACE"), help="one of them, in this process")


def run(arguments: argparse.Namespace) -> None:
    if arguments.one:
        print(outcome(WRITERS[arguments.one[0]], arguments.one[1]))
        return
    facts, rows = header(quick=False), []
    for name in arguments.writers:
        rows.append({"writer": name, **{place: of_its_own(name, place) for place in PLACES}})
        print(rows[-1], flush=True)
    path = arguments.json or RESULTS / f"robustness_places_{facts['date']}.json"
    publish(path, {**facts, "rows": rows}, report_text(facts, rows))


def of_its_own(name: str, place: str) -> str:
    """Try a writer in another process, whose last words count too."""
    command = [sys.executable, sys.argv[0], "places", "--one", name, place]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    said, _, found = done.stdout.strip().rpartition("\n")
    more = [what for what in (said, done.stderr.strip()) if what]
    return " | ".join([found, *(f"PRINTED {what[-300:]}" for what in more)])


def outcome(writer: Writer, place: str) -> str:
    """What a writer says in a place, and what is wrong with what it leaves there; in the form of the table."""
    versions = [writer.make(1), writer.make(2)]
    with _small_disk() as disk:
        folder = disk / "work"
        folder.mkdir()
        path = folder / writer.file
        writer.write(path, versions[0])
        old, names = writer.read(path), _names(folder)
        text, home = "", folder
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
            with _failing(place, disk, path) as now_at:
                try:
                    writer.write(path, versions[1])
                    text = "NOTHING SAID"
                except InvalidInput as error:
                    text = str(error)
                except BaseException as error:  # noqa: BLE001 - that is what is looked for
                    text = f"{type(error).__name__.upper()} {error}"
            home = now_at()
        faults = [f"PRINTED {stream.getvalue()}" for stream in (out, errors) if stream.getvalue()]
        faults += _faults(writer, home / writer.file, names, old, versions[1] if place in _OUT_OF_REACH else None)
        if path.name.split(".")[0] not in text and str(folder) not in text:
            faults.append("NO NAME")
        if text.count(". ") > 1 or "\n" in text or "part-" in text:
            faults.append("NO SENTENCE")
    return "; ".join([text.replace(str(disk), ""), *faults])


def _faults(writer: Writer, path: Path, names: set[str], old: dict[str, str], following: Any) -> list[str]:
    """What is wrong with what is there now; ``following`` is what to save there next, before leftovers count."""
    found = []
    try:
        if writer.read(path) != old:
            found.append("OLD FILE CHANGED")
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        found.append(f"OLD FILE LOST {error!r}")
    if following is not None:
        writer.write(path, following)
    if more := _names(path.parent) - names:
        found.append(f"LEFT {sorted(more)}")
    return found


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


# -- places -----------------------------------------------------------------------------------------------------------
@contextmanager
def _small_disk() -> Iterator[Path]:
    """A tmpfs of its own, large enough for the old file."""
    folder = Path(tempfile.mkdtemp(prefix="places-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()


@contextmanager
def _failing(place: str, disk: Path, path: Path) -> Iterator[Callable[[], Path]]:
    """Make a place fail inside the block; gives a function that returns the folder where the old file is afterwards."""
    folder, elsewhere = path.parent, disk / "elsewhere"
    if place == "full disk":
        with _filled(disk):
            yield lambda: folder
    elif place == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        try:
            yield lambda: folder
        finally:
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    elif place == "vanished":
        folder.rename(elsewhere)
        yield lambda: elsewhere
    else:
        with _vanishing(folder, elsewhere, stale=place != "vanishing", at_once=place == "network"):
            yield lambda: elsewhere if elsewhere.exists() else folder


@contextmanager
def _filled(disk: Path) -> Iterator[None]:
    filler = disk / "filler"
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler.write_bytes(bytes(max(0, free - _ROOM)))
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _vanishing(folder: Path, elsewhere: Path, *, stale: bool, at_once: bool) -> Iterator[None]:
    """Rename a folder when a file in it has been created; ``stale``: instead every call there fails from then on."""
    gone = at_once
    kept = {name: getattr(os, name) for name in _CALLS}
    opened = io.open

    def watched(work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*arguments: Any, **options: Any) -> Any:
            nonlocal gone
            place = arguments[0] if arguments else options.get("file")
            is_there = isinstance(place, (str, os.PathLike)) and str(os.fspath(place)).startswith(str(folder))
            if is_there and gone and stale:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(place))
            found = work(*arguments, **options)
            if is_there and not gone and ".part-" in str(place):
                gone = True
                if not stale:
                    kept["rename"](folder, elsewhere)
            return found

        return done

    for name, work in kept.items():
        setattr(os, name, watched(work))
    builtins.open = io.open = watched(opened)
    try:
        yield
    finally:
        for name, work in kept.items():
            setattr(os, name, work)
        builtins.open = io.open = opened


def report_text(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The results to read."""

    def cell(text: str) -> str:
        capital = [word for word in text.split() if word.isupper() and len(word) > 3 and word.isalpha()]
        return "refused" if not capital else text

    lines = [line(r["writer"], *(cell(r[place]) for place in PLACES)) for r in rows]
    sentences = [f"* {place}: {rows[0][place]}" for place in PLACES]
    meaning = "*Refused*: one sentence as InvalidInput, the old file whole, nothing left beside it, nothing printed."
    head = ["# Places that cannot be written", "", *header_lines(facts), "", meaning]
    example = [f"For instance ({rows[0]['writer']}):", "", *sentences]
    return "\n".join([*head, "", *table(("writer", *PLACES), lines), "", *example, ""])
