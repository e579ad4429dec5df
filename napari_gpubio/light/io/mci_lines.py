"""Lines of MCML's text files: values in a fixed order, ``#`` begins a comment, blank lines stand anywhere.

Whatever is wrong is told with the number of its line.
"""

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f]")
_END_OF_FILE = "\x1a"  # with which DOS ended a text
_MOST_SHOWN = 60


class DataLines:
    """The lines of a file that hold data, one after the other.

    Parameters
    ----------
    path
        A text file.

    Attributes
    ----------
    path
        The file.
    number
        Of the current line, from 1.
    words
        The current line's words.
    comment
        What follows ``#`` in it.

    Raises
    ------
    InvalidInput
        If the file is missing or cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = existing_file(path)
        self.number = 0
        self.words: list[str] = []
        self.comment = ""
        try:
            self.text = self.path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise InvalidInput(f"{self.path.name} cannot be read ({error.strerror}); check its permissions") from error
        self._lines = iter(self.text.removesuffix("\n").split("\n"))

    def advance(self) -> bool:
        """Go to the next line with data; False if there is none."""
        for line in self._lines:
            self.number += 1
            if found := _NOT_TEXT.search(line):
                self.words = []
                raise self.failure(f"this is not text (byte {ord(found[0]):#04x}); give a file in MCML's text format")
            data, _, comment = line.replace(_END_OF_FILE, " ").partition("#")
            if words := data.split():
                self.words, self.comment = words, comment.strip()
                return True
        return False

    def next(self, what: str) -> list[str]:
        """Words of the next line with data.

        Raises
        ------
        InvalidInput
            If the file ends; ``what`` says what is missing.
        """
        if not self.advance():
            self.words = []
            raise self.failure(f"the file ends where {what} should follow")
        return self.words

    def numbers(self, count: int, what: str) -> list[str]:
        """Numbers of the next line with data, as they are written; words behind them are left out, as MCML does.

        Raises
        ------
        InvalidInput
            If they are no numbers, or more or fewer than ``count``.
        """
        words = self.next(what)
        for word in words[:count]:
            if not is_number(word):
                raise self.failure(f"{word[:_MOST_SHOWN]!r} is not a number; {what} must stand here")
        found = len(list(itertools.takewhile(is_number, words)))
        if found != count:
            raise self.failure(f"{what} must stand here: {count} number{'s' * (count > 1)}, not {found}")
        return words[:count]

    def floats(self, what: str) -> list[float]:
        """All numbers of the next line with data, however many.

        Raises
        ------
        InvalidInput
            If one is no number, or the file ends; ``what`` says what should follow.
        """
        words = self.next(what)
        try:
            return [float(word) for word in words]
        except ValueError as error:
            raise self.failure(f"numbers of {what} must stand here") from error

    def whole_numbers(self, count: int, what: str) -> list[int]:
        """Integers of the next line with data; 1e6 is one as well.

        Raises
        ------
        InvalidInput
            As `numbers`, or if one is not whole.
        """
        words = self.numbers(count, what)
        for word in words:
            if not float(word).is_integer():
                raise self.failure(f"{word} is not an integer; {what} must stand here")
        return [int(float(word)) for word in words]

    def failure(self, reason: str) -> InvalidInput:
        """The error that names the current line and shows it."""
        shown = " ".join(self.words)
        shown = shown[:_MOST_SHOWN] + "…" if len(shown) > _MOST_SHOWN else shown
        return InvalidInput(f"{self.path.name}, line {self.number}: {reason}" + (f" (“{shown}”)" if shown else ""))

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Put the current line in front of what is wrong with values that came from it."""
        try:
            yield
        except InvalidInput as error:
            raise self.failure(str(error)) from error


def is_number(word: str) -> bool:
    """Whether a word is a number as MCML's files have them."""
    return _NUMBER.fullmatch(word) is not None


def moved_point(digits: str, places: int) -> Decimal:
    """A number as it is written, times a power of ten, with its point moved.

    Multiplied as a float, 0.011 cm would become 0.10999999999999999 mm.
    """
    return Decimal(digits).scaleb(places)
