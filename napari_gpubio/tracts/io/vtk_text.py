"""The grammar of legacy VTK files: lines of words with blocks of numbers between them, as text or big-endian binary."""

import re
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
TYPES = {
    "char": "i1",
    "signed_char": "i1",
    "unsigned_char": "u1",
    "short": "i2",
    "unsigned_short": "u2",
    "int": "i4",
    "unsigned_int": "u4",
    "vtktypeint64": "i8",
    "vtktypeuint64": "u8",
    "long": "i8",
    "unsigned_long": "u8",
    "vtkidtype": "i4",  # VTK narrows its index type when it writes
    "float": "f4",
    "double": "f8",
}
_SPACE = re.compile(rb"\s")
_TEXT_BLOCK = 2**20  # bytes split into words at once
_LONGEST_WORD = 64


class VtkText:
    """A place in the bytes of a legacy VTK file.

    Parameters
    ----------
    data
        The whole file.
    """

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._at = 0
        self.binary = False

    def line(self) -> list[str]:
        """Give the words of the next line that is not blank; none at the end of the file."""
        while self._at < len(self._data):
            if words := self.raw_line().split():
                return words
        return []

    def raw_line(self) -> str:
        """Give the rest of the line as it is."""
        end = self._data.find(b"\n", self._at)
        end = len(self._data) if end < 0 else end
        line = self._data[self._at : end]
        self._at = end + 1
        return line.decode("utf-8", "replace").rstrip("\r")

    def begins_with(self, word: bytes) -> bool:
        """Tell whether the next bytes are these; they are not consumed."""
        return self._data.startswith(word, self._at)

    def skip_metadata(self) -> None:
        """Go behind the blank line that closes a METADATA block."""
        while self._at < len(self._data) and self.raw_line().strip():
            pass

    def count(self, word: str) -> int:
        """Read a number of things from a word.

        Raises
        ------
        InvalidInput
            If it is no integer, or the file has fewer bytes than that.
        """
        if not word.isdecimal() or int(word) > len(self._data):
            raise InvalidInput(f"the file promises {word} values and has {len(self._data)} bytes; export it again")
        return int(word)

    def numbers(self, count: int, type_name: str) -> Array:
        """Read a block of numbers in native byte order, shape (count,).

        Raises
        ------
        InvalidInput
            If the type is unknown or the file ends first.
        """
        if (code := TYPES.get(type_name.lower())) is None:
            raise InvalidInput(f"numbers of type {type_name!r} are not read; export the file with float or int")
        dtype = np.dtype(code)
        left = len(self._data) - self._at
        if count * (dtype.itemsize if self.binary else 2) > left + 1:
            raise InvalidInput(f"{count} numbers are promised and {left} bytes are left; the file is cut off")
        return self._binary_numbers(count, dtype) if self.binary else self._text_numbers(count, dtype)

    def _binary_numbers(self, count: int, dtype: np.dtype[Any]) -> Array:
        values = np.frombuffer(self._data, dtype.newbyteorder(">"), count, self._at)
        self._at += values.nbytes
        return values.astype(dtype)

    def _text_numbers(self, count: int, dtype: np.dtype[Any]) -> Array:
        values, done = np.empty(count, dtype), 0
        read = float if dtype.kind == "f" else int
        while done < count:
            words, taken = self._words(count - done)
            if not words:
                raise InvalidInput(f"{count} numbers are promised and {done} are there; the file is cut off")
            values[done : done + len(words)] = np.fromiter(map(read, words), dtype, len(words))
            done += len(words)
            self._at += taken
        return values

    def _words(self, most: int) -> tuple[list[bytes], int]:
        """Give up to ``most`` words from here on, and the number of bytes they take."""
        stop = min(self._at + _TEXT_BLOCK, len(self._data))
        gap = _SPACE.search(self._data, stop)
        stop = gap.start() if gap else len(self._data)
        block = bytes(self._data[self._at : stop])
        words = block.split(None, most)
        rest = len(words.pop()) if len(words) > most else 0
        if any(len(word) > _LONGEST_WORD for word in words):
            raise InvalidInput(f"there is a word of more than {_LONGEST_WORD} letters among the numbers")
        return words, len(block) - rest

    def strings(self, count: int) -> list[str]:
        """Read texts: one a line, or in binary files each behind its length."""
        return [self._binary_string() if self.binary else unquote(self.raw_line()) for _ in range(count)]

    def _binary_string(self) -> str:
        """The two highest bits of the first byte tell how many bytes the length has: 8, 4, 2 or 1."""
        size = 8 >> (self._data[self._at] >> 6)
        coded = int.from_bytes(self._data[self._at : self._at + size], "big")
        length = coded & ~(3 << (8 * size - 2))
        text = self._data[self._at + size : self._at + size + length]
        self._at += size + len(text)
        return text.decode("utf-8", "replace")
