"""Binary JSON (BJData, and UBJSON before it), in which MCX saves binary JNIfTI files (``.bnii``).

Written from the specifications of BJData (Draft 3) and UBJSON (Draft 12), which are alike but for the order of bytes:
numbers of BJData are little-endian, those of UBJSON big-endian. A file does not say which; the wrong one makes no sense
of its lengths. Packed tables (SOA) and extensions of later drafts are refused.
"""

from collections.abc import Callable
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
_NUMBERS = {
    "i": "i1", "U": "u1", "B": "u1", "I": "i2", "u": "u2", "l": "i4", "m": "u4", "L": "i8", "M": "u8", "h": "f2",
    "d": "f4", "D": "f8", "C": "u1",
}  # fmt: skip
_WHOLE = "iUBIulmLM"
_CONSTANTS = {"Z": None, "T": True, "F": False}
_MAX_DEPTH = 100
_MAX_AXES = 8


class _DamagedError(Exception):
    """What stands in the bytes is not what the format has there."""


def decode_bjdata(data: bytes | mmap, name: str) -> Any:
    """Return what binary JSON holds: dicts, lists, texts, numbers; packed arrays of numbers as arrays.

    Raises
    ------
    InvalidInput
        If it is damaged, or no such file; ``name`` is that of the file.
    """
    problems = []
    for order in "<>":
        try:
            return _Reader(data, order).whole()
        except _DamagedError as error:
            problems.append(str(error))
    raise InvalidInput(f"{name} is not binary JSON that can be read ({problems[0]}); save it again, or as text")


class _Reader:
    """The bytes, and how far they have been read."""

    def __init__(self, data: bytes | mmap, order: str) -> None:
        self._data, self._order, self._at = memoryview(data), order, 0

    def whole(self) -> Any:
        """The value that fills the file."""
        value = self._value(self._marker(), 0)
        if any(byte != ord("N") for byte in self._data[self._at :]):
            raise _DamagedError(f"there is more after byte {self._at}")
        return value

    def _take(self, count: int) -> memoryview:
        if not 0 <= count <= len(self._data) - self._at:
            raise _DamagedError(f"{count} bytes are missing at byte {self._at}")
        self._at += count
        return self._data[self._at - count : self._at]

    def _marker(self) -> str:
        """The next marker but "no operation"."""
        while (marker := chr(self._take(1)[0])) == "N":
            pass
        return marker

    def _next_is(self, marker: str) -> bool:
        if self._data[self._at : self._at + 1] != marker.encode():
            return False
        self._at += 1
        return True

    def _numbers(self, marker: str, count: int) -> Array:
        dtype = np.dtype(self._order + _NUMBERS[marker])
        return np.frombuffer(self._take(count * dtype.itemsize), dtype)

    def _length(self) -> int:
        marker = self._marker()
        if marker not in _WHOLE:
            raise _DamagedError(f"there is no length at byte {self._at - 1}")
        return int(self._numbers(marker, 1)[0])

    def _text(self) -> str:
        try:
            return bytes(self._take(self._length())).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _DamagedError(f"there is no text at byte {self._at}") from error

    def _value(self, marker: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _DamagedError("it is nested too deeply")
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == "C":
            return chr(self._take(1)[0])
        if marker in _NUMBERS:
            return self._numbers(marker, 1)[0].item()
        if marker in "SH":
            return self._text() if marker == "S" else self._long_number()
        if marker not in "[{":
            raise _DamagedError(f"the marker {marker!r} at byte {self._at - 1} is not known")
        return self._array(depth + 1) if marker == "[" else self._object(depth + 1)

    def _long_number(self) -> float:
        """A number that is written out as text."""
        try:
            return float(self._text())
        except ValueError as error:
            raise _DamagedError(f"there is no number at byte {self._at}") from error

    def _header(self, depth: int) -> tuple[str | None, int | tuple[int, ...] | None]:
        """Type and number of what a container holds, where they are given; of an array of several axes its shape."""
        kind = chr(self._take(1)[0]) if self._next_is("$") else None
        if not self._next_is("#"):
            if kind is not None:
                raise _DamagedError(f"a number is missing at byte {self._at}")
            return None, None
        if not self._next_is("["):
            return kind, self._length()
        shape = self._value("[", depth)
        shape = shape.tolist() if isinstance(shape, np.ndarray) else shape
        if not 1 <= len(shape) <= _MAX_AXES or not all(type(size) is int and size >= 0 for size in shape):
            raise _DamagedError(f"there is no shape before byte {self._at}")
        return kind, tuple(shape)

    def _array(self, depth: int) -> Any:
        kind, count = self._header(depth)
        if kind is not None and kind in _NUMBERS:
            shape = count if isinstance(count, tuple) else (count or 0,)
            if min(shape) < 0:
                raise _DamagedError(f"the length at byte {self._at} is negative")
            return self._numbers(kind, int(np.prod(shape, dtype=object))).reshape(shape)
        return self._filled(kind, count, "]", lambda marker: self._value(marker, depth))

    def _object(self, depth: int) -> dict[str, Any]:
        kind, count = self._header(depth)
        if count is None:
            fields = {}
            while not self._ends_with("}"):
                key = self._text()
                fields[key] = self._value(self._marker(), depth)
            return fields
        if isinstance(count, tuple):
            raise _DamagedError("it has a packed table")
        return {self._text(): self._value(kind or self._marker(), depth) for _ in range(self._checked(count))}

    def _filled(
        self, kind: str | None, count: int | tuple[int, ...] | None, end: str, read: Callable[[str], Any]
    ) -> list[Any]:
        if isinstance(count, tuple):
            raise _DamagedError("it has a packed table")
        if count is not None:
            return [read(kind or self._marker()) for _ in range(self._checked(count))]
        values = []
        while not self._ends_with(end):
            values.append(read(self._marker()))
        return values

    def _checked(self, count: int) -> int:
        """A number of values, each of which takes a byte at least, or of constants, which take none."""
        if not 0 <= count <= len(self._data):
            raise _DamagedError(f"{count} values do not fit at byte {self._at}")
        return count

    def _ends_with(self, marker: str) -> bool:
        while self._next_is("N"):
            pass
        return self._next_is(marker)
