"""Numbers, texts and structs from MATLAB files of version 5 to 7, which is what programs of fNIRS save.

SciPy's reader of these files ends the whole program on some damaged ones.
"""

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import existing_map

Array = npt.NDArray[Any]
_HEADER, _ORDERS = 128, {b"IM": "<", b"MI": ">"}
_MATRIX, _PACKED, _UTF8 = 14, 15, 16
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # of elements
_TEXTS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_STRUCT, _TEXT, _NUMBERS = 2, 4, range(6, 16)  # classes of matrices
_COMPLEX = 0x800
_MAX_NESTED_STRUCTS = 8
_BEGINNING = 1 << 10  # of a packed matrix, which has its name
_MAX_BYTES = 1 << 26  # of a matrix that is wanted
_MAX_AXES, _MAX_ELEMENTS = 32, 1_000_000
_DAMAGED = "a matrix in it is incomplete or damaged; copy or export the file again"


def read_matlab(path: str | Path, wanted: Collection[str]) -> dict[str, Any]:
    """Read matrices by their names: arrays, texts, and structs as dictionaries; what is another thing is None.

    Parameters
    ----------
    path
        A file that MATLAB saved with ``-v6`` or ``-v7``, its default.
    wanted
        Names; what is not in the file is left out.

    Raises
    ------
    InvalidInput
        If the file is missing or of another kind, or a matrix of these is damaged.
    """
    data = memoryview(existing_map(path))
    if bytes(data[:4]) == b"\x89HDF" or bytes(data[:10]) == b"MATLAB 7.3":
        raise InvalidInput("it is a file of MATLAB 7.3, which is HDF5; save it there with -v7")
    order = _ORDERS.get(bytes(data[_HEADER - 2 : _HEADER]))
    if order is None:
        raise InvalidInput("it does not begin as a MATLAB file of version 5 to 7; give such a file")
    found: dict[str, Any] = {}
    for kind, element in _elements(data[_HEADER:], order):
        if kind == _PACKED:
            begin = _inflated(element, _BEGINNING)
            if _name(begin[8:], order) not in wanted:
                continue
            kind, element = next(_elements(memoryview(_inflated(element, _MAX_BYTES)), order), (0, element))
        if kind == _MATRIX and (name := _name(element, order)) in wanted:
            found[name] = _matrix(element, order)
    return found


def _inflated(element: memoryview, most: int) -> memoryview:
    """The first bytes of what is packed."""
    try:
        return memoryview(zlib.decompressobj().decompress(element, most))
    except zlib.error as error:
        raise InvalidInput(_DAMAGED) from error


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Type and bytes of elements that follow each other, up to zeros; the last one may be cut, and so are its bytes."""
    at = 0
    for _ in range(_MAX_ELEMENTS):
        kind, size = struct.unpack_from(f"{order}II", data, at) if at + 8 <= len(data) else (0, 0)
        if not kind:
            return
        if small := kind >> 16:
            yield kind & 0xFFFF, data[at + 4 : at + 4 + min(small, 4)]
            at += 8
        else:
            yield kind, data[at + 8 : at + 8 + size]
            at += 8 + size + (-size % 8 if kind != _PACKED else 0)


def _name(matrix: memoryview, order: str) -> str:
    for number, (_, element) in enumerate(_elements(matrix, order)):
        if number == 2:
            return bytes(element).decode("latin-1")
    return ""


def _matrix(data: memoryview, order: str, depth: int = 0) -> Any:
    """The value of a matrix."""
    parts = list(_elements(data, order))
    if len(parts) < 3:
        return None if not parts else np.empty(0)  # as an empty field is written
    flags, *_ = _numbers(parts[0], order).tolist() or [0]
    shape = [int(length) for length in _numbers(parts[1], order)]
    kind, rest = int(flags) & 0xFF, parts[3:]
    if kind == _STRUCT and len(rest) >= 2 and math.prod(shape) == 1 and depth < _MAX_NESTED_STRUCTS:
        width = int(_numbers(rest[0], order)[:1].sum())
        names = bytes(rest[1][1])
        keys = [names[at : at + width].split(b"\0")[0].decode("latin-1") for at in range(0, len(names), max(width, 1))]
        values = [_matrix(element, order, depth + 1) for which, element in rest[2:] if which == _MATRIX]
        return dict(zip(keys, values, strict=False))
    if kind == _TEXT:
        coding = _TEXTS.get(rest[0][0], "latin-1") if rest else "latin-1"
        coding += {"<": "-le", ">": "-be"}[order] if coding in ("utf-16", "utf-32") else ""
        return bytes(rest[0][1]).decode(coding, "replace") if rest else ""
    if kind not in _NUMBERS or int(flags) & _COMPLEX:
        return None
    numbers = _numbers(rest[0], order) if rest else np.empty(0)
    if min(shape, default=0) < 0 or math.prod(shape) != numbers.size or len(shape) > _MAX_AXES:
        raise InvalidInput(_DAMAGED)
    return numbers.reshape(shape, order="F") if numbers.size else np.empty(0)


def _numbers(part: tuple[int, memoryview], order: str) -> Array:
    kind, element = part
    dtype = np.dtype(order + _TYPES.get(kind, "u1"))
    return np.frombuffer(element, dtype, len(element) // dtype.itemsize).copy()
