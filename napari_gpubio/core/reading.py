"""What every reader of files does: a refusal names the file, notes say what was assumed, and libraries print nothing.

A reader separates what is needed to look at the data (an array and its grid) from what an engine needs (gradients,
units, orientation, structures). Only the first can make it refuse a file. Of the second, what is not read is either
assumed, and `note` says so, or missing, and the engine that needs it says so. One bad member of a set (a contour, a
fiber, a volume, a frame) is left out, and a note counts it.

Notes go with what was read: into its ``notes`` (`reads_file`), into the metadata of layers
(`napari_gpubio.core.napari_io.read_each`), and to whoever listens (`noted`), which the command line does. Where nobody
does they are logged as warnings.
"""

import dataclasses
import functools
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from napari_gpubio.core.errors import InvalidInput, printable
from napari_gpubio.core.text import first_of

logger = logging.getLogger(__name__)
_LIBRARIES = ("nibabel.global", "tifffile", "pydicom", "PIL")  # names of the loggers of those that read files
_MOST_NAMED = 6  # files in a sentence
_here = threading.local()  # the names of the files that this thread reads, the innermost one last
Read = TypeVar("Read", bound=Callable[..., Any])
NOTES = "notes"  # where a result and a layer's metadata have them


class ReadingNote(Warning):
    """What a reader assumed or left out; napari shows it when a file is opened."""


warnings.filterwarnings("always", category=ReadingNote)  # each time, not once for each line of code


def note(text: str) -> None:
    """Say what was assumed or left out of the file that is read; its name is put in front where it is not there.

    ``text`` begins with a small letter and has no full stop, as the notes of results.
    """
    _tell(_named(printable(text)))


def only_of(folder: Path, found: Sequence[Path], what: str) -> Path | None:
    """Return the only file that was found in a folder, and note it; None if there is none.

    Raises
    ------
    InvalidInput
        If there are several; ``what`` they are is a plural.
    """
    names = [one.relative_to(folder).as_posix() for one in found]
    if len(names) > 1:
        raise InvalidInput(f"{folder.name} holds {len(names)} {what}; give one of {first_of(names, _MOST_NAMED)}")
    if names:
        note(f"of {folder.name}, {names[0]} is taken")
    return found[0] if found else None


def _named(text: str) -> str:
    names = getattr(_here, "names", ())
    is_there = names and re.search(rf"(?<!\w){re.escape(names[-1])}(?!\w)", text)
    return f"{names[-1]}: {text}" if names and not is_there else text


def _tell(*notes: str) -> None:
    """Give notes to all who listen, or to the log."""
    listeners = getattr(_here, "listeners", ())
    for text in notes:
        for hear in listeners:
            hear(text)
        if not listeners:
            logger.warning("%s", text)


@contextmanager
def _heard_by(*listeners: Callable[[str], object]) -> Iterator[None]:
    """Let these hear the notes of what is read inside, in this thread, in place of those before."""
    before = getattr(_here, "listeners", ())
    _here.listeners = listeners
    try:
        yield
    finally:
        _here.listeners = before


@contextmanager
def noted(hear: Callable[[str], object] | None = None) -> Iterator[list[str]]:
    """Collect the notes of all that is read inside, in this thread, each once.

    Parameters
    ----------
    hear
        Called with each of them as soon as it is known.
    """
    found: list[str] = []

    def listen(text: str) -> None:
        if text not in found:
            found.append(text)
            if hear is not None:
                hear(text)

    with _heard_by(*getattr(_here, "listeners", ()), listen):
        yield found


@contextmanager
def without_notes() -> Iterator[None]:
    """Drop the notes of what is read, or written, once more: they were given before."""
    with _heard_by(lambda _: None):
        yield


@contextmanager
def members(names: Collection[str]) -> Iterator[None]:
    """Hold back notes on members of a set, such as slices, and tell those that differ by the member's name once.

    ``names``: of the members' files.
    """
    held = list[str]()
    try:
        with _heard_by(held.append):
            yield
    finally:
        _tell(*(text if text in held else _named(text) for text in grouped(held, names)))


def grouped(notes: Iterable[str], names: Collection[str]) -> list[str]:
    """Return notes on files, each once; those that differ by the file's name alone as one that counts the files."""
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(notes):
        name, _, rest = text.partition(": ")
        alike.setdefault(rest if name in names else text, []).append(text)
    return [texts[0] if len(texts) == 1 else f"{len(texts)} files: {rest}" for rest, texts in alike.items()]


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Enclose the reading of a file.

    Every `InvalidInput` from inside names it. What libraries tell of its oddities (a code that is not valid and was set
    to 0) goes to this module's log, as information. Numbers that overflow become infinite without a warning; what is
    not finite is refused where it is used.

    Raises
    ------
    InvalidInput
        If the system does not let the file be read.
    """
    name = Path(path).name
    with _quiet_libraries(name), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            yield
        except InvalidInput as error:
            is_named = error.file is not None or name in str(error)  # this file, or one that it leads to
            error.file = error.file or name
            if is_named:
                raise
            named = InvalidInput(f"{name}: {error}")
            named.file = name
            raise named from error
        except OSError as error:  # no permission, a disk that was removed; it may be a file that this one leads to
            which = Path(error.filename).name if isinstance(error.filename, str) else name
            refusal = InvalidInput(
                f"{which} cannot be read ({error.strerror or error}); check its permissions and its disk"
            )
            refusal.file = which
            raise refusal from error


def reads_file(read: Read) -> Read:
    """Enclose all of a function, whose first argument is a path, in `reading`; notes go into what it returns, too.

    A result without ``notes`` leaves them to whoever listens.
    """

    @functools.wraps(read)
    def enclosed(path: str | os.PathLike[str], *arguments: Any, **keywords: Any) -> Any:
        with reading(path):
            with noted() as found:
                result: Any = read(path, *arguments, **keywords)
            if dataclasses.is_dataclass(result) and hasattr(result, NOTES):
                own = getattr(result, NOTES)
                new = [text for text in found if not any(text.endswith(known) for known in own)]
                result = dataclasses.replace(cast("Any", result), notes=(*own, *new))
                if getattr(_here, "listeners", ()):  # what was found has been heard already
                    _tell(*(_named(text) for text in own if not any(heard.endswith(text) for heard in found)))
            elif not getattr(_here, "listeners", ()):
                _tell(*found)
        return result

    return cast("Read", enclosed)


class _ToOurLog(logging.Filter):
    """Takes what a library logs while this thread reads a file of ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        names = getattr(_here, "names", ())
        if names:
            logger.info("%s: %s", names[-1], record.getMessage())
        return not names


class _Silence:
    """Keeps warnings off from the first reader that begins until the last one ends, in whatever threads they are.

    Each for itself would restore the filters in the wrong order, as `warnings.catch_warnings` does in several threads.
    """

    def __init__(self) -> None:
        self._lock, self._readers = threading.Lock(), 0
        self._before = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._readers == 0:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("ignore", UserWarning)
                warnings.simplefilter("ignore", SyntaxWarning)  # of the headers of arrays, which NumPy reads as Python
            self._readers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._readers -= 1
            if self._readers == 0:
                self._before.__exit__(None, None, None)


_silence, _to_our_log = _Silence(), _ToOurLog()


@contextmanager
def _quiet_libraries(name: str) -> Iterator[None]:
    for library in _LIBRARIES:
        logging.getLogger(library).addFilter(_to_our_log)  # once, however often
    before = getattr(_here, "names", ())
    _here.names = (*before, name)
    try:
        with _silence:
            yield
    finally:
        _here.names = before
